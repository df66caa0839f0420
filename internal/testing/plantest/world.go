package plantest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// World is an API server in memory, as far as planners can see: it hands out uids and versions, bumps the generation
// with the spec, keeps spec and status apart, refuses what is outdated, and lets pods linger that are deleted. Its
// clock stands still until it is advanced. Objects of any kind live in it.
type World struct {
	// Refuse, if set, may make any write fail.
	Refuse func(plan.Verb, plan.Object) error
	// Log has a line for each write that was done, e.g. "change ReplicaSet web-1", "status Deployment web".
	Log []string
	// Events has the message of each event, in order.
	Events []string

	now     time.Time
	version int
	stores  map[kind]*store
}

type kind = reflect.Type

// store remembers what a list of a kind has shown after each write, oldest first, so that caches can lag behind.
type store struct{ past [][]plan.Object }

func (s *store) present() []plan.Object { return s.past[len(s.past)-1] }

// NewWorld returns a world in which it is Epoch, with the given objects as they are.
func NewWorld(objects ...plan.Object) *World {
	w := &World{now: Epoch, stores: map[kind]*store{}}
	for _, o := range objects {
		w.put(o.DeepCopyObject().(plan.Object))
	}
	return w
}

// Now returns the time.
func (w *World) Now() time.Time { return w.now }

// Sleep lets time pass.
func (w *World) Sleep(d time.Duration) { w.now = w.now.Add(d) }

// All returns the objects of a type by name, as they are now. They must not be altered.
func All[T plan.Object](w *World) []T { return plan.Typed[T](w.store(reflect.TypeFor[T]()).present()) }

// One returns the object of that type and name, as it is now; the zero T if there is none.
func One[T plan.Object](w *World, name string) T {
	for _, o := range All[T](w) {
		if o.GetName() == name {
			return o
		}
	}
	var none T
	return none
}

// Edit is a user's write to the main resource of an object. It reports whether the object is there.
func Edit[T plan.Object](w *World, name string, edit func(T)) bool {
	before := One[T](w, name)
	if reflect.ValueOf(before).IsNil() {
		return false
	}
	after := before.DeepCopyObject().(T)
	edit(after)
	w.replace(before, after, false)
	return true
}

// EditStatus is a write of some other component to the status of an object.
func EditStatus[T plan.Object](w *World, name string, edit func(T)) {
	before := One[T](w, name)
	after := before.DeepCopyObject().(T)
	edit(after)
	w.replace(before, after, true)
}

// Remove takes objects out of the world at once, finalizers and grace notwithstanding.
func (w *World) Remove(o plan.Object) {
	s := w.store(reflect.TypeOf(o))
	s.past = append(s.past,
		slices.DeleteFunc(slices.Clone(s.present()), func(p plan.Object) bool { return same(o, p) }))
}

// Apply does what a plan says, in order, until a step fails.
func (w *World) Apply(p plan.Plan) plan.Outcome {
	var did plan.Outcome
	did.Err = w.sequence(p.Steps, &did)
	return did
}

