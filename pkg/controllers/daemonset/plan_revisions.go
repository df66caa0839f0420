package daemonset

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/workloads/history"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// revisions are the ControllerRevisions of a DaemonSet, by what they are for it (DS-53, DS-54).
type revisions struct {
	data    []byte // of the present template
	problem error  // why there is no data
	// current is the revision of the present template; nil if there is none.
	current    *appsv1.ControllerRevision
	duplicates []*appsv1.ControllerRevision // have the present template, too
	// old are those of other templates.
	old []*appsv1.ControllerRevision
}

// findRevisions separates the revisions of the present template from earlier ones. If several have it, byUse says
// which one stays, and the others are duplicates.
func findRevisions(d *appsv1.DaemonSet, own []*appsv1.ControllerRevision) (r revisions) {
	if r.data, r.problem = history.Data(&d.Spec.Template); r.problem != nil {
		return r
	}
	for _, revision := range own {
		switch {
		case !history.Equal(revision, r.data):
			r.old = append(r.old, revision)
		case r.current == nil:
			r.current = revision
		case byUse(r.current, revision) < 0:
			r.current, r.duplicates = revision, append(r.duplicates, r.current)
		default:
			r.duplicates = append(r.duplicates, revision)
		}
	}
	return r
}

// byUse orders revisions of the same template: of several, the last one stays. One that is being deleted only stays
// if there is no other.
func byUse(a, b *appsv1.ControllerRevision) int {
	return cmp.Or(podutil.FalseFirst(a.DeletionTimestamp == nil, b.DeletionTimestamp == nil), history.Compare(a, b))
}

// newRevisionName returns the name that a revision of the present template gets, and its hash (DS-50, DS-51).
func newRevisionName(d *appsv1.DaemonSet) (name, hash string) {
	return history.TemplateName(d.Name, &d.Spec.Template, d.Status.CollisionCount)
}

// hashOf is the hash of a revision. One without the label has its name for a hash (DS-52).
func hashOf(r *appsv1.ControllerRevision) string { return cmp.Or(r.Labels[hashLabel], r.Name) }

// collides reports whether the name of the revision that is to be created is taken by something else (DS-55).
func (s *view) collides() bool {
	return s.revisions.current == nil && s.Taken != nil && !history.Equal(s.Taken, s.revisions.data)
}

// keepRevisions plans what it takes for the present template to have a revision, which is the newest, and reports
// whether the pods can be looked at. They wait for a revision that is created, because only then its hash is certain
// (DS-55), and for no other.
func (w *planner) keepRevisions() bool {
	r := &w.revisions
	switch {
	case r.problem != nil:
		w.say("left alone, template: %v", r.problem)
		return false
	case w.collides():
		w.say("the name %s is taken by another ControllerRevision, tries another one", w.Taken.Name)
		return false
	case r.current == nil && w.Taken == nil:
		w.createRevision()
	}
	for _, revision := range r.old {
		if revision.DeletionTimestamp == nil {
			w.independent = appendChange(w.independent, revision, revision.Revision)
		}
	}
	if r.current != nil {
		number := r.current.Revision
		if next := history.Next(r.old); number < next {
			number = next
			w.say("revision %s is the newest again", r.current.Name)
		}
		w.independent = appendChange(w.independent, r.current, number)
	}
	return true
}

// createRevision has a revision created for the present template.
func (w *planner) createRevision() {
	name, hash := newRevisionName(w.Set)
	revision, err := history.New(w.Set, kind(), &w.Set.Spec.Template, history.Next(w.revisions.old))
	if err != nil {
		return // the template was encoded before
	}
	revision.Name, revision.Labels[hashLabel] = name, hash
	w.steps = append(w.steps,
		plan.Create{Object: revision, Selector: w.Set.Spec.Selector,
			Why: "no ControllerRevision has the present template"})
	w.say("create ControllerRevision %s", name)
}

