package proxy

import (
	"bytes"
	"io"
	"math/bits"
	"sync"

	"github.com/tidwall/redcon"
)

// A guard's buffer doubles with what a client sends at once. Buffers up to
// keptInput are used again, by any guard, and so are the slices beside them
// up to these capacities.
const (
	inputSizes = 5
	minInput   = 4 << 10
	keptInput  = minInput << (inputSizes - 1)
	keptReady  = 1 << 10
	keptArgs   = 4 << 10
)

// input is what a guard needs while its client is sending. Idle clients, which
// are most, do without.
type input struct {
	buf   []byte
	ready []redcon.Command
	argv  [][]byte // backing of ready's Args
}

// inputs are those not in use, by the size of their buffers.
var inputs [inputSizes]sync.Pool

// sizeClass returns the i for which minInput<<i is enough.
func sizeClass(size int) int {
	return bits.Len(uint(max(size, 1)-1) / minInput)
}

// takeInput returns an input whose buffer has at least size bytes, which are
// no more than keptInput.
func takeInput(size int) *input {
	class := sizeClass(size)
	if in, ok := inputs[class].Get().(*input); ok {
		return in
	}
	return &input{buf: make([]byte, minInput<<class)}
}

// giveBack lets others use the input.
func (in *input) giveBack() {
	if len(in.buf) > keptInput {
		return
	}
	in.forget()
	inputs[sizeClass(len(in.buf))].Put(in)
}

// forget drops the commands, and the memory that many of them took.
func (in *input) forget() {
	clear(in.ready)
	clear(in.argv)
	in.ready, in.argv = in.ready[:0], in.argv[:0]
	if cap(in.ready) > keptReady {
		in.ready = nil
	}
	if cap(in.argv) > keptArgs {
		in.argv = nil
	}
}

// fill reads once from the client. p is where to read while nothing is kept.
func (g *guard) fill(p []byte) error {
	if g.r == g.w && !g.full {
		return g.await(p)
	}
	g.makeRoom()
	n, err := g.src.Read(g.buf[g.w:])
	g.w += n
	g.full = g.w == len(g.buf)
	return g.progress(n, err)
}

// await reads from a client that may be idle for long.
func (g *guard) await(p []byte) error {
	if g.input != nil {
		g.giveBack()
		g.input = nil
	}
	g.r, g.w = 0, 0
	p = p[:min(len(p), keptInput)]
	n, err := g.src.Read(p)
	if n > 0 {
		g.input = takeInput(n)
		g.w = copy(g.buf, p[:n])
		g.full = n == len(p)
	}
	return g.progress(n, err)
}

// progress is the outcome of a read. An error that came with bytes will come
// again. None is kept: a deadline can be lifted.
func (g *guard) progress(n int, err error) error {
	if n > 0 {
		g.reads.Add(1)
		return nil
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// makeRoom sees to it that the buffer has room behind what is unparsed, much of
// it as long as the client fills it.
func (g *guard) makeRoom() {
	have, size := g.w-g.r, len(g.buf)
	switch {
	case have == size:
		g.resize(g.grown())
	case g.full && size < keptInput:
		g.resize(2 * size)
	case !g.full && size > minInput && have <= size/4:
		g.resize(have + 1)
	case g.r > 0:
		g.w = copy(g.buf, g.buf[g.r:g.w])
		g.r = 0
	}
}

// grown is the size of the next larger buffer: twice as large or about that, so
// that the argument that does not fit will have a buffer of just its size, and
// some for what may follow it. Not for one that is just a little too long: a
// command of many would be moved for each.
func (g *guard) grown() int {
	size := len(g.buf)
	need := g.pos + g.bulk + minInput
	if size < keptInput || g.args == 0 || need < size+size/4 {
		return 2 * size
	}
	for need > 2*size+size/2 {
		need = (need + 1) / 2
	}
	return need
}

// resize moves what is unparsed to a buffer of that size or somewhat more.
func (g *guard) resize(size int) {
	unparsed := g.buf[g.r:g.w]
	if size > keptInput {
		g.buf = make([]byte, size)
		g.w = copy(g.buf, unparsed)
	} else {
		other := takeInput(size)
		g.w = copy(other.buf, unparsed)
		g.buf, other.buf = other.buf, g.buf
		other.giveBack()
	}
	g.r = 0
}

// own gives a large command memory of its own: the buffer it lies in, or a copy
// when it is the smaller part of that.
func (g *guard) own(raw []byte) []byte {
	rest := g.buf[g.r:g.w]
	if len(rest) > len(raw) {
		return bytes.Clone(raw)
	}
	g.buf = make([]byte, minInput<<sizeClass(len(rest)))
	g.r, g.w = 0, copy(g.buf, rest)
	g.full = false
	return raw
}
