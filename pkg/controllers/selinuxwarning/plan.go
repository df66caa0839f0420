package selinuxwarning

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// mostConflicts is how many conflicts are reported of a pod on a volume, of each property. Of n pods that all want
// another label, n times as many series and events as there are pods would be of no use to anybody.
const mostConflicts = 10

// The properties of pods that may be in conflict (ST-64, ST-65).
const (
	propertyPolicy = "SELinuxChangePolicy"
	propertyLabel  = "SELinuxLabel"
)

// snapshot is a volume and the pods that mount it. The pods belong to a shared cache.
type snapshot struct {
	Volume    string // as nodes call it
	Mountable bool   // it may be mounted with a label
	Uses      []use  // by the names of the pods
	Reported  *memory
}

// use is what a pod does with a volume.
type use struct {
	Pod    *corev1.Pod
	Label  string
	Policy corev1.PodSELinuxChangePolicy
	// Twice is what the pod calls a volume that its containers mount with different labels; empty if they do not.
	Twice string
}

// memory is what was reported of a volume.
type memory struct {
	Conflicts []conflict
	Twice     []types.UID // of pods whose containers mount it with different labels
}

// conflict is one that a pod has with another one.
type conflict struct {
	Property string
	Pod      side
	Other    side
}

// side is one of two pods, with the value of the property that is in conflict.
type side struct {
	Namespace, Name string
	UID             types.UID
	Value           string
}

// decision is what conflicts there are.
type decision struct {
	Conflicts []conflict
	Twice     []types.UID
}

// useOf returns what a pod does with a volume that it calls by these names; false if no container mounts it, as one
// that has it as a block device does not (ST-60).
func useOf(p *corev1.Pod, names map[string]bool) (u use, mounts bool) {
	u = use{Pod: p, Policy: corev1.SELinuxChangePolicyMountOption}
	if c := p.Spec.SecurityContext; c != nil && c.SELinuxChangePolicy != nil {
		u.Policy = *c.SELinuxChangePolicy
	}
	for volume, label := range mountsOf(p) {
		switch {
		case !names[volume]:
		case !mounts:
			mounts, u.Label = true, label.text()
		case u.Twice == "" && label.text() != u.Label: // ST-61
			u.Twice = volume
		}
	}
	return u, mounts
}

// effective returns a use as it counts: without a label that is mounted, all files are labelled one by one (ST-62).
func (s *snapshot) effective(u use) use {
	switch {
	case !s.Mountable:
		u.Policy, u.Label = corev1.SELinuxChangePolicyRecursive, ""
	case u.Label == "":
		u.Policy = corev1.SELinuxChangePolicyRecursive
	}
	return u
}

// value returns the value of a property.
func (u *use) value(property string) string {
	if property == propertyPolicy {
		return string(u.Policy)
	}
	return u.Label
}

// planEvents compares the pods that mount a volume, and records events about conflicts that were not reported yet.
func planEvents(_ time.Time, s snapshot) (d decision, p plan.Plan) {
	var reported memory
	if s.Reported != nil {
		reported = *s.Reported
	}
	record := func(about *corev1.Pod, e plan.Event) {
		p.Steps = append(p.Steps, plan.RecordEvent{Object: about, Event: e})
	}
	pods := map[types.UID]*corev1.Pod{}
	for _, u := range s.Uses {
		pods[u.Pod.UID] = u.Pod
		if u.Twice == "" {
			continue
		}
		if d.Twice = append(d.Twice, u.Pod.UID); !slices.Contains(reported.Twice, u.Pod.UID) {
			record(u.Pod, u.doubled())
		}
	}
	was := setOf(reported.Conflicts)
	d.Conflicts = conflictsOf(s)
	for _, c := range d.Conflicts {
		if !was[c] {
			record(pods[c.Pod.UID], c.event())
		}
	}
	p.Why = fmt.Sprintf("%d pods mount the volume, and have %d conflicts with one another; %d events tell of what was "+
		"not told yet", len(s.Uses), len(d.Conflicts), len(p.Steps))
	return d, p
}

// doubled is the event about a pod whose containers mount a volume with different labels (ST-61).
func (u *use) doubled() plan.Event {
	return plan.Event{Type: corev1.EventTypeWarning, Reason: "MultipleSELinuxLabels",
		Message: fmt.Sprintf("Volume %q is mounted twice with different SELinux labels inside this pod", u.Twice)}
}

// event is that about a conflict, on one of the pods. It says nothing of pods in other namespaces (ST-64).
func (c conflict) event() plan.Event {
	other, value := "another pod", "a different "+c.Property
	if c.Other.Namespace == c.Pod.Namespace {
		other, value = "pod "+c.Other.Name, fmt.Sprintf("%s %q", c.Property, c.Other.Value)
	}
	return plan.Event{Type: corev1.EventTypeNormal, Reason: c.Property + "Conflict", Message: fmt.Sprintf(
		"%s %q conflicts with %s that uses the same volume as this pod with %s. If both pods land on the same node, "+
			"only one of them may access the volume.", c.Property, c.Pod.Value, other, value)}
}

