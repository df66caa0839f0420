package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// Pictures are drawn from text, so that a change of one is a change that people can read. Each is one file, with the colours of the theme
// that the reader has.
const (
	picturesSource = "docs/images/pictures.yaml"
	comparisonPage = "docs/comparison.md"
	pictureWidth   = 860
	unit           = 20 // pixels of a unit of the grid
	barHeight      = 16
)

// picture is one of: bars, boxes with arrows, or lanes of time.
type picture struct {
	Name   string  `json:"name"`
	Text   string  `json:"text"` // what it shows, for those who cannot see it
	Bars   []bar   `json:"bars,omitempty"`
	Boxes  []box   `json:"boxes,omitempty"`
	Arrows []arrow `json:"arrows,omitempty"`
	Lanes  []lane  `json:"lanes,omitempty"`
}

// bar compares the figures of a row of docs/comparison.md: of each cell, the one with this number, from 1 on.
type bar struct {
	Label  string `json:"label"`
	Row    string `json:"row"`
	Figure int    `json:"figure"`
	Unit   string `json:"unit"`
}

// box is a rectangle on the grid.
type box struct {
	Name  string   `json:"name"`
	At    [4]int   `json:"at"` // left, top, width, height
	Lines []string `json:"lines"`
	Style string   `json:"style"` // "", strong or faint
}

// arrow leads from the edge of a box to that of another.
type arrow struct {
	From string `json:"from"`
	To   string `json:"to"`
	Text string `json:"text"`
}

// lane is a line of time, of 100 units.
type lane struct {
	Name  string `json:"name"`
	Spans []span `json:"spans"`
}

type span struct {
	From  int    `json:"from"`
	To    int    `json:"to"`
	Text  string `json:"text"`
	Style string `json:"style"`
}

// pictures returns the files with the pictures.
func pictures() ([]file, error) {
	source, err := os.ReadFile(picturesSource)
	if err != nil {
		return nil, err
	}
	var all []picture
	if err := yaml.UnmarshalStrict(source, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", picturesSource, err)
	}
	var files []file
	for _, p := range all {
		files = append(files, file{"docs/images/" + p.Name + ".svg", func([]byte) ([]byte, error) {
			page, err := os.ReadFile(comparisonPage)
			if err != nil {
				return nil, err
			}
			return p.draw(string(page))
		}})
	}
	return files, nil
}

const style = `<style>
text { font: 13px sans-serif; fill: #1f2328 } .small { font-size: 12px; fill: #59636e }
.plain { fill: #f6f8fa; stroke: #8c959f } .strong { fill: #326ce5; stroke: #326ce5 } .faint { fill: none; stroke: #8c959f; stroke-dasharray: 4 3 }
text.on-strong { fill: #fff } .line { stroke: #59636e; fill: none } .head { fill: #59636e } .other { fill: #b6bfc9 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .small { fill: #9198a1 } .plain { fill: #212830; stroke: #656c76 } .faint { stroke: #656c76 }
.line { stroke: #9198a1 } .head { fill: #9198a1 } .other { fill: #656c76 } }
</style>
`

// draw returns the picture as SVG.
func (p picture) draw(comparison string) ([]byte, error) {
	var body bytes.Buffer
	height, err := 0, error(nil)
	switch {
	case len(p.Bars) > 0:
		height, err = drawBars(&body, p.Bars, comparison)
	case len(p.Lanes) > 0:
		height = drawLanes(&body, p.Lanes)
	default:
		height, err = drawBoxes(&body, p.Boxes, p.Arrows)
	}
	if err != nil {
		return nil, fmt.Errorf("picture %s: %w", p.Name, err)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\">\n<title>%s</title>\n", pictureWidth,
		height, html.EscapeString(p.Text))
	out.WriteString(style)
	out.Write(body.Bytes())
	out.WriteString("</svg>\n")
	return out.Bytes(), nil
}

func drawBars(w *bytes.Buffer, bars []bar, comparison string) (height int, err error) {
	const left, longest = 330, 400
	y := unit
	write(w, left, y, "small", "start", "kube-controller-manager, and below it controller-manager")
	for _, b := range bars {
		original, ours, err := b.figures(comparison)
		if err != nil {
			return 0, err
		}
		y += unit
		write(w, left-12, y+barHeight+4, "", "end", b.Label)
		most := max(original, ours)
		for i, figure := range []float64{original, ours} {
			class := []string{"other", "strong"}[i]
			width := max(2, figure/most*longest)
			fmt.Fprintf(w, "<rect class=%q x=\"%d\" y=\"%d\" width=\"%.0f\" height=\"%d\"/>\n", class, left, y, width, barHeight-2)
			write(w, left+int(width)+8, y+barHeight-4, "", "start", strings.TrimSpace(strconv.FormatFloat(figure, 'f', -1, 64)+" "+b.Unit))
			y += barHeight
		}
	}
	return y + unit, nil
}