// appendChange gives a revision the number, and the label with its hash if that is missing (DS-52, DS-53).
func appendChange(sequences [][]plan.Step, r *appsv1.ControllerRevision, number int64) [][]plan.Step {
	if r.Revision == number && r.Labels[hashLabel] != "" {
		return sequences
	}
	after := history.Numbered(r, number)
	after.Labels = maps.Clone(r.Labels)
	if after.Labels == nil {
		after.Labels = map[string]string{}
	}
	after.Labels[hashLabel] = hashOf(r)
	return append(sequences,
		[]plan.Step{plan.Change{Old: r, New: after, Why: "number and label of a ControllerRevision"}})
}

// removeDuplicates has one revision take the place of all that have the present template: first for the pods that are
// not being deleted by this plan (DS-54). Duplicates that are being deleted already are only waited for.
func (w *planner) removeDuplicates() {
	var sequence []plan.Step
	if relabel := w.relabel(); len(relabel.Sequences) > 0 {
		sequence = append(sequence, relabel)
	}
	var surplus []plan.Object
	for _, r := range w.revisions.duplicates {
		if r.DeletionTimestamp == nil {
			surplus = append(surplus, r)
		}
	}
	if len(surplus) > 0 {
		sequence = append(sequence,
			plan.Delete{Objects: surplus, Why: "another ControllerRevision has the same template"})
		w.say("delete %d duplicates of ControllerRevision %s", len(surplus), w.revisions.current.Name)
	}
	if len(sequence) > 0 {
		w.independent = append(w.independent, sequence)
	}
}

// relabel gives the pods of duplicates the hash of the revision that stays.
func (w *planner) relabel() (each plan.Each) {
	if len(w.present.duplicates) == 0 {
		return each
	}
	for _, name := range slices.Sorted(maps.Keys(w.on)) {
		for _, p := range w.on[name] {
			if !w.present.duplicates[p.Labels[hashLabel]] || slices.Contains(w.doomed, p) {
				continue
			}
			after := *p // its parts belong to the cache: they are replaced, not changed
			after.Labels = maps.Clone(p.Labels)
			after.Labels[hashLabel] = w.present.hash
			each.Sequences = append(each.Sequences,
				[]plan.Step{plan.Change{Old: p, New: &after, Why: "its ControllerRevision is a duplicate"}})
		}
	}
	return each
}

// truncateHistory deletes the oldest revisions beyond the limit that no pod has (DS-58). Those that are being deleted
// already do not count.
func (w *planner) truncateHistory() {
	limit := max(0, ptr.Deref(w.Set.Spec.RevisionHistoryLimit, history.DefaultLimit))
	old := history.Surplus(w.revisions.old, limit, func(r *appsv1.ControllerRevision) bool {
		return w.usedHashes[hashOf(r)] || r.Labels[hashLabel] == ""
	})
	if len(old) > 0 {
		w.independent = append(w.independent,
			[]plan.Step{plan.Delete{Objects: old, CheckVersion: true, Why: "beyond the revision history limit"}})
		w.say("delete %d ControllerRevisions beyond the history limit", len(old))
	}
}

// present is the present template of a DaemonSet, as pods refer to it.
type present struct {
	hash       string          // of its revision, or that which its revision will have
	duplicates map[string]bool // hashes of other revisions that have it
	generation string          // how often the template was changed; empty if nobody counts it
}

// presentOf finds out how pods of the present template are recognised.
func presentOf(d *appsv1.DaemonSet, r revisions) (p present) {
	if r.current != nil {
		p.hash = hashOf(r.current)
	} else {
		_, p.hash = newRevisionName(d)
	}
	for _, duplicate := range r.duplicates {
		if hash := hashOf(duplicate); hash != p.hash {
			if p.duplicates == nil {
				p.duplicates = map[string]bool{}
			}
			p.duplicates[hash] = true
		}
	}
	if n, err := strconv.ParseInt(d.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64); err == nil {
		p.generation = strconv.FormatInt(n, 10)
	}
	return p
}

// has reports whether a pod was made of the template. The count keeps pods when only the encoding of the template or
// the recipe of the hash has changed, as with a new version of the controller (DS-56).
func (t present) has(p *corev1.Pod) bool {
	hash := p.Labels[hashLabel]
	return hash == t.hash || t.duplicates[hash] || t.generation != "" && p.Labels[templateGeneration] == t.generation
}