func (w *World) sequence(steps []plan.Step, did *plan.Outcome) error {
	for _, step := range steps {
		if err := w.step(step, did); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) step(step plan.Step, did *plan.Outcome) error {
	var errs []error
	note := func(v plan.Verb, o plan.Object, subresource string, events plan.Events, err error) {
		did.Results = append(did.Results, plan.Result{Verb: v, Object: o, Subresource: subresource, Err: err})
		errs = append(errs, err)
		event := events.Done
		if err != nil {
			event = events.Failed
		} else {
			w.log(v, o, subresource == plan.Status)
		}
		if event.Reason != "" {
			w.Events = append(w.Events,
				strings.NewReplacer("{name}", o.GetName(), "{error}", fmt.Sprint(err)).Replace(event.Message))
		}
	}
	switch s := step.(type) {
	case plan.Create:
		for range max(1, s.Count) {
			note(plan.Created, s.Object, "", s.Events, w.create(s.Object))
		}
	case plan.CreateAll:
		for _, o := range s.Objects {
			note(plan.Created, o, "", s.Events, w.create(o))
		}
	case plan.Change:
		note(plan.Changed, s.New, s.Subresource, s.Events, w.change(s))
	case plan.Delete:
		for _, o := range s.Objects {
			note(plan.Deleted, o, "", s.Events, w.delete(o, s.CheckVersion))
		}
	case plan.Each:
		for _, sequence := range s.Sequences {
			errs = append(errs, w.sequence(sequence, did))
		}
	case plan.RecordEvent:
		w.Events = append(w.Events, s.Event.Message)
	}
	return errors.Join(errs...)
}

func (w *World) create(o plan.Object) error {
	if err := w.refusal(plan.Created, o); err != nil {
		return err
	}
	o = o.DeepCopyObject().(plan.Object)
	if o.GetName() == "" {
		o.SetName(o.GetGenerateName() + strconv.Itoa(w.version+1))
	}
	if w.find(o) != nil {
		return apierrors.NewAlreadyExists(resource(o), o.GetName())
	}
	o.SetUID(types.UID(fmt.Sprintf("uid-%d", w.version+1)))
	o.SetGeneration(1)
	o.SetCreationTimestamp(metav1.NewTime(w.now))
	w.put(o)
	return nil
}

// change writes as the runtime does: Deployments and statuses whole and only if up to date, the rest as a patch of the
// difference.
func (w *World) change(s plan.Change) error {
	if err := w.refusal(plan.Changed, s.New); err != nil {
		return err
	}
	now := w.find(s.Old)
	if now == nil || now.GetUID() != s.Old.GetUID() {
		return apierrors.NewNotFound(resource(s.Old), s.Old.GetName())
	}
	_, whole := s.New.(*appsv1.Deployment)
	after := s.New.DeepCopyObject().(plan.Object)
	replaced := whole || s.Subresource == plan.Status
	if (replaced || s.CheckVersion) && now.GetResourceVersion() != s.Old.GetResourceVersion() {
		return apierrors.NewConflict(resource(s.Old), s.Old.GetName(), errors.New("it has changed"))
	}
	if !replaced {
		after = patched(now, s.Old, s.New)
	}
	if equality.Semantic.DeepEqual(now, after) {
		return fmt.Errorf("a change of %s that changes nothing", s.New.GetName())
	}
	w.replace(now, after, s.Subresource == plan.Status)
	return nil
}

func (w *World) delete(o plan.Object, version bool) error {
	if err := w.refusal(plan.Deleted, o); err != nil {
		return err
	}
	now := w.find(o)
	switch {
	case now == nil || now.GetUID() != o.GetUID():
		return nil
	case version && now.GetResourceVersion() != o.GetResourceVersion():
		return apierrors.NewConflict(resource(o), o.GetName(), errors.New("it has changed"))
	}
	pod, ok := now.(*corev1.Pod)
	if !ok {
		w.Remove(o)
		return nil
	}
	if pod.DeletionTimestamp == nil {
		pod = pod.DeepCopy()
		pod.DeletionTimestamp = &metav1.Time{Time: w.now}
		w.put(pod)
	}
	return nil
}

// replace stores what the server makes of a write: a status write keeps the spec (and takes annotations), any other
// keeps the status. A new spec is a new generation; for Deployments so are new annotations.
func (w *World) replace(before, after plan.Object, status bool) {
	a, b := reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem()
	if !a.FieldByName("Spec").IsValid() { // a ControllerRevision has neither spec nor status
		w.put(after)
		return
	}
	if status {
		b.FieldByName("Spec").Set(a.FieldByName("Spec"))
		after.SetLabels(before.GetLabels())
		w.put(after)
		return
	}
	if told := b.FieldByName("Status"); told.IsValid() { // a Workload has none
		told.Set(a.FieldByName("Status"))
	}
	_, annotated := after.(*appsv1.Deployment)
	if !equality.Semantic.DeepEqual(a.FieldByName("Spec").Interface(), b.FieldByName("Spec").Interface()) ||
		annotated && !maps.Equal(before.GetAnnotations(), after.GetAnnotations()) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	w.put(after)
}

// put stores the object as it will be read: with a new version, and times to the second.
func (w *World) put(o plan.Object) {
	w.version++
	stored := reflect.New(reflect.TypeOf(o).Elem()).Interface().(plan.Object)
	decode(encode(o), stored)
	stored.SetResourceVersion(strconv.Itoa(w.version))
	s := w.store(reflect.TypeOf(o))
	all := append(slices.DeleteFunc(slices.Clone(s.present()), func(p plan.Object) bool { return same(o, p) }), stored)
	slices.SortFunc(all, func(a, b plan.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	s.past = append(s.past, all)
}

func (w *World) store(k kind) *store {
	if w.stores[k] == nil {
		w.stores[k] = &store{past: [][]plan.Object{nil}}
	}
	return w.stores[k]
}

func (w *World) find(o plan.Object) plan.Object {
	for _, p := range w.store(reflect.TypeOf(o)).present() {
		if same(o, p) {
			return p
		}
	}
	return nil
}

func (w *World) refusal(v plan.Verb, o plan.Object) error {
	if w.Refuse == nil {
		return nil
	}
	return w.Refuse(v, o)
}

func (w *World) log(v plan.Verb, o plan.Object, status bool) {
	verb := string(v)
	if status {
		verb = "status"
	}
	w.Log = append(w.Log,
		fmt.Sprintf("%s %s %s%s", verb, reflect.TypeOf(o).Elem().Name(), o.GetName(), o.GetGenerateName()))
}

func patched(now, before, after plan.Object) plan.Object {
	empty := reflect.New(reflect.TypeOf(now).Elem()).Interface()
	patch, err := strategicpatch.CreateTwoWayMergePatch(encode(before), encode(after), empty)
	must(err)
	merged, err := strategicpatch.StrategicMergePatch(encode(now), patch, empty)
	must(err)
	result := reflect.New(reflect.TypeOf(now).Elem()).Interface().(plan.Object)
	decode(merged, result)
	return result
}

func encode(o any) []byte {
	data, err := json.Marshal(o)
	must(err)
	return data
}

func decode(data []byte, into any) { must(json.Unmarshal(data, into)) }

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func same(a, b plan.Object) bool {
	return a.GetNamespace() == b.GetNamespace() && a.GetName() == b.GetName()
}

func resource(o plan.Object) schema.GroupResource {
	return schema.GroupResource{Resource: strings.ToLower(reflect.TypeOf(o).Elem().Name()) + "s"}
}
