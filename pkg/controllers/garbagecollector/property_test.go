package garbagecollector

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// model is an API server, its watches, which may lag, and a collector whose writes may lag. It fails when the collector does what
// it never may.
type model struct {
	*rapid.T
	w       *world
	now     time.Time
	version int
	objects map[string]*stored       // by kind and uid: a mirror has the uid of another object
	kinds   map[string]*resourceKind // by the kind's name
	events  map[string][]watched     // by kind, in order
	items   []*node
	orphans []*node
	claims  []statedOwner
	writes  []write
	// mirrored are the uids that mirrors have, or had.
	mirrored map[types.UID]bool
	// What is promised to dependents that had been seen when their owner was deleted, by owner.
	orphaned, blocked map[string][]string
}

type stored struct {
	kind *resourceKind
	*metav1.PartialObjectMetadata
}

type watched struct {
	stored
	gone bool
}

type write struct {
	*node
	decision
	orphan bool
	waited []string // owners that waited for their dependents when it was decided, as the collector had seen them
}

func newModel(t *rapid.T) *model {
	m := &model{
		T: t, w: newWorld(), now: now, objects: map[string]*stored{}, events: map[string][]watched{}, mirrored: map[types.UID]bool{},
		orphaned: map[string][]string{}, blocked: map[string][]string{},
		kinds: map[string]*resourceKind{"Pod": podKind, "ReplicaSet": setKind, "Node": nodeKind, "Mirror": mirrorKind},
	}
	return m
}

func id(kind string, uid types.UID) string { return kind + " " + string(uid) }

func (s *stored) id() string { return id(s.kind.Kind, s.UID) }

func (m *model) store(s *stored) {
	m.version++
	s.ResourceVersion = strconv.Itoa(m.version)
	if s.kind == mirrorKind { // its server counts for itself
		s.ResourceVersion += "000000"
	}
	gone := s.DeletionTimestamp != nil && len(s.Finalizers) == 0
	if m.objects[s.id()] = s; gone {
		delete(m.objects, s.id())
	}
	m.events[s.kind.Kind] = append(m.events[s.kind.Kind], watched{stored{s.kind, s.DeepCopy()}, gone})
}

func (m *model) any() *stored {
	ids := slices.Sorted(maps.Keys(m.objects))
	if len(ids) == 0 {
		return nil
	}
	return m.objects[rapid.SampledFrom(ids).Draw(m.T, "object")]
}

// mirror makes an object of another group with the uid, the namespace and the name of one that exists, and perhaps its owners.
func (m *model) mirror() {
	s := m.any()
	if s == nil || s.Namespace == "" || m.mirrored[s.UID] {
		return
	}
	m.mirrored[s.UID] = true
	o := object(s.Name, namespace(s.Namespace))
	if rapid.Bool().Draw(m.T, "with owners") {
		o.OwnerReferences = s.DeepCopy().OwnerReferences
	}
	m.store(&stored{mirrorKind, o})
}

// create makes an object with references to what exists, has existed, or is referred to wrongly.
func (m *model) create() {
	kind := m.kinds[rapid.SampledFrom([]string{"Node", "Pod", "ReplicaSet"}).Draw(m.T, "kind")]
	name := fmt.Sprint("o", m.version)
	o := object(name)
	if kind == nodeKind {
		o.Namespace = ""
	} else if rapid.IntRange(0, 5).Draw(m.T, "namespace") == 0 {
		o.Namespace = "other"
	}
	for range rapid.IntRange(0, 2).Draw(m.T, "owners") {
		o.OwnerReferences = append(o.OwnerReferences, m.reference())
	}
	if rapid.IntRange(0, 4).Draw(m.T, "finalizer") == 0 {
		o.Finalizers = []string{"x"}
	}
	m.store(&stored{kind, o})
}

