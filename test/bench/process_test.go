package main

import (
	"net"
	"os"
	"testing"
	"time"
)

// hasProc reports whether this system tells of its processes in files.
func hasProc() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}

func TestCPUGrowsWithWork(t *testing.T) {
	self := process(os.Getpid())
	before, known := self.cpu()
	if known != hasProc() {
		t.Fatalf("known is %v, want %v", known, hasProc())
	}
	start := time.Now()
	for known && time.Since(start) < 10*time.Second {
		if after, _ := self.cpu(); after-before >= 50*time.Millisecond {
			if elapsed := time.Since(start); elapsed < 10*time.Millisecond {
				t.Errorf("50 ms of processor time in %v", elapsed)
			}
			return
		}
	}
	if known {
		t.Error("no 50 ms of processor time in 10 s of work")
	}
}

func TestMemory(t *testing.T) {
	got, ok := process(os.Getpid()).memory()
	if !ok || got < 1<<20 || got > 1<<32 {
		t.Errorf("got %d bytes, %v, want some megabytes", got, ok)
	}
}

func TestUnknownProcess(t *testing.T) {
	if _, known := process(0).cpu(); known {
		t.Error("the processor time of no process is known")
	}
	if _, known := process(0).memory(); known {
		t.Error("the memory of no process is known")
	}
}

func TestListeningOn(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	want := process(0)
	if hasProc() {
		want = process(os.Getpid())
	}
	if got := listeningOn(addr); got != want {
		t.Errorf("got process %d on %s, want %d", got, addr, want)
	}
	_, port, _ := net.SplitHostPort(addr)
	if got := listeningOn("192.0.2.1:" + port); got != 0 {
		t.Errorf("got process %d on another machine, want none", got)
	}
	listener.Close()
	if got := listeningOn(addr); got != 0 {
		t.Errorf("got process %d on a closed port, want none", got)
	}
}

func TestListeningSocket(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1E7A 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1BBC 0100007F:1E7A 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 20 4 30 10 -1
`
	for port, want := range map[int]string{0x1E7A: "4711", 0x1BBC: "", 0xE7A: ""} {
		if got := listeningSocket(table, port); got != want {
			t.Errorf("port %d: got %q, want %q", port, got, want)
		}
	}
}
