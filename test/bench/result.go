package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// The names of the contenders, as they stand in the results.
const (
	ours     = "ours"
	original = "original"
)

// contender is a controller manager to be measured.
type contender struct {
	Name    string `json:"name"`
	Binary  string `json:"-"`
	Version string `json:"version"` // what --version prints
	Build   string `json:"build"`   // what --version=raw prints, with the commit
}

// figure is a measured quantity.
type figure struct {
	Name  string   `json:"name"`
	Value float64  `json:"value"`
	Unit  string   `json:"unit,omitempty"`  // "s", "ms", "MB", "/s"; none for a count
	Floor *float64 `json:"floor,omitempty"` // the least that is possible
	Most  *float64 `json:"most,omitempty"`  // what ours may reach; only for what does not depend on the machine's speed
}

// sample is what one run of a contender in a scenario has shown.
type sample struct {
	Scenario  string    `json:"scenario"`
	Contender string    `json:"contender"`
	Run       int       `json:"run"` // from 1
	Began     time.Time `json:"began"`
	Flags     []string  `json:"flags,omitempty"`
	Figures   []figure  `json:"figures"`
	Writes    []tally   `json:"writes,omitempty"` // by resource and verb, where they are counted
}

// tally is a row of what the counting proxy has seen.
type tally struct {
	Resource string `json:"resource"`
	Verb     string `json:"verb"`
	Code     int    `json:"code"`
	Count    int    `json:"count"`
	NoOps    int    `json:"noOps,omitempty"`
}

func count(name string, n int) figure { return figure{Name: name, Value: float64(n)} }

// exactly is a count that ours must reach, such as zero.
func exactly(name string, n, most int) figure {
	limit := float64(most)
	return figure{Name: name, Value: float64(n), Most: &limit}
}

func seconds(name string, d time.Duration) figure {
	return figure{Name: name, Value: d.Seconds(), Unit: "s"}
}

func millis(name string, d time.Duration) figure {
	return figure{Name: name, Value: milliseconds(d), Unit: "ms"}
}

func megabytes(name string, bytes int64) figure {
	return figure{Name: name, Value: float64(bytes) / (1 << 20), Unit: "MB"}
}

// latencies are the figures of a distribution: median and 99th percentile.
func latencies(name string, took []time.Duration) []figure {
	return []figure{millis(name+", median", percentile(took, 50)), millis(name+", 99 %", percentile(took, 99))}
}

// broken lists the limits that a run of ours has broken, as sentences.
func broken(samples []sample) (list []string) {
	for _, s := range samples {
		for _, f := range s.Figures {
			if s.Contender == ours && f.Most != nil && f.Value > *f.Most {
				list = append(list,
					fmt.Sprintf("%s, run %d: %s: %s, at most %s", s.Scenario, s.Run, f.Name, show(f.Value, f.Unit), show(*f.Most, f.Unit)))
			}
		}
	}
	return list
}

// row is a figure in a table: the median of all runs of each contender.
type row struct {
	scenario, figure, unit string
	goal                   string
	values                 map[string][]float64 // by contender
}

// rows puts the samples' figures together, in the order in which they came first.
func rows(samples []sample) (all []*row) {
	find := map[[2]string]*row{}
	for _, s := range samples {
		for _, f := range s.Figures {
			key := [2]string{s.Scenario, f.Name}
			r := find[key]
			if r == nil {
				r = &row{scenario: s.Scenario, figure: f.Name, unit: f.Unit, goal: goal(f), values: map[string][]float64{}}
				find[key] = r
				all = append(all, r)
			}
			r.values[s.Contender] = append(r.values[s.Contender], f.Value)
		}
	}
	order := map[string]int{}
	for _, s := range samples {
		if _, ok := order[s.Scenario]; !ok {
			order[s.Scenario] = len(order)
		}
	}
	slices.SortStableFunc(all, func(a, b *row) int { return cmp.Compare(order[a.scenario], order[b.scenario]) })
	return all
}

func goal(f figure) string {
	switch {
	case f.Floor != nil:
		return show(*f.Floor, f.Unit)
	case f.Most != nil:
		return show(*f.Most, f.Unit)
	}
	return ""
}

// table is the result in Markdown: medians, and ours divided by the original's.
func table(samples []sample) string {
	var b strings.Builder
	b.WriteString("| scenario | figure | floor or goal | original | ours | ratio |\n|---|---|---:|---:|---:|---:|\n")
	last := ""
	for _, r := range rows(samples) {
		scenario := r.scenario
		if scenario == last {
			scenario = ""
		}
		last = r.scenario
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", scenario, r.figure, r.goal, r.cell(original), r.cell(ours), r.ratio())
	}
	return b.String()
}

func (r *row) cell(contender string) string {
	if len(r.values[contender]) == 0 {
		return ""
	}
	return show(median(r.values[contender]), r.unit)
}

// ratio is empty where one of the two was not measured, or the original's figure is zero.
func (r *row) ratio() string {
	theirs, mine := r.values[original], r.values[ours]
	if len(theirs) == 0 || len(mine) == 0 || median(theirs) == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", median(mine)/median(theirs))
}

// show writes a value with its unit, with as many digits as are worth reading: counts whole, all else with three.
func show(v float64, unit string) string {
	text := ""
	switch size := math.Abs(v); {
	case unit == "" && v == math.Trunc(v), size >= 100:
		text = fmt.Sprintf("%.0f", v)
	case size >= 10:
		text = fmt.Sprintf("%.1f", v)
	default:
		text = fmt.Sprintf("%.2f", v)
	}
	if unit == "" {
		return text
	}
	return text + " " + unit
}