func (m *model) reference() metav1.OwnerReference {
	r := ref(setKind, "o"+strconv.Itoa(rapid.IntRange(0, m.version).Draw(m.T, "missing")))
	if owner := m.any(); owner != nil {
		r = ref(owner.kind, owner.Name)
	}
	r.BlockOwnerDeletion = ptr.To(rapid.Bool().Draw(m.T, "block"))
	if rapid.IntRange(0, 9).Draw(m.T, "wrong") == 0 {
		r.Kind = "Wrong"
	}
	return r
}

// adopt gives an object another owner, perhaps in a cycle.
func (m *model) adopt() {
	if s := m.any(); s != nil && !m.waits() {
		after := &stored{s.kind, s.DeepCopy()}
		r := m.reference()
		after.OwnerReferences = append(after.OwnerReferences, r)
		m.store(after)
		isIt := func(other string) bool { return other == s.id() }
		for kind := range m.kinds {
			owner := id(kind, r.UID)
			m.orphaned[owner], m.blocked[owner] = slices.DeleteFunc(m.orphaned[owner], isIt), slices.DeleteFunc(m.blocked[owner], isIt)
		}
	}
}

func (m *model) waits() bool {
	for _, s := range m.objects {
		if s.DeletionTimestamp != nil && slices.Contains(s.Finalizers, foreground) {
			return true
		}
	}
	return false
}

func (m *model) touch() {
	if s := m.any(); s != nil {
		m.store(&stored{s.kind, s.DeepCopy()})
	}
}

func (m *model) userDeletes() {
	s := m.any()
	if s == nil || s.DeletionTimestamp != nil {
		return
	}
	policy := rapid.SampledFrom([]metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground,
		metav1.DeletePropagationOrphan}).Draw(m.T, "policy")
	if policy == metav1.DeletePropagationForeground && m.waits() {
		return // two that users delete in the foreground may wait for one another
	}
	for _, d := range m.objects {
		known := m.w.find(d.kind, d.PartialObjectMetadata)
		right := func(r metav1.OwnerReference) bool { return m.owner(d, r) == s }
		twins := func(r metav1.OwnerReference) bool { return r.UID == s.UID && r.Kind != s.kind.Kind }
		// references are removed by uid
		if known != nil && d != s && slices.ContainsFunc(known.owners, right) && slices.ContainsFunc(d.OwnerReferences, right) &&
			!slices.ContainsFunc(d.OwnerReferences, twins) {
			if policy == metav1.DeletePropagationOrphan {
				m.orphaned[s.id()] = append(m.orphaned[s.id()], d.id())
			} else if policy == metav1.DeletePropagationForeground {
				m.blocked[s.id()] = append(m.blocked[s.id()], d.id())
			}
		}
	}
	m.delete(s, policy)
}

func (m *model) delete(s *stored, policy metav1.DeletionPropagation) {
	after := &stored{s.kind, s.DeepCopy()}
	after.DeletionTimestamp = ptr.To(metav1.NewTime(m.now))
	after.Finalizers = slices.DeleteFunc(after.Finalizers, func(f string) bool { return f == foreground || f == orphan })
	switch policy {
	case metav1.DeletePropagationForeground:
		after.Finalizers = append(after.Finalizers, foreground)
	case metav1.DeletePropagationOrphan:
		after.Finalizers = append(after.Finalizers, orphan)
	}
	m.store(after)
}

// release takes the finalizers of users off.
func (m *model) release(s *stored) {
	after := &stored{s.kind, s.DeepCopy()}
	after.Finalizers = slices.DeleteFunc(after.Finalizers, func(f string) bool { return f == "x" })
	m.store(after)
}

// deliver has a watch show its next event. Sometimes the watch misses a deletion, and a list finds it.
func (m *model) deliver(kind string, missed bool) {
	if len(m.events[kind]) == 0 {
		return
	}
	e := m.events[kind][0]
	m.events[kind] = m.events[kind][1:]
	if e.gone {
		if n := m.w.find(e.kind, e.PartialObjectMetadata); n != nil {
			m.queue(m.w.graph.forget(n, !missed))
		}
	} else {
		m.queue(m.w.observe(e.kind, e.DeepCopy()))
	}
}

