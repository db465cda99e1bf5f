package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"time"
)

// fewConnections is what many connections are compared with.
const fewConnections = 256

// manyConnections measures what many connections cost: the memory of the proxy,
// or of Redis if there is none, while they are idle, and the throughput while
// they are busy with the first of the loads.
func (b *bench) manyConnections(ctx context.Context) error {
	fmt.Fprintf(b.out, "Resident memory with %s connections that have sent a `GET` and are idle:\n\n", thousands(float64(b.connections)))
	fmt.Fprint(b.out, tableRow("through", "before", "with them", "per connection"), tableRow("---", "--:", "--:", "--:"))
	for _, c := range b.candidates {
		if c.denying {
			continue
		}
		before, with, err := idleMemory(ctx, c, b.connections)
		if err != nil {
			b.fail(err)
		}
		fmt.Fprint(b.out, tableRow(c.name, megabytes(before), megabytes(with),
			number((with-before)/float64(b.connections)/1e3, 1)+" kB"))
	}
	load := b.loads[0]
	fmt.Fprintf(b.out, "\n%s, P = 1, busy:\n\n%s", load.name, heading(b.reference))
	return b.with(ctx, load, func(taking []candidate) error {
		few, err := b.measure(ctx, taking, load, fewConnections, 1)
		if err != nil {
			return err
		}
		many, err := b.measure(ctx, taking, load, b.connections, 1)
		if err != nil {
			return err
		}
		for i, c := range taking {
			fmt.Fprint(b.out, row(fewConnections, 1, c.name, few[i], b.referenceOf(taking, few)))
			fmt.Fprint(b.out, row(b.connections, 1, c.name, many[i], b.referenceOf(taking, many)))
		}
		fmt.Fprintf(b.out, "\nThroughput with %s connections, of that with %d:", thousands(float64(b.connections)), fewConnections)
		for i, c := range taking {
			fmt.Fprintf(b.out, " %s %s", c.name, number(many[i].rate/few[i].rate, 2))
		}
		_, err = fmt.Fprintln(b.out)
		return err
	})
}

// idleMemory returns the bytes of a candidate's process before, and with so
// many idle connections. They are no numbers if its process is not known.
func idleMemory(ctx context.Context, c candidate, connections int) (before, with float64, err error) {
	before, with = math.NaN(), math.NaN()
	p := c.proxy
	if p == 0 {
		p = c.redis
	}
	bytes, ok := p.memory()
	if !ok {
		return before, with, nil
	}
	before = float64(bytes)
	for range connections {
		conn, err := connectAndAsk(ctx, c.addr)
		if err != nil {
			return before, with, fmt.Errorf("%s: %w", c.name, err)
		}
		defer conn.Close()
	}
	if bytes, ok = p.memory(); ok {
		with = float64(bytes)
	}
	return before, with, nil
}

func connectAndAsk(ctx context.Context, addr string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err = io.WriteString(conn, "*2\r\n$3\r\nGET\r\n$10\r\nbench:none\r\n"); err == nil {
		_, err = bufio.NewReader(conn).ReadString('\n')
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}
