package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// widthOfLetter is about how wide a letter is, in pixels.
const widthOfLetter = 7

// The pictures of the pages are well-formed, say what they show, and no text is wider than its box, or than the room before a bar.
func TestPictures(t *testing.T) {
	source, err := os.ReadFile("../../" + picturesSource)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../" + comparisonPage)
	if err != nil {
		t.Fatal(err)
	}
	var all []picture
	if err := yaml.UnmarshalStrict(source, &all); err != nil || len(all) < 6 {
		t.Fatal(len(all), err)
	}
	fits := func(p picture, text string, width int) {
		if len(text)*widthOfLetter > width {
			t.Errorf("%s: %q is wider than %d pixels", p.Name, text, width)
		}
	}
	for _, p := range all {
		drawn, err := p.draw(string(page))
		if err != nil || len(p.Text) < 40 || !bytes.Contains(drawn, []byte("<title>"+p.Text[:20])) {
			t.Errorf("%s: %v, %.200s", p.Name, err, drawn)
		}
		decoder := xml.NewDecoder(bytes.NewReader(drawn))
		for err == nil {
			_, err = decoder.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", p.Name, err)
		}
		for _, b := range p.Boxes {
			for _, line := range b.Lines {
				fits(p, line, b.At[2]*unit)
			}
		}
		for _, l := range p.Lanes {
			for _, s := range l.Spans {
				fits(p, s.Text, (s.To-s.From)*63/10)
			}
		}
	}
}

// A picture of what is not there is an error that names it.
func TestPicturesThatCannotBeDrawn(t *testing.T) {
	const page = "| a | 1 | 2 s, 3 MB | 4 s, 5 MB | 2026-01-01 |\n"
	for want, p := range map[string]picture{
		`has no row "b"`:          {Bars: []bar{{Row: "b", Figure: 1}}},
		"has 2 figures in a cell": {Bars: []bar{{Row: "a", Figure: 3}}},
		`leads from "x" to "y"`:   {Boxes: []box{{Name: "x"}}, Arrows: []arrow{{From: "x", To: "y"}}},
	} {
		if _, err := p.draw(page); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if o, c, err := (bar{Row: "a", Figure: 2}).figures(page); o != 3 || c != 5 || err != nil {
		t.Error(o, c, err)
	}
}