func (m *model) queue(e effects) {
	e.remove = append(e.remove, e.review...)
	sortNodes(e.remove) // the order of a map's keys would not be reproducible
	sortNodes(e.orphan)
	slices.SortFunc(e.verify, func(a, b statedOwner) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	m.items, m.orphans, m.claims = append(m.items, e.remove...), append(m.orphans, e.orphan...), append(m.claims, e.verify...)
}

func sortNodes(all []*node) {
	slices.SortFunc(all, func(a, b *node) int { return strings.Compare(id(a.kind.Kind, a.uid), id(b.kind.Kind, b.uid)) })
}

// find reads live.
func (m *model) find(c statedOwner) *stored {
	for _, s := range m.objects {
		if s.kind.Kind == c.kind && s.Name == c.name && s.Namespace == c.namespace {
			return s
		}
	}
	return nil
}

func (m *model) work() {
	switch {
	case len(m.claims) > 0:
		c := m.claims[0]
		m.claims = m.claims[1:]
		switch found := m.find(c); {
		case m.kinds[c.kind] == nil || c.namespace == "" && c.kind != "Node":
			m.queue(m.w.verified(c, unresolvable))
		case found != nil && found.UID == c.uid:
			m.queue(m.w.verified(c, present))
		default:
			m.queue(m.w.verified(c, notFound))
		}
	case len(m.items) > 0:
		n := m.items[0]
		m.items = m.items[1:]
		m.decide(n)
	case len(m.orphans) > 0:
		n := m.orphans[0]
		m.orphans = m.orphans[1:]
		if m.w.has(n) {
			m.writes = append(m.writes, write{node: n, decision: m.w.decideOrphan(n), orphan: true})
		}
	}
}

func (m *model) decide(n *node) {
	if !m.w.has(n) {
		return
	}
	d := m.w.decide(m.now, n)
	sortNodes(d.enqueue)
	m.items = append(m.items, d.enqueue...)
	if d.read {
		n.attempt = nil
		if live := m.objects[id(n.kind.Kind, n.uid)]; live == nil {
			m.queue(m.w.graph.forget(n, true))
		} else {
			m.queue(m.w.observe(n.kind, live.DeepCopy()))
			m.items = append(m.items, n)
		}
		return
	}
	if d.deletes {
		n.attempt = &attempt{n.version, m.now}
	}
	m.writes = append(m.writes, write{node: n, decision: d, waited: m.waitingOwners(n)})
}

// waitingOwners are the owners of an object that are deleted in the foreground, as far as the collector knows.
func (m *model) waitingOwners(n *node) (all []string) {
	for _, r := range n.owners {
		if owner := m.w.ownerOf(n, r); owner.waiting() {
			all = append(all, id(owner.kind.Kind, owner.uid))
		}
	}
	return all
}

// send carries out a write of the collector.
func (m *model) send(i int) {
	w := m.writes[i]
	m.writes = slices.Delete(m.writes, i, i+1)
	if !m.carryOut(w, w.Steps) {
		if w.orphan {
			m.orphans = append(m.orphans, w.node)
		} else {
			m.items = append(m.items, w.node)
		}
	}
}

func (m *model) carryOut(w write, steps []plan.Step) bool {
	for _, step := range steps {
		switch step := step.(type) {
		case plan.Each:
			ok := true
			for _, sequence := range step.Sequences {
				ok = m.carryOut(w, sequence) && ok
			}
			if !ok {
				return false
			}
		case plan.Delete:
			m.collectorDeletes(w, step)
		case plan.Change:
			if !m.collectorChanges(step) {
				return false
			}
		}
	}
	return true
}

// collectorDeletes deletes an object. An owner that waited when that was decided may have stopped to wait, while a finalizer of users
// keeps it.
func (m *model) collectorDeletes(w write, step plan.Delete) {
	o := step.Objects[0]
	s := m.objects[id(o.GetObjectKind().GroupVersionKind().Kind, o.GetUID())]
	if s == nil || s.ResourceVersion != o.GetResourceVersion() {
		return
	}
	if s.DeletionTimestamp != nil {
		m.Fatalf("%s is deleted twice", s.Name)
	}
	for _, r := range s.OwnerReferences {
		if slices.Contains(m.orphaned[id(r.Kind, r.UID)], s.id()) {
			m.Fatalf("%s is deleted, an orphan of %s", s.Name, r.Name)
		}
		owner := m.owner(s, r)
		if owner == nil || slices.Contains(w.waited, owner.id()) {
			continue
		}
		if owner.DeletionTimestamp == nil || !slices.Contains(owner.Finalizers, foreground) {
			m.Fatalf("%s is deleted, although its owner %s is there", s.Name, owner.Name)
		}
	}
	m.delete(s, step.Propagation)
}

func (m *model) collectorChanges(step plan.Change) bool {
	s := m.objects[id(step.Old.GetObjectKind().GroupVersionKind().Kind, step.Old.GetUID())]
	if s == nil {
		return true
	}
	if s.kind == setKind && s.ResourceVersion != step.Old.GetResourceVersion() {
		return false // as of a custom resource, which is changed under a precondition
	}
	after := &stored{s.kind, s.DeepCopy()}
	named, left := uidsOf(step.Old.GetOwnerReferences(), nil), uidsOf(step.New.GetOwnerReferences(), nil)
	after.OwnerReferences = slices.DeleteFunc(after.OwnerReferences,
		func(r metav1.OwnerReference) bool { return named[r.UID] && !left[r.UID] })
	for i, r := range after.OwnerReferences {
		for _, changed := range step.New.GetOwnerReferences() {
			if changed.UID == r.UID {
				after.OwnerReferences[i].BlockOwnerDeletion = changed.BlockOwnerDeletion
			}
		}
	}
	after.Finalizers = slices.DeleteFunc(after.Finalizers, func(f string) bool {
		taken := slices.Contains(step.Old.GetFinalizers(), f) && !slices.Contains(step.New.GetFinalizers(), f)
		if taken && f == foreground {
			m.checkNobodyBlocks(s)
		}
		return taken
	})
	m.store(after)
	return true
}

func (m *model) checkNobodyBlocks(s *stored) {
	for _, dependent := range m.blocked[s.id()] {
		if d := m.objects[dependent]; d != nil &&
			slices.ContainsFunc(d.OwnerReferences, func(r metav1.OwnerReference) bool { return m.owner(d, r) == s && blocks(r) }) {
			m.Fatalf("%s goes before %s, which blocks it", s.Name, d.Name)
		}
	}
}

// settle has all watches catch up and all work done.
func (m *model) settle() {
	for range 10_000 {
		idle := len(m.items)+len(m.orphans)+len(m.claims)+len(m.writes) == 0
		for _, kind := range slices.Sorted(maps.Keys(m.events)) {
			idle = idle && len(m.events[kind]) == 0
			m.deliver(kind, false)
		}
		if m.work(); len(m.writes) > 0 {
			m.send(0)
		}
		if idle {
			return
		}
	}
	m.Fatal("it never ends")
}

// lost returns what should be gone by now.
func (m *model) lost() (all []string) {
	for _, s := range m.objects {
		orphaned := s.DeletionTimestamp == nil && len(s.OwnerReferences) > 0 && m.answerable(s)
		for _, r := range s.OwnerReferences {
			orphaned = orphaned && m.owner(s, r) == nil
		}
		if orphaned || s.DeletionTimestamp != nil && !m.held(s, nil) {
			all = append(all,
				fmt.Sprintf("%s %v %s deleting=%t", s.Name, s.Finalizers, refs(s.OwnerReferences), s.DeletionTimestamp != nil))
		}
	}
	slices.Sort(all)
	return all
}

// owner returns the owner to which an object refers, nil if there is none.
func (m *model) owner(s *stored, r metav1.OwnerReference) *stored {
	owner := m.objects[id(r.Kind, r.UID)]
	if owner != nil && owner.Name == r.Name && (owner.Namespace == "" || owner.Namespace == s.Namespace) {
		return owner
	}
	return nil
}

// answerable reports whether it can be found out if the owners exist.
func (m *model) answerable(s *stored) bool {
	return !slices.ContainsFunc(s.OwnerReferences, func(r metav1.OwnerReference) bool {
		return m.kinds[r.Kind] == nil || s.Namespace == "" && r.Kind != "Node"
	})
}

// held reports whether a dependent blocks the deletion of the object that is never deleted, because of an owner that cannot be looked
// up (GC-34, GC-35, GC-44).
func (m *model) held(s *stored, by []string) bool {
	for _, d := range m.objects {
		blocks := slices.ContainsFunc(d.OwnerReferences, func(r metav1.OwnerReference) bool { return m.owner(d, r) == s && blocks(r) })
		if blocks && !slices.Contains(by, d.id()) && (!m.answerable(d) || d.DeletionTimestamp != nil && m.held(d, append(by, s.id()))) {
			return true
		}
	}
	return false
}

// Whatever users do, whichever other objects have the same uids, and however late watches and writes are: nothing is deleted that has
// an owner which neither waits for it nor waited when that was decided, nothing twice or in another version, orphans stay, owners that
// are deleted in the foreground go after the dependents that block them; and in the end all is gone that is to go. (GC-9, GC-27, GC-35,
// GC-39, GC-53)
func TestNothingIsDeletedThatHasAnOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		kinds := []string{"Mirror", "Node", "Pod", "ReplicaSet"}
		for range rapid.IntRange(5, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 12).Draw(t, "step") {
			case 0, 1, 2:
				m.create()
			case 3:
				m.userDeletes()
			case 4:
				m.touch()
			case 5:
				m.adopt()
			case 6, 7, 8:
				m.deliver(rapid.SampledFrom(kinds).Draw(t, "watch"), rapid.IntRange(0, 3).Draw(t, "missed") == 0)
			case 9, 10:
				m.work()
			case 11:
				if len(m.writes) > 0 {
					m.send(rapid.IntRange(0, len(m.writes)-1).Draw(t, "write"))
				}
			case 12:
				m.mirror()
			}
		}
		for _, object := range slices.Sorted(maps.Keys(m.objects)) {
			m.release(m.objects[object])
		}
		m.settle()
		m.now = m.now.Add(2 * attemptLasts)
		for _, uid := range slices.Sorted(maps.Keys(m.w.nodes)) {
			for n := range m.w.twins(uid) {
				if n.attempt != nil {
					m.items = append(m.items, n)
				}
			}
		}
		m.settle()
		if left := m.lost(); len(left) > 0 {
			t.Errorf("left are %v", left)
		}
		m.compare()
	})
}

// compare compares the graph with one that sees the objects for the first time.
func (m *model) compare() {
	fresh := newWorld()
	for _, object := range slices.Sorted(maps.Keys(m.objects)) {
		fresh.see(m.objects[object].kind, m.objects[object].PartialObjectMetadata)
	}
	for _, s := range m.objects {
		if m.w.find(s.kind, s.PartialObjectMetadata) == nil {
			m.Errorf("%s is not known", s.id())
		}
	}
	if len(fresh.nodes) != len(m.w.nodes) || len(fresh.owners) != len(m.w.owners) {
		m.Errorf("%d objects and %d owners, want %d and %d", len(m.w.nodes), len(m.w.owners), len(fresh.nodes), len(fresh.owners))
	}
	for uid, o := range fresh.owners {
		if got := m.w.owners[uid]; got == nil || len(got.dependents) != len(o.dependents) {
			m.Errorf("the dependents of %s are %v, want %v", uid, got, o.dependents)
		}
	}
}
