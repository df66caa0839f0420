package oracle

import (
	"strings"
	"testing"
)

// history is a history by hand, and what an oracle must say about it: a part of the message, or nothing if it is empty.
type history struct {
	name    string
	write   func(s *scene)
	want    string
	options Options
}

func run(t *testing.T, o Oracle, histories []history) {
	t.Helper()
	broken, kept := 0, 0
	for _, c := range histories {
		t.Run(c.name, func(t *testing.T) {
			s := newScene()
			c.write(s)
			found := judged(t, o, &s.History, c.options)
			switch {
			case c.want == "" && len(found) > 0:
				t.Errorf("%s sees a violation in a legal history: %v", o.ID, found[0])
			case c.want != "" && len(found) == 0:
				t.Errorf("%s sees no violation", o.ID)
			case c.want != "" && !strings.Contains(found[0].Message, c.want):
				t.Errorf("%s: %v, expected %q", o.ID, found[0], c.want)
			case c.want != "" && len(found) > 1:
				t.Errorf("%s sees more than one violation: %v", o.ID, found)
			}
		})
		if c.want == "" {
			kept++
		} else {
			broken++
		}
	}
	if broken == 0 || kept == 0 {
		t.Errorf("%s has %d histories that violate it and %d that do not", o.ID, broken, kept)
	}
}
