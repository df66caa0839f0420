package script

import (
	"strings"
	"testing"
	"time"
)

func TestWhatIsPrintedIsReadAgain(t *testing.T) {
	const text = "seed 17\nset managers 2\nat 1.5s     create web replicas=3\nat 1m0s     fault m0 delay pods 2s for=10s\n"
	s, err := Parse(strings.NewReader("# a remark\n" + text))
	if err != nil || s.String() != text {
		t.Fatalf("%v:\n%s", err, s)
	}
	l := s.Lines[1]
	d, ok := l.Duration("for")
	if l.Op() != "fault" || l.Arg(0) != "m0" || l.Arg(3) != "2s" || l.Arg(4) != "" || !ok || d != 10*time.Second {
		t.Errorf("%q is misread", l)
	}
}

func TestNonsenseIsRefusedWithItsLine(t *testing.T) {
	for _, text := range []string{"seed x", "at 5 scale", "at 5s", "hello"} {
		if _, err := Parse(strings.NewReader("seed 1\n" + text)); err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
