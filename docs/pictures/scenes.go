package main

import "slices"

// picture is limiters side by side that are sent the same requests.
type picture struct {
	file, title string
	requests    []int64  // when they come, in milliseconds
	lasts       int64    // milliseconds that are shown
	window      int64    // milliseconds over which admissions are added up
	commands    []string // one for each lane; k is the key
}

// every is requests at an even pace from one moment, until before another.
func every(pace, from, to int64) (requests []int64) {
	for at := from; at < to; at += pace {
		requests = append(requests, at)
	}
	return requests
}

var pictures = []picture{
	{
		file: "limits-overview.svg", title: "10 per second, six ways: 40 requests per second, a pause, and 40 again",
		requests: slices.Concat(every(25, 300, 2300), every(25, 3600, 4600)), lasts: 5000, window: 1000,
		commands: []string{
			"CL.THROTTLE k 9 10 1", "TB.ACQUIRE k 10 10 1000", "LB.ACQUIRE k 10 10 1000",
			"FW.ACQUIRE k 10 1000", "SW.ACQUIRE k 10 1000", "SL.ACQUIRE k 1 3 200 10 1000",
		},
	},
	{
		file: "limits-burst.svg", title: "CL.THROTTLE: the same rate with different bursts",
		requests: slices.Concat(every(25, 300, 2300), every(25, 3600, 4600)), lasts: 5000, window: 1000,
		commands: []string{"CL.THROTTLE k 0 10 1", "CL.THROTTLE k 4 10 1", "CL.THROTTLE k 19 10 1"},
	},
	{
		file: "limits-fixed-window.svg", title: "Where two windows meet: one request at 0 s, and 40 per second from 0.7 s on",
		requests: append([]int64{0}, every(25, 700, 3500)...), lasts: 4000, window: 1000,
		commands: []string{"FW.ACQUIRE k 10 1000", "FW.ACQUIRE k 10 1000 1 ALIGN 500", "SW.ACQUIRE k 10 1000 1 EXACT"},
	},
	{
		file: "limits-sliding-window.svg", title: "SW.ACQUIRE: the more slices, the sooner what was taken comes back",
		requests: every(25, 300, 4700), lasts: 5000, window: 1000,
		commands: []string{"SW.ACQUIRE k 10 1000 1 EXACT", "SW.ACQUIRE k 10 1000 1 SLICES 10", "SW.ACQUIRE k 10 1000 1 SLICES 2"},
	},
	{
		file: "limits-several-windows.svg", title: "SL.ACQUIRE: no more than 3 in 200 ms, and no more than 10 in a second",
		requests: slices.Concat(every(25, 300, 2300), every(25, 3600, 4600)), lasts: 5000, window: 1000,
		commands: []string{"SL.ACQUIRE k 1 3 200 10 1000", "SW.ACQUIRE k 10 1000 1 EXACT", "SW.ACQUIRE k 3 200 1 EXACT"},
	},
}