// remember keeps what was reported.
func remember(_ time.Time, _ snapshot, d decision, _ plan.Outcome) *memory {
	if len(d.Conflicts) == 0 && len(d.Twice) == 0 {
		return nil
	}
	return &memory{Conflicts: d.Conflicts, Twice: d.Twice}
}

// conflictsOf returns the conflicts of the pods that mount a volume (ST-63): of each pod those that were reported
// before, and then others, up to a bound.
func conflictsOf(s snapshot) (all []conflict) {
	uses := make([]use, len(s.Uses))
	for i, u := range s.Uses {
		uses[i] = s.effective(u)
	}
	for _, property := range []string{propertyPolicy, propertyLabel} {
		g := groupsOf(property, uses)
		reported := s.reported(property, uses)
		for _, u := range uses {
			all = append(all, g.conflicts(u, reported[u.Pod.UID])...)
		}
	}
	return all
}

// groups are uses by the value of a property: only those of different values can be in conflict.
type groups struct {
	property    string
	values      []string // sorted
	of          map[string][]use
	conflicting map[string]*conflicting // by the value, as far as it was looked for
}

// conflicting are the values with which one is in conflict: thousands of pods may have that one.
type conflicting struct {
	found []string
	next  int // the first of the values that was not compared yet
}

func groupsOf(property string, uses []use) groups {
	g := groups{property: property, of: map[string][]use{}, conflicting: map[string]*conflicting{}}
	for _, u := range uses {
		value := u.value(property)
		if _, known := g.of[value]; !known {
			g.values = append(g.values, value)
		}
		g.of[value] = append(g.of[value], u)
	}
	slices.Sort(g.values)
	return g
}

// conflicts returns those of a pod: those that are given, and then others, up to a bound.
func (g groups) conflicts(u use, found []conflict) []conflict {
	was := setOf(found)
	for value := range g.inConflict(u.value(g.property)) {
		for _, other := range g.of[value] {
			if len(found) >= mostConflicts {
				return found
			}
			if c := conflictOf(g.property, u, other); !was[c] {
				found = append(found, c)
			}
		}
	}
	return found
}

// inConflict are the values with which one is in conflict. Each two are compared once.
func (g groups) inConflict(value string) iter.Seq[string] {
	a := g.conflicting[value]
	if a == nil {
		a = &conflicting{}
		g.conflicting[value] = a
	}
	return func(yield func(string) bool) {
		for i := 0; ; i++ {
			for i == len(a.found) && a.next < len(g.values) {
				if other := g.values[a.next]; differ(g.property, value, other) {
					a.found = append(a.found, other)
				}
				a.next++
			}
			if i == len(a.found) || !yield(a.found[i]) {
				return
			}
		}
	}
}

// reported returns the conflicts that were reported and still are, by the pod.
func (s *snapshot) reported(property string, uses []use) map[types.UID][]conflict {
	found := map[types.UID][]conflict{}
	if s.Reported == nil {
		return found
	}
	by := map[types.UID]use{}
	for _, u := range uses {
		by[u.Pod.UID] = u
	}
	for _, c := range s.Reported.Conflicts {
		u, ok1 := by[c.Pod.UID]
		other, ok2 := by[c.Other.UID]
		if ok1 && ok2 && c.Property == property && c == conflictOf(property, u, other) {
			found[c.Pod.UID] = append(found[c.Pod.UID], c)
		}
	}
	return found
}

func conflictOf(property string, u, other use) conflict {
	return conflict{Property: property, Pod: sideOf(property, u), Other: sideOf(property, other)}
}

func sideOf(property string, u use) side {
	return side{u.Pod.Namespace, u.Pod.Name, u.Pod.UID, u.value(property)}
}

func setOf(all []conflict) map[conflict]bool {
	set := make(map[conflict]bool, len(all))
	for _, c := range all {
		set[c] = true
	}
	return set
}

// differ reports whether two values of a property are in conflict: policies if they are not the same, labels if their
// levels are not, or another part that both have (ST-63).
func differ(property, a, b string) bool {
	if property == propertyPolicy || a == b {
		return a != b
	}
	x, y := strings.SplitN(a, ":", 4), strings.SplitN(b, ":", 4)
	level := func(parts []string) string { return strings.Join(parts[min(3, len(parts)):], ":") }
	if level(x) != level(y) {
		return true
	}
	for i := range min(3, len(x), len(y)) {
		if x[i] != "" && y[i] != "" && x[i] != y[i] {
			return true
		}
	}
	return false
}
