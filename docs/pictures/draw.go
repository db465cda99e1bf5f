package main

import (
	"bytes"
	"fmt"
	"html"
	"slices"
)

// Sizes in pixels.
const (
	width      = 760
	margin     = 14
	top        = 62  // of the first lane
	laneHeight = 104 // with the space to the next
	chart      = 60  // height of a lane's bars
	bottom     = 30
)

// bar is how many milliseconds a bar stands for.
const bar = 100

const (
	admittedColour = "#2563eb"
	refusedColour  = "#cbd5e1"
	textColour     = "#1f2937"
	faintColour    = "#6b7280"
)

// draw returns the picture as SVG.
func (p picture) draw() ([]byte, error) {
	var b bytes.Buffer
	height := top + len(p.commands)*laneHeight + bottom
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="%s">`+"\n",
		width, height, width, height, textColour)
	fmt.Fprintf(&b, "<title>%s</title>\n", html.EscapeString(p.title))
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	text(&b, margin, 22, `font-size="15" font-weight="bold"`, p.title)
	p.legend(&b)
	for i, command := range p.commands {
		decisions, err := decide(command, p.requests)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", command, err)
		}
		p.lane(&b, top+i*laneHeight, command, decisions)
	}
	p.axis(&b, top+len(p.commands)*laneHeight-8)
	b.WriteString("</svg>\n")
	return b.Bytes(), nil
}

func text(b *bytes.Buffer, x, y int, attributes, words string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" %s>%s</text>`+"\n", x, y, attributes, html.EscapeString(words))
}

func rect(b *bytes.Buffer, x, y, w, h float64, colour string) {
	if h > 0 {
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, y, w, h, colour)
	}
}

func (p picture) legend(b *bytes.Buffer) {
	rect(b, margin, 34, 11, 11, admittedColour)
	text(b, margin+16, 44, "", "admitted")
	rect(b, margin+84, 34, 11, 11, refusedColour)
	text(b, margin+100, 44, "", "refused")
	text(b, margin+164, 44, fmt.Sprintf(`fill="%s"`, faintColour), fmt.Sprintf("requests in each %d ms", bar))
}

// lane draws the bars of one limiter, and tells what they amount to.
func (p picture) lane(b *bytes.Buffer, y int, command string, decisions []decision) {
	admitted, refused := make([]int, p.lasts/bar), make([]int, p.lasts/bar)
	total, tallest := 0, 1
	for _, d := range decisions {
		if d.admitted {
			admitted[d.at/bar]++
			total++
		} else {
			refused[d.at/bar]++
		}
		tallest = max(tallest, admitted[d.at/bar]+refused[d.at/bar])
	}
	text(b, margin, y+14, `font-family="monospace" font-weight="bold"`, command)
	most := slices.Max(admittedWithin(p.window, decisions))
	text(b, width-margin, y+14, fmt.Sprintf(`text-anchor="end" fill="%s"`, faintColour),
		fmt.Sprintf("admitted %d of %d, at most %d in any %s", total, len(decisions), most, duration(p.window)))
	base := float64(y + 24 + chart)
	unit := chart / float64(tallest)
	for i := range admitted {
		x := p.x(int64(i) * bar)
		w := p.x(int64(i+1)*bar) - x - 1
		high := float64(admitted[i]) * unit
		rect(b, x, base-high, w, high, admittedColour)
		rest := float64(refused[i]) * unit
		rect(b, x, base-high-rest, w, rest, refusedColour)
	}
	line(b, margin, base, width-margin, base, faintColour)
}

func line(b *bytes.Buffer, x1, y1, x2, y2 float64, colour string) {
	fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`+"\n", x1, y1, x2, y2, colour)
}

// axis marks the half seconds below the last lane.
func (p picture) axis(b *bytes.Buffer, y int) {
	for at := int64(0); at <= p.lasts; at += 500 {
		x := p.x(at)
		line(b, x, float64(y-12), x, float64(y-7), faintColour)
		anchor := "middle"
		switch at {
		case 0:
			anchor = "start"
		case p.lasts:
			anchor = "end"
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="%s" fill="%s">%g s</text>`+"\n", x, y+6, anchor, faintColour, float64(at)/1000)
	}
}

// x is where a moment is.
func (p picture) x(millis int64) float64 {
	return margin + float64(millis)/float64(p.lasts)*(width-2*margin)
}

// duration is a time in words.
func duration(millis int64) string {
	if millis == 1000 {
		return "second"
	}
	return fmt.Sprintf("%d ms", millis)
}
