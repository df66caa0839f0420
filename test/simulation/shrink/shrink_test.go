package shrink

import (
	"fmt"
	"slices"
	"testing"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
)

func TestOnlyWhatMattersIsLeft(t *testing.T) {
	s := script.Script{Settings: map[string]string{"a": "1", "b": "2"}}
	for i := range 40 {
		s.Add(0, "line %d", i)
	}
	has := func(s script.Script, n int) bool {
		return slices.ContainsFunc(s.Lines, func(l script.Line) bool { return l.Arg(0) == fmt.Sprint(n) })
	}
	asked := 0
	short := Script(s, 200, func(s script.Script) bool {
		asked++
		return has(s, 7) && has(s, 31) && s.Settings["b"] == "2"
	})
	if len(short.Lines) != 2 || len(short.Settings) != 1 {
		t.Errorf("after %d tries there is left:\n%s", asked, short)
	}
}
