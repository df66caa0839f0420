// Package script is what a simulation is told to do, as text: one line for each operation and each fault, with its time.
//
//	# Anything after a # is a remark.
//	seed 17
//	set managers 2
//	at 1s     create web replicas=3 image=good:1
//	at 4.2s   fault m0 delay pods 2s for=10s
//	at 5s     image web good:2
//
// The seed decides what the script does not: how long pods take to start, names, which pods fail.
package script

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Script is a simulation.
type Script struct {
	Seed     uint64
	Settings map[string]string
	Lines    []Line // by time
}

// Line is an operation or a fault.
type Line struct {
	At    time.Duration // since the beginning
	Words []string
}

// Op is the first word.
func (l Line) Op() string { return l.Words[0] }

// Arg is the word of that number, without the first; empty if there is none. Words of the form key=value don't count.
func (l Line) Arg(n int) string {
	for _, w := range l.Words[1:] {
		if strings.Contains(w, "=") {
			continue
		}
		if n == 0 {
			return w
		}
		n--
	}
	return ""
}

// Get is the value of the word key=value.
func (l Line) Get(key string) (value string, ok bool) {
	for _, w := range l.Words[1:] {
		if k, v, is := strings.Cut(w, "="); is && k == key {
			return v, true
		}
	}
	return "", false
}

// Int is the value of the word key=value as a number.
func (l Line) Int(key string) (int, bool) {
	value, ok := l.Get(key)
	n, err := strconv.Atoi(value)
	return n, ok && err == nil
}

// Duration is the value of the word key=value as a span of time.
func (l Line) Duration(key string) (time.Duration, bool) {
	value, ok := l.Get(key)
	d, err := time.ParseDuration(value)
	return d, ok && err == nil
}

// String is the line as text.
func (l Line) String() string { return fmt.Sprintf("at %-8v %s", l.At, strings.Join(l.Words, " ")) }

// Setting is a number that the script sets, or the default.
func (s Script) Setting(name string, byDefault int) int {
	if n, err := strconv.Atoi(s.Settings[name]); err == nil {
		return n
	}
	return byDefault
}

// Add adds a line.
func (s *Script) Add(at time.Duration, format string, args ...any) {
	s.Lines = append(s.Lines, Line{at, strings.Fields(fmt.Sprintf(format, args...))})
}

// Sort puts the lines in the order of their times.
func (s *Script) Sort() {
	slices.SortStableFunc(s.Lines, func(a, b Line) int { return cmp.Compare(a.At, b.At) })
}

// String is the script as text.
func (s Script) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d\n", s.Seed)
	for _, name := range slices.Sorted(maps.Keys(s.Settings)) {
		fmt.Fprintf(&b, "set %s %s\n", name, s.Settings[name])
	}
	for _, l := range s.Lines {
		fmt.Fprintln(&b, l)
	}
	return b.String()
}

// Parse reads a script.
func Parse(from io.Reader) (Script, error) {
	s := Script{Settings: map[string]string{}}
	lines := bufio.NewScanner(from)
	for number := 1; lines.Scan(); number++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if err := s.parseLine(strings.Fields(text)); err != nil {
			return s, fmt.Errorf("line %d: %w", number, err)
		}
	}
	s.Sort()
	return s, lines.Err()
}

func (s *Script) parseLine(words []string) (err error) {
	switch {
	case len(words) == 0:
	case words[0] == "seed" && len(words) == 2:
		s.Seed, err = strconv.ParseUint(words[1], 10, 64)
	case words[0] == "set" && len(words) == 3:
		s.Settings[words[1]] = words[2]
	case words[0] == "at" && len(words) > 2:
		var at time.Duration
		if at, err = time.ParseDuration(words[1]); err == nil {
			s.Lines = append(s.Lines, Line{at, words[2:]})
		}
	default:
		err = fmt.Errorf("%q is neither seed N, set NAME VALUE nor at TIME OPERATION", strings.Join(words, " "))
	}
	return err
}
