package history

import (
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/executor"
	"github.com/standalone-kcm/controller-manager/internal/truncate"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Verb says what an entry is about.
type Verb string

// The verbs of entries.
const (
	Created Verb = "created"
	// Deleting: a controller is about to delete or evict the object. What became of that is in an entry after it,
	// unless the process was killed meanwhile.
	Deleting Verb = "deleting"
	Changed  Verb = "changed" // its owners, its finalizers, or how many replicas it wants
	Deleted  Verb = "deleted"
	Evicted  Verb = "evicted" // by the eviction API
	Gone     Verb = "gone"    // a watch has shown that the object is not there any more
	Lost     Verb = "lost"    // entries that could not be kept
	Spared   Verb = "spared"  // a controller was about to delete the object, and did not ask for it
)

// Bounds of what an entry holds.
const (
	mostText   = 500 // bytes of a text
	mostName   = 256 // bytes of a name
	mostNames  = 5   // in a list of names
	mostOwners = 8
)

// Ref names an object. Of a deletion of all objects of a kind in a namespace, name and uid are empty.
type Ref struct {
	Group     string    `json:"group,omitempty"`
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name,omitempty"`
	UID       types.UID `json:"uid,omitempty"`
}

// String returns the reference as people read it, such as "Pod shop/web-1".
func (r Ref) String() string {
	switch {
	case r.Name == "" && r.Namespace != "":
		return "all objects of kind " + r.Kind + " in " + r.Namespace
	case r.Namespace == "":
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Entry is one thing that has happened to an object. It has no content of the object.
type Entry struct {
	Time   time.Time `json:"time"`
	Verb   Verb      `json:"verb"`
	Object Ref       `json:"object"`
	// Made is when the object was created.
	Made time.Time `json:"made,omitzero"`
	// Version is the resourceVersion of the object that was seen, or that it got by a creation or a change.
	Version string `json:"resourceVersion,omitempty"`
	// Precondition is what the API server was to compare before a deletion: "uid", or "uid and resourceVersion".
	Precondition string `json:"precondition,omitempty"`

	Controller string `json:"controller,omitempty"`
	By         string `json:"by,omitempty"`  // the process: its host name, which begins the holder of a lease
	Key        *Ref   `json:"key,omitempty"` // the object that the controller worked on, if it was another one
	KeyVersion string `json:"keyResourceVersion,omitempty"`
	Rule       string `json:"rule,omitempty"`     // why the object
	Decision   string `json:"decision,omitempty"` // why the controller did anything

	Owners []Ref  `json:"owners,omitempty"` // of the object, the nearest first, as far as they were known
	Saw    string `json:"saw,omitempty"`    // of the object before, in a few words
	Change string `json:"change,omitempty"`

	Error    string `json:"error,omitempty"`
	NoAnswer bool   `json:"noAnswer,omitempty"` // the error is not the API server's: it may have been carried out
	Needless bool   `json:"needless,omitempty"` // the object was gone or replaced
	// Inferred: the process only observes. It has planned it as a leader would, or seen it by a watch.
	Inferred bool `json:"inferred,omitempty"`
	Count    int  `json:"count,omitempty"` // of entries that were lost
}

// entriesOf returns the entries about what one reconcile has done, or has planned if it only observes.
func entriesOf(controller string, d reconcile.Decision) []Entry {
	if !d.Record.Inferred && !slices.ContainsFunc(d.Did, worthKeeping) {
		return nil // nearly all reconciles: they write a status, or nothing
	}
	c := newCollector(controller, d)
	c.steps(d.Steps)
	return c.found
}

// pendingOf returns the entries about what one reconcile is about to delete.
func pendingOf(controller string, d reconcile.Decision) []Entry {
	d.Steps = deletionsOf(d.Steps)
	if len(d.Steps) == 0 {
		return nil
	}
	c := newCollector(controller, d)
	c.pending = true
	c.steps(d.Steps)
	return c.found
}

// sparedOf returns the entries about what was to be deleted, and was not asked for: a step before it has failed. did
// are those about what was.
func sparedOf(controller string, d reconcile.Decision, did []Entry) (all []Entry) {
	asked := map[Ref]bool{}
	for _, e := range did {
		if e.deletion() {
			asked[e.Object] = true
		}
	}
	if d.Record.Inferred || countOf(deletionsOf(d.Steps)) <= len(asked) {
		return nil
	}
	for _, e := range pendingOf(controller, d) {
		if !asked[e.Object] {
			e.Verb = Spared
			all = append(all, e)
		}
	}
	return all
}

// countOf counts what steps delete. All objects of a kind count as one.
func countOf(deletions []plan.Step) (n int) {
	for _, step := range deletions {
		if one, ok := step.(plan.Delete); ok {
			n += len(one.Objects)
		} else {
			n++
		}
	}
	return n
}

// deletionsOf returns those of the steps that delete.
func deletionsOf(steps []plan.Step) (all []plan.Step) {
	for _, step := range steps {
		switch s := step.(type) {
		case plan.Delete, plan.DeleteCollection:
			all = append(all, s)
		case plan.Each:
			for _, sequence := range s.Sequences {
				all = append(all, deletionsOf(sequence)...)
			}
		}
	}
	return all
}

// worthKeeping reports whether a write can be the subject of an entry.
func worthKeeping(r plan.Result) bool {
	return r.Verb != plan.Changed || r.Subresource != plan.Status && !r.Refused
}

// collector makes the entries of one decision.
type collector struct {
	reconcile.Decision
	base    Entry
	pending bool // nothing has been carried out yet
	found   []Entry
}

func newCollector(controller string, d reconcile.Decision) *collector {
	c := &collector{Decision: d, base: Entry{Time: d.Record.Time, Controller: controller, Decision: clip(d.Record.Why),
		Inferred: d.Record.Inferred}}
	if d.Owner != nil {
		key := refOf(d.Owner)
		c.base.Key, c.base.KeyVersion = &key, d.Owner.GetResourceVersion()
	}
	return c
}

func (c *collector) steps(steps []plan.Step) {
	for _, step := range steps {
		switch s := step.(type) {
		case plan.Create:
			c.created(s.Object, s.Why)
		case plan.CreateAll:
			for _, o := range s.Objects {
				c.created(o, s.Why)
			}
		case plan.Change:
			c.changed(s)
		case plan.Delete:
			c.deleted(s)
		case plan.DeleteCollection:
			c.collection(s)
		case plan.Each:
			for _, sequence := range s.Sequences {
				c.steps(sequence)
			}
		}
	}
}

// created notes creations that were carried out. What an observer would create does not exist.
func (c *collector) created(o plan.Object, why string) {
	for _, r := range c.Did {
		if r.Object == o && r.Verb == plan.Created && r.Err == nil {
			e := c.about(o, why)
			e.Verb, e.Object.Name, e.Object.UID, e.Version = Created, r.Name, r.UID, r.Version
			e.Saw = ""
			c.found = append(c.found, e)
		}
	}
}

// changed notes a change of what the story of another object may need.
func (c *collector) changed(s plan.Change) {
	if s.Subresource == plan.Status || s.Old == nil {
		return
	}
	what := changeOf(s.Old, s.New)
	if what == "" {
		return
	}
	for _, r := range c.outcomes(s.New, plan.Changed) {
		e := c.about(s.New, s.Why)
		if s.Kind.Kind != "" {
			e.Object.Group, e.Object.Kind = s.Kind.Group, s.Kind.Kind
		}
		e.Verb, e.Version, e.Change, e.Needless = Changed, s.Old.GetResourceVersion(), what, r.Needless
		e.Saw, e.Error = saw(s.Old), errorOf(e.Object, r.Err)
		c.found = append(c.found, e)
	}
}

func (c *collector) deleted(s plan.Delete) {
	for _, o := range s.Objects {
		for _, r := range c.outcomes(o, plan.Deleted) {
			e := c.about(o, s.Why)
			e.Verb, e.Precondition, e.Needless = Deleted, "uid", r.Needless
			e.fail(r.Err)
			switch {
			case c.pending:
				e.Verb = Deleting
			case s.Evict:
				e.Verb = Evicted
			}
			if s.CheckVersion {
				e.Precondition = "uid and resourceVersion"
			}
			c.found = append(c.found, e)
		}
	}
}

// collection notes the deletion of all objects of a kind in a namespace, whose result has an object of its own.
func (c *collector) collection(s plan.DeleteCollection) {
	e := c.base
	e.Verb, e.Object, e.Rule = Deleted, Ref{Group: s.Kind.Group, Kind: s.Kind.Kind, Namespace: s.Namespace}, clip(s.Why)
	if c.pending {
		e.Verb = Deleting
	}
	if c.pending || e.Inferred {
		c.found = append(c.found, e)
		return
	}
	for _, r := range c.Did {
		if r.Verb == plan.Deleted && r.Object.GetName() == "" && r.Object.GetNamespace() == s.Namespace &&
			r.Object.GetObjectKind().GroupVersionKind() == s.Kind {
			e.fail(r.Err)
			c.found = append(c.found, e)
		}
	}
}

// fail notes an error of a deletion.
func (e *Entry) fail(err error) {
	e.Error, e.NoAnswer = errorOf(e.Object, err), !executor.Answered(err)
}

// outcomes are the results of a step for an object. What has not been carried out has none, and an entry nevertheless.
func (c *collector) outcomes(o plan.Object, verb plan.Verb) (all []plan.Result) {
	if c.pending || c.base.Inferred {
		return []plan.Result{{Verb: verb}}
	}
	for _, r := range c.Did {
		if r.Object == o && r.Verb == verb && worthKeeping(r) {
			all = append(all, r)
		}
	}
	return all
}

// about begins an entry about an object.
func (c *collector) about(o plan.Object, why string) Entry {
	e := c.base
	e.Object, e.Version, e.Rule, e.Saw = refOf(o), o.GetResourceVersion(), clip(why), saw(o)
	e.Made = o.GetCreationTimestamp().Time
	e.Owners = ownersOf(o)
	if e.Key != nil && e.Key.UID == e.Object.UID && e.Object.UID != "" {
		e.Key, e.KeyVersion = nil, ""
	}
	// The object of the key is mostly the owner, and knows its own ones.
	if c.Owner != nil && slices.ContainsFunc(e.Owners, func(r Ref) bool { return r.UID == c.Owner.GetUID() }) {
		e.Owners = append(e.Owners, ownersOf(c.Owner)...)
	}
	e.Owners = e.Owners[:min(len(e.Owners), mostOwners)]
	return e
}

// refOf names an object.
func refOf(o plan.Object) Ref {
	r := Ref{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()}
	if kind, err := client.KindOf(o); err == nil {
		r.Group, r.Kind = kind.Group, kind.Kind
	}
	return r
}

// ownersOf names the owners of an object, the controlling one first. They are in its namespace, or in none.
func ownersOf(o metav1.Object) (owners []Ref) {
	for _, ref := range o.GetOwnerReferences() {
		owner := Ref{ // of which each may be of any length
			Group:     truncate.Text(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).Group, mostName),
			Kind:      truncate.Text(ref.Kind, mostName),
			Namespace: o.GetNamespace(),
			Name:      truncate.Text(ref.Name, mostName),
			UID:       types.UID(truncate.Text(string(ref.UID), mostName)),
		}
		if ref.Controller != nil && *ref.Controller {
			owners = slices.Insert(owners, 0, owner)
		} else {
			owners = append(owners, owner)
		}
	}
	return owners
}

// errorOf is what the API server has answered. An answer about an object whose content is confidential, and one that
// says which values are invalid, may quote them.
func errorOf(about Ref, err error) string {
	switch {
	case err == nil:
		return ""
	case apierrors.IsInvalid(err), about.Group == "" && (about.Kind == "Secret" || about.Kind == "ConfigMap"):
		return "refused: " + string(apierrors.ReasonForError(err))
	}
	return clip(err.Error())
}

// clip cuts a text that is too long.
func clip(s string) string { return truncate.Text(s, mostText) }
