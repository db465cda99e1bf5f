package main

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// process is a process id; 0 is no process that is known.
type process int

// ticksPerSecond is the unit of the times in /proc/<pid>/stat, which is the
// same on all architectures that Go knows.
const ticksPerSecond = 100

// cpu returns the processor time that the process has taken so far. It needs
// /proc.
func (p process) cpu() (time.Duration, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p))
	if p == 0 || err != nil {
		return 0, false
	}
	// The name of the program, in parentheses, may have spaces in it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const utime, stime = 11, 12
	if len(fields) <= stime {
		return 0, false
	}
	var ticks int
	for _, field := range []string{fields[utime], fields[stime]} {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, false
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, true
}

// memory returns how many bytes of the process are resident.
func (p process) memory() (bytes int, ok bool) {
	if p == 0 {
		return 0, false
	}
	if statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p)); err == nil {
		var total, pages int
		_, err := fmt.Sscan(string(statm), &total, &pages)
		return pages * os.Getpagesize(), err == nil
	}
	out, err := exec.Command("ps", "-o", "rss=", "-p", strconv.Itoa(int(p))).Output()
	if err != nil {
		return 0, false
	}
	kilobytes, err := strconv.Atoi(strings.TrimSpace(string(out)))
	return kilobytes << 10, err == nil
}

// listeningOn returns the process that listens on an address of this machine.
// It needs /proc, and the right to look into that process.
func listeningOn(addr string) process {
	host, port, err := net.SplitHostPort(addr)
	if ip, ipErr := netip.ParseAddr(host); err != nil || host != "localhost" && (ipErr != nil || !ip.IsLoopback()) {
		return 0
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return 0
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		if inode := listeningSocket(string(text), number); inode != "" {
			return holderOf("socket:[" + inode + "]")
		}
	}
	return 0
}

// listeningSocket returns the inode of the socket that listens on a port, from
// the text of /proc/net/tcp, or "".
func listeningSocket(table string, port int) (inode string) {
	const local, state, inodeField, listen = 1, 3, 9, "0A"
	for _, line := range strings.Split(table, "\n") {
		fields := strings.Fields(line)
		if len(fields) > inodeField && fields[state] == listen && strings.HasSuffix(fields[local], fmt.Sprintf(":%04X", port)) {
			return fields[inodeField]
		}
	}
	return ""
}

// holderOf returns the process that has a file open.
func holderOf(file string) process {
	descriptors, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, descriptor := range descriptors {
		if target, err := os.Readlink(descriptor); err == nil && target == file {
			pid, _ := strconv.Atoi(strings.Split(descriptor, "/")[2])
			return process(pid)
		}
	}
	return 0
}
