package why

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Schema is the version of the documents that this package makes. Fields may be added to it; a field that changes its
// meaning gets another version.
const Schema = "why.controller-manager/v1"

// Answer says why one object is as it is.
type Answer struct {
	metav1.TypeMeta `json:",inline"`

	Object  Ref    `json:"object"`  // that was asked about
	State   State  `json:"state"`   // of that object
	Summary string `json:"summary"` // the answer in one line

	// Cause is what has to change, or to happen; nil if nothing is wrong and nothing is waited for.
	Cause *Cause `json:"cause,omitempty"`
	// Chain leads from the object to the cause. Its first link is the object.
	Chain []Link `json:"chain"`
	// Deletion says what is known of the deletion of the object; nil if nobody has deleted it.
	Deletion *Deletion `json:"deletion,omitempty"`

	// Decisions are what controllers have last decided about the objects of the chain, if a controller manager was
	// asked.
	Decisions []Decision `json:"decisions,omitempty"`

	// Unread names what could not be read. The cause may be there.
	Unread []string `json:"unread,omitempty"`
	// Source says who has worked it out.
	Source string      `json:"source,omitempty"`
	Time   metav1.Time `json:"time"`
}

// Decision is what a controller has last decided about an object.
type Decision struct {
	Object     Ref         `json:"object"`
	Controller string      `json:"controller"`
	Time       metav1.Time `json:"time"`
	Why        string      `json:"why"`
	Steps      []string    `json:"steps,omitempty"`    // what it does
	Inferred   bool        `json:"inferred,omitempty"` // an observer has planned it, and does not know who has carried it out
	Error      string      `json:"error,omitempty"`    // of the last try
	Failures   int         `json:"failures,omitempty"` // in a row
	Held       string      `json:"held,omitempty"`     // by a brake
	// NextSeconds is the time from Time to the next try by the clock; zero: only an event leads to one.
	NextSeconds float64 `json:"nextSeconds,omitempty"`
}

// State says in one word how an object is.
type State string

// The states of an object.
const (
	AsWanted State = "AsWanted" // all that was asked for is there
	Waiting  State = "Waiting"  // it gets on, or waits for something that is expected to come
	Failing  State = "Failing"  // somebody has to do something
	Deleting State = "Deleting"
	NotFound State = "NotFound"
)

// Ref names an object.
type Ref struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// BuiltIn reports by the group whether the kind is one of Kubernetes. A custom kind may have the name of such a one.
func (r Ref) BuiltIn() bool {
	group, _, ok := strings.Cut(r.APIVersion, "/")
	return !ok || !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}

// String returns the reference as people read it, such as "Deployment shop/web".
func (r Ref) String() string {
	kind := r.Kind
	if group, _, _ := strings.Cut(r.APIVersion, "/"); !r.BuiltIn() {
		kind += "." + group
	}
	if r.Namespace == "" {
		return kind + " " + r.Name
	}
	return kind + " " + r.Namespace + "/" + r.Name
}

// Cause is the component at fault.
type Cause struct {
	Object  Ref    `json:"object"`
	Reason  string `json:"reason"`  // one word, such as ExceededQuota
	Message string `json:"message"` // what is so with the object
	Certain bool   `json:"certain"` // the API says so; otherwise it was inferred
	Ends    string `json:"ends,omitempty"`
}

// Link is one object on the way to the cause.
type Link struct {
	Object Ref    `json:"object"`
	Says   string `json:"says"`
}

// Deletion says what is known of a deletion.
type Deletion struct {
	Since  metav1.Time `json:"since"`
	Rule   string      `json:"rule,omitempty"` // by which rule, if the API shows one
	HeldBy []string    `json:"heldBy,omitempty"`
}

// verdict is what a rule says of one object.
type verdict struct {
	object  Ref
	state   State
	says    string
	because *verdict // another object, from which it comes; nil: the cause is here

	reason string // of the cause, in one word
	likely bool   // it was inferred
	moving bool   // the object gets on, and nothing is in its way
	ends   string // what ends it
}

// fine says that an object is as it was asked to be.
func fine(o plan.Object, format string, args ...any) *verdict {
	return &verdict{object: refOf(o), state: AsWanted, says: fmt.Sprintf(format, args...)}
}

// waits says that an object gets on.
func waits(o plan.Object, reason, format string, args ...any) *verdict {
	return &verdict{object: refOf(o), state: Waiting, reason: reason, says: fmt.Sprintf(format, args...)}
}

// fails says that somebody has to do something about an object.
func fails(o plan.Object, reason, format string, args ...any) *verdict {
	return &verdict{object: refOf(o), state: Failing, reason: reason, says: fmt.Sprintf(format, args...)}
}

// through returns the verdict with the one that it comes from, whose state it takes over.
func (v *verdict) through(next *verdict) *verdict {
	if next == nil || next.state == AsWanted {
		return v
	}
	v.because, v.state = next, next.state
	if next.state == Deleting {
		v.state = Waiting
	}
	return v
}

// inferred returns the verdict as one that the API does not state.
func (v *verdict) inferred() *verdict {
	v.likely = true
	return v
}

// moves returns the verdict as one on an object that gets on by itself: if nothing else is found, there is no cause.
func (v *verdict) moves() *verdict {
	v.moving = true
	return v
}

// until returns the verdict with what ends the wait.
func (v *verdict) until(format string, args ...any) *verdict {
	v.ends = fmt.Sprintf(format, args...)
	return v
}

// last returns the verdict at the end of the chain.
func (v *verdict) last() *verdict {
	for v.because != nil {
		v = v.because
	}
	return v
}

// worse reports whether the verdict needs people more than another one does: failures before waits, what is certain
// before what is inferred.
func (v *verdict) worse(than *verdict) bool {
	if than == nil {
		return true
	}
	rank := map[State]int{AsWanted: 0, Deleting: 1, Waiting: 2, Failing: 3, NotFound: 3}
	if a, b := rank[v.state], rank[than.state]; a != b {
		return a > b
	}
	return !v.last().likely && than.last().likely
}

// answer turns the verdict into what people and programs read.
func (v *verdict) answer(w *world) Answer {
	a := Answer{
		TypeMeta: metav1.TypeMeta{APIVersion: Schema, Kind: "Answer"},
		Object:   v.object, State: v.state, Unread: w.unreadNames(), Time: metav1.Time{Time: w.now},
	}
	for link := v; link != nil; link = link.because {
		a.Chain = append(a.Chain, Link{link.object, oneLine(link.says)})
	}
	last := v.last()
	a.Summary = oneLine(fmt.Sprintf("%s: %s", v.object, v.says))
	if v.state == AsWanted || last.moving {
		return a
	}
	a.Cause = &Cause{Object: last.object, Reason: last.reason, Message: oneLine(last.says), Certain: !last.likely,
		Ends: last.ends}
	word := "Cause"
	if last.likely {
		word = "Likely cause"
	}
	switch {
	case last != v:
		a.Summary = oneLine(fmt.Sprintf("%s. %s: %s: %s", a.Summary, word, last.object, last.says))
	case last.likely:
		a.Summary += " (inferred)"
	}
	return a
}

// oneLine returns a text in one line that people can read: what others have written may have many lines.
func oneLine(text string) string {
	const longest = 800
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > longest {
		return string(runes[:longest]) + "..."
	}
	return text
}

// ago says how long ago something was, as in "3m".
func (w *world) ago(t metav1.Time) string { return short(w.now.Sub(t.Time)) }

// short returns a duration with as many digits as people want to read.
func short(d time.Duration) string {
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
