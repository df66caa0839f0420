package manager

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
)

// brakesAnnotation is the annotation of the lease that says what brakes hold and what releases them, for people and for
// the next leader. It is there only while there is something to say.
const brakesAnnotation = "controller-manager/brakes"

// mostNoted bounds how much is noted, as the lease is written every two seconds.
const mostNoted = 32

// brakesNote is what the annotation says, in JSON.
type brakesNote struct {
	Holds   []notedHold   `json:"holds,omitempty"`
	Release *brakeRelease `json:"release,omitempty"`
}

// notedHold is something that a brake holds.
type notedHold struct {
	Controller string    `json:"controller"`
	What       string    `json:"what"`
	Since      time.Time `json:"since"`
}

// brakeRelease is an annotation that releases brakes, and when it was first seen.
type brakeRelease struct {
	Of    string    `json:"of"`
	Since time.Time `json:"since"`
}

// noteOf returns what the annotations say; nothing if that cannot be read.
func noteOf(annotations map[string]string) (n brakesNote) {
	if text := annotations[brakesAnnotation]; text == "" || json.Unmarshal([]byte(text), &n) != nil {
		return brakesNote{}
	}
	return n
}

// write has the annotations say it. What does not change is written alike each time.
func (n brakesNote) write(annotations map[string]string) {
	delete(annotations, brakesAnnotation)
	if len(n.Holds) == 0 && n.Release == nil {
		return
	}
	if text, err := json.Marshal(n); err == nil {
		annotations[brakesAnnotation] = string(text)
	}
}

// add notes what a controller holds, of which what began first comes before what does not fit.
func (n *brakesNote) add(controller string, held []brake.Hold) {
	for _, h := range held {
		n.Holds = append(n.Holds, notedHold{controller, h.What, h.Since.UTC().Truncate(time.Second)})
	}
	if len(n.Holds) > mostNoted {
		slices.SortStableFunc(n.Holds, func(a, b notedHold) int { return a.Since.Compare(b.Since) })
		n.Holds = n.Holds[:mostNoted]
	}
}

// of returns what a controller holds.
func (n brakesNote) of(controller string) (all []brake.Hold) {
	for _, h := range n.Holds {
		if h.Controller == controller {
			all = append(all, brake.Hold{What: h.What, Since: h.Since})
		}
	}
	return all
}

func (n brakesNote) released() brakeRelease {
	if n.Release == nil {
		return brakeRelease{}
	}
	return *n.Release
}

func (r brakeRelease) list() (names []string) {
	for _, name := range strings.Split(r.Of, ",") {
		names = append(names, strings.TrimSpace(name))
	}
	return names
}

// names reports whether a release is of a controller.
func (r brakeRelease) names(m brakeMember) bool {
	return slices.ContainsFunc(r.list(),
		func(name string) bool { return name == "*" || name == m.name || name != "" && name == m.alias })
}
