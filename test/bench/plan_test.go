package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"cellproxy/commands"
)

func TestParsePlan(t *testing.T) {
	got, err := parsePlan(strings.Fields("-loads get,LIMITED -clients 1,2 -pipelines 4 -rounds 5 -duration 1s -connections 0 "+
		"-cell 127.0.0.1:1 -peers one=127.0.0.1:2 -reference one -serve=--write-timeout=1s"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	names := func(loads []load) (names []string) {
		for _, l := range loads {
			names = append(names, l.name)
		}
		return names
	}
	want := "[GET LIMITED] [1 2] [4] 5 1s 0 127.0.0.1:1 one one [--write-timeout=1s]"
	s := strings.TrimSpace(fmt.Sprintln(names(got.loads), got.clients, got.pipelines, got.rounds, got.duration, got.connections,
		got.cell, got.peers[0].name, got.reference, got.serveFlags))
	if s != want {
		t.Errorf("got %s, want %s", s, want)
	}
	if got, err := parsePlan(nil, io.Discard); err != nil || got.rounds != 3 || got.duration != 2*time.Second ||
		!slices.Equal(got.clients, []int{1, 50, 256, 1000}) || !slices.Equal(got.pipelines, []int{1, 16, 64}) || len(got.loads) != 4 {
		t.Errorf("without flags: got %+v, %v", got, err)
	}
}

func TestParsePlanRefuses(t *testing.T) {
	for _, args := range []string{
		"-loads PING", "-loads=", "-clients 0", "-clients=,", "-pipelines=", "-clients x", "-rounds 0", "-duration 0s", "-connections -1", "word",
		"-peers 127.0.0.1:2", "-peers =127.0.0.1:2", "-peers one=", "-peers one=127.0.0.1", "-peers one=127.0.0.1:1/x",
	} {
		var said strings.Builder
		if _, err := parsePlan(strings.Fields(args), &said); err == nil || said.Len() == 0 {
			t.Errorf("%s: got error %v, and said %q", args, err, said.String())
		}
	}
}

func TestParsePeers(t *testing.T) {
	got, err := parsePeers("one=127.0.0.1:1 two=localhost:2/127.0.0.1:3")
	if err != nil {
		t.Fatal(err)
	}
	want := []candidate{
		{name: "one", addr: "127.0.0.1:1", foreign: true},
		{name: "two", addr: "localhost:2", redisAddr: "127.0.0.1:3", foreign: true},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestWords sees that a proxy is sent what cellproxy sends upstream, but for
// the key.
func TestWords(t *testing.T) {
	throttle, get := loads[0], loads[2]
	sha := commands.Lookup([]byte("CL.THROTTLE")).Script.SHA1
	for _, tt := range []struct {
		c     candidate
		l     load
		begin string
	}{
		{candidate{limiters: true}, throttle, "CL.THROTTLE bench:throttle:__rand_int__ 1000000 1 100"},
		{candidate{}, throttle, "EVALSHA " + sha + " 1 bench:throttle:__rand_int__ "},
		{candidate{}, get, "GET bench:string:__rand_int__"},
		{candidate{limiters: true}, get, "GET bench:string:__rand_int__"},
	} {
		words, err := tt.c.words(tt.l)
		if got := strings.Join(words, " "); err != nil || !strings.HasPrefix(got, tt.begin) {
			t.Errorf("%+v %s: got %q, %v, want %q…", tt.c, tt.l.name, got, err, tt.begin)
		}
	}
}

func TestTakes(t *testing.T) {
	cell := cellCandidate("127.0.0.1:1")
	for _, l := range loads {
		if got, want := cell.takes(l), strings.HasPrefix(l.words[0], "CL."); got != want {
			t.Errorf("redis-cell takes %s: %v, want %v", l.name, got, want)
		}
		if !(candidate{}).takes(l) {
			t.Errorf("a proxy does not take %s", l.name)
		}
	}
}
