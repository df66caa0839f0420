package queue

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// waits puts texts of the form namespace/owner/name, or namespace/@since/name, in their lines.
func waits(l *turns[string], all ...string) (spots []*spot[string]) {
	for _, text := range all {
		parts := strings.Split(text, "/")
		p := place{namespace: parts[0], owner: types.UID(parts[1])}
		if since, ok := strings.CutPrefix(parts[1], "@"); ok {
			p.owner = ""
			_, _ = fmt.Sscan(since, &p.since)
		}
		s := &spot[string]{}
		s.Value = parts[2]
		l.push(p, s)
		spots = append(spots, s)
	}
	return spots
}

// next takes out so many, and returns their names.
func (t *turns[T]) next(n int) string {
	var all []string
	for len(all) < n && !t.empty() {
		all = append(all, fmt.Sprint(t.pop()))
	}
	return strings.Join(all, " ")
}

func TestTurns(t *testing.T) {
	for _, c := range []struct {
		name  string
		waits string
		want  string
	}{
		{"first come, first served", "shop//1 shop//2 shop//3", "1 2 3"},
		{"namespaces take turns", "a//a1 a//a2 a//a3 b//b1 b//b2 c//c1", "a1 b1 c1 a2 b2 a3"},
		{"owners take turns in a namespace", "a/web/w1 a/web/w2 a/web/w3 a/db/d1 a/db/d2", "w1 d1 w2 d2 w3"},
		{"what has no owner is one line", "a//x a//y a//z a/web/w1 a/web/w2", "x w1 y w2 z"},
		{"many owners are no more turns for the namespace", "a/1/a1 a/2/a2 a/3/a3 b//b1 b//b2", "a1 b1 a2 b2 a3"},
		{"owners of one name in two namespaces are two", "a/web/a1 a/web/a2 a/db/a3 b/web/b1", "a1 b1 a3 a2"},
		{"work in progress goes in the order in which it began", "a/@3/c a/@1/a1 a/@2/b a/@1/a2", "a1 a2 b c"},
		{"work in progress in two namespaces takes turns", "a/@1/a1 a/@2/a2 a/@2/a3 b/@3/b1", "a1 b1 a2 a3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l turns[string]
			waits(&l, strings.Fields(c.waits)...)
			if got := l.next(100); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	t.Run("who comes later waits for one turn of each namespace", func(t *testing.T) {
		var l turns[string]
		waits(&l, "a//a1", "a//a2", "a//a3", "b//b1", "b//b2")
		got := l.next(1)
		waits(&l, "c//c1", "c//c2")
		if got += " " + l.next(100); got != "a1 b1 a2 c1 b2 a3 c2" {
			t.Error(got)
		}
	})
	t.Run("an owner that comes later waits for one turn of each owner", func(t *testing.T) {
		var l turns[string]
		waits(&l, "a/web/w1", "a/web/w2", "a/web/w3", "a/db/d1", "a/db/d2")
		got := l.next(3)
		waits(&l, "a/new/n1", "a/new/n2")
		if got += " " + l.next(100); got != "w1 d1 w2 d2 w3 n1 n2" {
			t.Error(got)
		}
	})
	t.Run("what is taken out was nobody's turn", func(t *testing.T) {
		var l turns[string]
		spots := waits(&l, "a//a1", "a//a2", "b//b1", "b//b2", "b/web/b3")
		l.remove(spots[0])
		l.remove(spots[2])
		if got := l.next(100); got != "a2 b2 b3" {
			t.Error(got)
		}
	})
}

// Whatever comes, is served and goes: in each line who came first is served first, and a namespace is served again only when each other
// one has been that has waited since.
func TestTurnsAreFair(t *testing.T) {
	type who struct {
		place
		number int
	}
	rapid.Check(t, func(t *rapid.T) {
		var l turns[who]
		waiting := map[place][]*spot[who]{}
		passed := map[string]map[string]int{} // of a namespace that waits: how often each other one was served since it was last
		for number := range rapid.IntRange(1, 300).Draw(t, "steps") {
			p := place{
				namespace: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "namespace"),
				owner:     types.UID(rapid.SampledFrom([]string{"", "web", "db"}).Draw(t, "owner")),
			}
			what := rapid.SampledFrom([]string{"push", "push", "pop", "remove"}).Draw(t, "event")
			switch {
			case what == "push":
				s := &spot[who]{}
				s.Value = who{p, number}
				l.push(p, s)
				waiting[p] = append(waiting[p], s)
				if passed[p.namespace] == nil {
					passed[p.namespace] = map[string]int{}
				}
			case what == "remove" && len(waiting[p]) > 0:
				at := rapid.IntRange(0, len(waiting[p])-1).Draw(t, "which")
				l.remove(waiting[p][at])
				waiting[p] = append(waiting[p][:at:at], waiting[p][at+1:]...)
			case what == "pop" && !l.empty():
				got := l.pop()
				if first := waiting[got.place]; len(first) == 0 || first[0].Value != got {
					t.Fatalf("%+v is not the first of its line", got)
				}
				waiting[got.place] = waiting[got.place][1:]
				passed[got.namespace] = map[string]int{}
				for other, times := range passed {
					if times[got.namespace]++; other != got.namespace && times[got.namespace] > 1 {
						t.Fatalf("%s was served %d times while %s waited", got.namespace, times[got.namespace], other)
					}
				}
			}
			left := map[string]int{}
			for p, all := range waiting {
				left[p.namespace] += len(all)
			}
			for name := range passed {
				if left[name] == 0 {
					delete(passed, name)
				}
			}
			if len(passed) != len(l.byName) {
				t.Fatalf("%d namespaces are left, want %d", len(l.byName), len(passed))
			}
		}
	})
}
