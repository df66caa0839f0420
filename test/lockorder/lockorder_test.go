package lockorder

import (
	"slices"
	"strings"
	"testing"
)

type (
	siteA struct{}
	siteB struct{}
	siteC struct{}
)

func (siteA) Name() string { return "a.A.mu" }
func (siteB) Name() string { return "b.B.mu" }
func (siteC) Name() string { return "c.C.mu" }

// locks are those of one case. Another is of the same kind as a.
type locks struct {
	a, another Mutex[siteA]
	b          RWMutex[siteB]
	c          Mutex[siteC]
}

// do takes locks and gives them back, as words say. What stands in parentheses is done by another goroutine.
func (l *locks) do(words string) {
	steps := map[string]func(){
		"a": l.a.Lock, "-a": l.a.Unlock, "another": l.another.Lock, "-another": l.another.Unlock, "try-a": func() { l.a.TryLock() },
		"b": l.b.Lock, "-b": l.b.Unlock, "read-b": l.b.RLock, "-read-b": l.b.RUnlock, "c": l.c.Lock, "-c": l.c.Unlock,
		"request": func() { MayWait("get pods") },
	}
	for word := range strings.FieldsSeq(words) {
		elsewhere := strings.HasPrefix(word, "(")
		step := steps[strings.Trim(word, "()")]
		if !elsewhere {
			step()
			continue
		}
		done := make(chan struct{})
		go func() { defer close(done); step() }()
		<-done
	}
}

// TestMistakes: each of these mistakes is found, though nothing hangs; what is right is not.
func TestMistakes(t *testing.T) {
	const inverted = "a.A.mu is taken while b.B.mu is held"
	for words, want := range map[string]string{
		"a -a b -b":                               "",
		"a b -b -a a b -b -a":                     "",
		"a b -a c -c -b a -a":                     "", // given back in another order
		"a b -b -a b a -a -b":                     inverted,
		"a read-b -read-b -a read-b a -a -read-b": inverted,
		"a b -b -a b another -another -b":         inverted,
		"a b -b -a b c -c -b c a -a -c":           "but c.C.mu is taken while b.B.mu is held", // a ring of three
		"a another -another -a":                   "another lock of the same kind",
		"read-b read-b -read-b -read-b":           "taken again by who has it",
		"a b -b -a b try-a -a -b":                 "", // it does not wait
		"try-a b -b -a b a -a -b":                 inverted,
		"a (-a) b a -a -b":                        "",
		"a (b) (-b) -a b a -a -b":                 "",
		"read-b request -read-b":                  "b.B.mu is held during get pods",
		"read-b -read-b request":                  "",
		"a (request) -a":                          "",
	} {
		t.Run(words, func(t *testing.T) {
			orders = newOrder()
			new(locks).do(words)
			found := strings.Join(Problems(), "\n")
			if (found == "") != (want == "") || !strings.Contains(found, want) {
				t.Errorf("found %q, want %q", found, want)
			}
			if found != "" && !strings.Contains(found, "lockorder_test.go") {
				t.Errorf("it does not say where:\n%s", found)
			}
			if again := Problems(); again != nil {
				t.Errorf("told again: %v", again)
			}
			if len(orders.held) > 0 {
				t.Errorf("held in the end: %v", orders.held)
			}
		})
	}
}

func TestPairs(t *testing.T) {
	orders = newOrder()
	new(locks).do("a read-b -read-b -a")
	if got := Pairs(); !slices.Equal(got, []string{"a.A.mu > b.B.mu"}) {
		t.Errorf("%v", got)
	}
}