var figureOf = regexp.MustCompile(`\d+(?:\.\d+)?`)

// figures returns those of the original and of ours in the row that begins so.
func (b bar) figures(comparison string) (original, ours float64, err error) {
	for line := range strings.Lines(comparison) {
		cells := strings.Split(line, "|")
		if len(cells) < 6 || strings.TrimSpace(cells[1]) != b.Row {
			continue
		}
		var found [2]float64
		for i, cell := range cells[3:5] {
			all := figureOf.FindAllString(strings.ReplaceAll(cell, ",", ""), -1)
			if b.Figure < 1 || b.Figure > len(all) {
				return 0, 0, fmt.Errorf("%s: the row %q has %d figures in a cell", comparisonPage, b.Row, len(all))
			}
			if found[i], err = strconv.ParseFloat(all[b.Figure-1], 64); err != nil {
				return 0, 0, err
			}
		}
		return found[0], found[1], nil
	}
	return 0, 0, fmt.Errorf("%s has no row %q", comparisonPage, b.Row)
}

func drawBoxes(w *bytes.Buffer, boxes []box, arrows []arrow) (height int, err error) {
	at := map[string]box{}
	for _, b := range boxes {
		at[b.Name] = b
		x, y, width, high := b.At[0]*unit, b.At[1]*unit, b.At[2]*unit, b.At[3]*unit
		height = max(height, y+high+unit/2)
		drawBox(w, x, y, width, high, b.Style, b.Lines)
	}
	w.WriteString(`<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">` +
		"<path class=\"head\" d=\"M0 0 L8 4 L0 8 z\"/></marker></defs>\n")
	for _, a := range arrows {
		from, ok1 := at[a.From]
		to, ok2 := at[a.To]
		if !ok1 || !ok2 {
			return 0, fmt.Errorf("an arrow leads from %q to %q, and there is no such box", a.From, a.To)
		}
		x1, y1 := from.edge(to)
		x2, y2 := to.edge(from)
		fmt.Fprintf(w, "<path class=\"line\" marker-end=\"url(#head)\" d=\"M%.0f %.0f L%.0f %.0f\"/>\n", x1, y1, x2, y2)
		x, anchor := int(x1+x2)/2, "middle"
		if math.Abs(x1-x2) < math.Abs(y1-y2) {
			x, anchor = x+6, "start"
		}
		write(w, x, int(y1+y2)/2-5, "small", anchor, a.Text)
	}
	return height, nil
}

// edge is where a line from the middle of a box to that of another leaves it.
func (b box) edge(other box) (x, y float64) {
	middle := func(b box) (float64, float64) {
		return (float64(b.At[0]) + float64(b.At[2])/2) * unit, (float64(b.At[1]) + float64(b.At[3])/2) * unit
	}
	x, y = middle(b)
	ox, oy := middle(other)
	dx, dy := ox-x, oy-y
	scale := math.Min(float64(b.At[2])*unit/2/math.Max(1, math.Abs(dx)), float64(b.At[3])*unit/2/math.Max(1, math.Abs(dy)))
	return x + dx*scale, y + dy*scale
}

func drawBox(w *bytes.Buffer, x, y, width, height int, style string, lines []string) {
	class, text := "plain", ""
	if style != "" {
		class = style
	}
	if style == "strong" {
		text = "on-strong"
	}
	fmt.Fprintf(w, "<rect class=%q x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\"/>\n", class, x, y, width, height)
	first := y + height/2 - (len(lines)-1)*8 + 4
	for i, line := range lines {
		write(w, x+width/2, first+16*i, text, "middle", line)
	}
}

func drawLanes(w *bytes.Buffer, lanes []lane) (height int) {
	const left = 210
	step := float64(pictureWidth-left-unit) / 100
	y := unit
	for _, l := range lanes {
		write(w, left-12, y+20, "", "end", l.Name)
		for _, s := range l.Spans {
			x := left + int(float64(s.From)*step)
			drawBox(w, x, y, int(float64(s.To-s.From)*step)-2, 32, s.Style, []string{s.Text})
		}
		y += 2 * unit
	}
	fmt.Fprintf(w, "<path class=\"line\" d=\"M%d %d H%d\"/>\n", left, y, pictureWidth-unit)
	write(w, pictureWidth-unit, y+16, "small", "end", "time")
	return y + unit + 4
}

func write(w *bytes.Buffer, x, y int, class, anchor, text string) {
	if text == "" {
		return
	}
	if class != "" {
		class = fmt.Sprintf(" class=%q", class)
	}
	fmt.Fprintf(w, "<text%s x=\"%d\" y=\"%d\" text-anchor=%q>%s</text>\n", class, x, y, anchor, html.EscapeString(text))
}
