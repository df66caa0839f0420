package history

import (
	"cmp"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Story is what became of an object, for people and programs.
type Story struct {
	metav1.TypeMeta `json:",inline"`

	Object  Ref    `json:"object"`  // the last one that had the name
	Summary string `json:"summary"` // in one line
	// Chain leads from the topmost owner that is known to the object.
	Chain   []Link  `json:"chain"`
	Entries []Entry `json:"entries"` // of all objects of the chain, and of earlier ones of the name, by time
	// Source says who was asked.
	Source string `json:"source,omitempty"`
}

// Link says what became of one object.
type Link struct {
	Object Ref    `json:"object"`
	Says   string `json:"says"`
}

// Tell makes a story of what processes know of the objects that had a name. It returns false if they know nothing.
func Tell(about Ref, entries []Entry) (s Story, ok bool) {
	entries = slices.Clone(entries)
	byTime(entries)
	// Two pods may lead to one process.
	entries = slices.CompactFunc(entries, func(a, b Entry) bool { return reflect.DeepEqual(a, b) })
	entries = withoutAnswered(entries)
	last := slices.IndexFunc(entries, func(e Entry) bool { return e.Object.named(about) })
	if last < 0 {
		return s, false
	}
	for i, e := range entries {
		if e.Object.named(about) {
			last = i
		}
	}
	s.Object, s.Entries = entries[last].Object, entries
	for object, seen := s.Object, map[types.UID]bool{}; ; {
		s.Chain = append(s.Chain, Link{object, verdict(object, entries)})
		seen[object.UID] = true
		owner, found := ownerOf(object, entries)
		if !found || seen[owner.UID] {
			break
		}
		object = owner
	}
	s.Summary = fmt.Sprintf("%s: %s", s.Object, s.Chain[0].Says)
	slices.Reverse(s.Chain)
	return s, true
}

// withoutAnswered leaves out that a controller was about to delete an object, if it is known what became of that.
func withoutAnswered(entries []Entry) (left []Entry) {
	for i, e := range entries {
		answers := func(after Entry) bool { return after.answers(e) }
		if e.Verb != Deleting || !slices.ContainsFunc(entries[i+1:], answers) {
			left = append(left, e)
		}
	}
	return left
}

// answers reports whether an entry says what became of a deletion that a controller was about to ask for. That an
// object was gone says it of this try alone: another process may have asked before.
func (e *Entry) answers(about Entry) bool {
	return (e.deletion() || e.Verb == Spared) && !e.Inferred && e.Object == about.Object &&
		e.Controller == about.Controller && (!e.Needless || e.By == about.By && e.Time.Equal(about.Time))
}

// deletion reports whether the entry is of a deletion that was carried out, tried or planned.
func (e *Entry) deletion() bool { return e.Verb == Deleted || e.Verb == Evicted }

// ownerOf is the first owner of an object that an entry names.
func ownerOf(o Ref, entries []Entry) (owner Ref, ok bool) {
	for _, e := range entries {
		if e.Object.UID == o.UID && len(e.Owners) > 0 {
			return e.Owners[0], true
		}
		// An entry about what it owns may know the owners of both.
		i := slices.IndexFunc(e.Owners, func(r Ref) bool { return r.UID == o.UID })
		if i >= 0 && i+1 < len(e.Owners) && e.Key != nil && e.Key.UID == o.UID {
			return e.Owners[i+1], true
		}
	}
	return owner, false
}

// evidence is what entries show of the end of an object. Each part is nil if there is none.
type evidence struct {
	own, pending, unanswered, refused *Entry // what a controller has done, or tried
	planned                           *Entry // what an observer has planned
	collection, part                  *Entry // the deletion of all objects of the kind, and one that has failed
	made, gone                        *Entry
	lost                              int // entries that nobody kept
}

// evidenceOf looks for what shows the end of an object.
func evidenceOf(o Ref, entries []Entry) (v evidence) {
	for i := range entries {
		if e := &entries[i]; o.UID != "" && e.Object.UID == o.UID {
			v.take(e)
		}
	}
	for i := range entries {
		switch e := &entries[i]; {
		case e.Verb == Lost && !e.Time.Before(v.begin()):
			v.lost += e.Count
		case e.Object.Name != "" || !e.deletion() || !v.covers(o, e):
		case e.Error == "":
			v.collection = e
		default:
			v.part = e
		}
	}
	return v
}

// begin is when the object was made, as far as that is known: what was before has nothing to do with it.
func (v *evidence) begin() (made time.Time) {
	if v.gone != nil {
		made = v.gone.Made
	}
	if v.made != nil {
		made = v.made.Time
	}
	return made
}

// take notes an entry about the object itself.
func (v *evidence) take(e *Entry) {
	switch deletion := e.deletion(); {
	case e.Verb == Deleting:
		v.pending = e
	case e.Verb == Gone && (v.gone == nil || !e.Inferred):
		v.gone = e // who leads knows what it has not done
	case e.Verb == Created:
		v.made = e
	case deletion && e.Inferred:
		v.planned = e
	case deletion && e.Error == "" && !e.Needless:
		v.own = cmp.Or(v.own, e) // a later one changes nothing
	case deletion && e.NoAnswer:
		v.unanswered = e
	case deletion:
		v.refused = e
	}
}

// covers reports whether a deletion of all objects of a kind may have been that of an object.
func (v *evidence) covers(o Ref, all *Entry) bool {
	if (all.Object != Ref{Group: o.Group, Kind: o.Kind, Namespace: o.Namespace}) || v.gone == nil {
		return false
	}
	return !all.Time.Before(v.begin()) && !all.Time.After(v.gone.Time)
}

// verdict says who deleted an object, and by which rule, as far as the entries show it.
func verdict(o Ref, entries []Entry) string {
	v := evidenceOf(o, entries)
	since := sinceWhen(v.gone)
	for _, e := range []*Entry{v.own, v.collection, v.pending} {
		if e != nil {
			return e.says() + since
		}
	}
	if v.gone != nil {
		return v.end() + since
	}
	switch tried := cmp.Or(v.unanswered, v.refused); {
	case tried != nil:
		return tried.says()
	case v.planned != nil:
		return v.planned.says() + " (inferred); nothing shows that it is gone"
	case v.made != nil:
		return fmt.Sprintf("%s created it: %s; nothing shows that it is gone", v.made.Controller, v.made.reason())
	}
	return "nothing is known of its deletion"
}

// end says what is likely of an object that is gone, and whose deletion no entry is about.
func (v *evidence) end() string {
	if tried := cmp.Or(v.unanswered, v.part, v.refused); tried != nil {
		return tried.says()
	}
	switch {
	case v.planned != nil:
		return "it is gone; " + v.planned.says() + " (inferred)"
	case v.lost > 0:
		return fmt.Sprintf("nothing that was kept says who deleted it: %d entries were lost", v.lost)
	case v.gone.Inferred && v.made == nil:
		return "it is gone, and no plan of an observer names it: somebody else deleted it, or a controller that was " +
			"quicker"
	}
	return "somebody else deleted it: no controller that was asked planned it"
}

// sinceWhen says when an object was seen to be gone.
func sinceWhen(gone *Entry) string {
	if gone == nil {
		return ""
	}
	return "; gone since " + stamp(gone.Time)
}

// says is what an entry about a deletion says, without the object.
func (e *Entry) says() string {
	what := "deleted"
	if e.Verb == Evicted {
		what = "evicted"
	}
	which := "it"
	if e.Object.Name == "" {
		which = e.Object.String()
	}
	switch {
	case e.Verb == Deleting:
		return fmt.Sprintf("%s was about to delete %s at %s, and no answer is known: %s", e.Controller, which,
			stamp(e.Time), e.reason())
	case e.NoAnswer:
		return fmt.Sprintf("%s asked for %s to be %s at %s, and got no answer: %s", e.Controller, which, what,
			stamp(e.Time), e.reason())
	case e.Inferred:
		return fmt.Sprintf("%s would have %s %s at %s: %s", e.Controller, what, which, stamp(e.Time), e.reason())
	case e.Error != "":
		return fmt.Sprintf("%s tried to have %s %s at %s, and failed: %s", e.Controller, which, what, stamp(e.Time),
			e.Error)
	case e.Needless:
		return fmt.Sprintf("%s found %s gone or replaced at %s", e.Controller, which, stamp(e.Time))
	}
	return fmt.Sprintf("%s %s %s at %s: %s", e.Controller, what, which, stamp(e.Time), e.reason())
}

// reason is the rule, or else the decision.
func (e *Entry) reason() string { return cmp.Or(e.Rule, e.Decision, "it did not say why") }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Line is the story in one line.
func (s Story) Line() string { return s.Summary }

// WriteText writes the story for people.
func (s Story) WriteText(w io.Writer) {
	fmt.Fprintf(w, "%s\n\n", oneLine(s.Summary))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, link := range s.Chain {
		fmt.Fprintf(table, "  %s%s\t%s\n", strings.Repeat("  ", i), oneLine(link.Object.String()), oneLine(link.Says))
	}
	fmt.Fprintln(table)
	for _, e := range s.Entries {
		fmt.Fprintf(table, "  %s\t%s\n", stamp(e.Time), oneLine(e.text()))
	}
	_ = table.Flush() // as of the others: whoever reads may have gone
	fmt.Fprintf(w, "\nSource:  %s\n", s.Source)
}

// text says all that an entry has, in one line.
func (e *Entry) text() string {
	who := cmp.Or(e.Controller, "a watch")
	if e.Inferred && e.Verb != Gone {
		who += " (inferred)"
	}
	parts := []string{fmt.Sprintf("%s %s %s", who, e.Verb, e.Object)}
	switch e.Verb {
	case Gone:
		parts[0] = fmt.Sprintf("%s is gone", e.Object)
	case Spared:
		parts[0] = fmt.Sprintf("%s did not ask for the deletion of %s", who, e.Object)
	case Deleting:
		parts[0] = fmt.Sprintf("%s was about to delete %s", who, e.Object)
	case Deleted, Evicted, Changed:
		if e.Inferred {
			parts[0] = fmt.Sprintf("%s would have %s %s", who, e.Verb, e.Object)
		}
	case Lost:
		return fmt.Sprintf("%d entries were lost", e.Count)
	}
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+value)
		}
	}
	add("", e.Rule)
	add("decided: ", e.Decision)
	add("change: ", e.Change)
	add("saw: ", e.Saw)
	add("version ", e.Version)
	add("precondition: ", e.Precondition)
	if e.Key != nil {
		parts = append(parts, fmt.Sprintf("for %s version %s", e.Key, e.KeyVersion))
	}
	if e.Needless {
		parts = append(parts, "needless: it was gone or replaced")
	}
	add("error: ", e.Error)
	add("by ", e.By)
	return strings.Join(parts, "; ")
}

// oneLine keeps what a terminal would act upon out of a text.
func oneLine(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, text)
}
