package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// labelling is a client of a server whose admission labels what is updated, but for statuses.
type labelling struct{ client.Client }

func (l labelling) Update(ctx context.Context, m client.Mapping, o plan.Object, opts client.WriteOptions) (*metav1.PartialObjectMetadata,
	error) {
	if opts.Subresource == "" {
		o = o.DeepCopyObject().(plan.Object)
		o.SetLabels(map[string]string{"by": "admission"})
	}
	return l.Client.Update(ctx, m, o, opts)
}

// An update of the status leaves what admission has added to the object in the update before.
func TestStatusKeepsWhatAdmissionHasAdded(t *testing.T) {
	owner := newSet()
	b := newBench(t)
	b.Method = func(schema.GroupResource, string) client.Method { return client.MethodUpdate }
	p := put(b, newPod("p", owner))
	b.Config.Client = labelling{b.Server}
	changed := p.DeepCopy()
	changed.Spec.NodeName = "n"
	failed := changed.DeepCopy()
	failed.Status.Phase = corev1.PodFailed
	if did := b.apply(owner, plan.Change{Old: p, New: changed, CheckVersion: true},
		plan.Change{Old: changed, New: failed, Subresource: plan.Status, CheckVersion: true}); did.Err != nil {
		t.Fatal(did.Err)
	}
	now := &corev1.Pod{}
	pods, _ := client.BuiltIn(podKind)
	if err := b.Get(t.Context(), pods, plan.KeyOf(p), now); err != nil || now.Labels["by"] != "admission" ||
		now.Status.Phase != corev1.PodFailed {
		t.Errorf("%v, %v", err, now)
	}
}

// One reconcile may change an object and its status, in either order, and then delete it: each goes with the version that the one
// before has returned. What does not begin with what the first has made is refused, and so is an update after a patch that says nothing
// of what others wrote.
func TestObjectAndStatus(t *testing.T) {
	owner := newSet()
	failed := func(p *corev1.Pod) *corev1.Pod {
		p = p.DeepCopy()
		p.Status.Phase = corev1.PodFailed
		return p
	}
	type steps = func(p *corev1.Pod) []plan.Step
	object := func(version bool) func(p *corev1.Pod) plan.Step {
		return func(p *corev1.Pod) plan.Step { return plan.Change{Old: p, New: labelled(p), CheckVersion: version} }
	}
	status := func(p *corev1.Pod) plan.Step {
		return plan.Change{Old: p, New: failed(p), Subresource: plan.Status, CheckVersion: true}
	}
	remove := func(p *corev1.Pod) plan.Step { return plan.Delete{Objects: []plan.Object{p}, CheckVersion: true} }
	for _, c := range []struct {
		name    string
		steps   steps
		update  bool // how changes are sent
		between bool // another one writes between the two
		writes  int
		err     error // nil: all are done; errRefused: refused
	}{
		{name: "the object, then its status", writes: 2,
			steps: func(p *corev1.Pod) []plan.Step { return []plan.Step{object(false)(p), status(labelled(p))} }},
		{name: "the object, then its status, by update", update: true, writes: 2,
			steps: func(p *corev1.Pod) []plan.Step { return []plan.Step{object(false)(p), status(labelled(p))} }},
		{name: "the status, then the object", writes: 2,
			steps: func(p *corev1.Pod) []plan.Step { return []plan.Step{status(p), object(true)(failed(p))} }},
		{name: "both, and then it is deleted", writes: 3,
			steps: func(p *corev1.Pod) []plan.Step { return []plan.Step{object(true)(p), status(labelled(p)), remove(p)} }},
		{name: "somebody else writes in between", between: true, writes: 1, err: plan.ErrStale,
			steps: func(p *corev1.Pod) []plan.Step { return []plan.Step{object(true)(p), status(labelled(p))} }},
		{name: "the object twice", writes: 1, err: errRefused,
			steps: func(p *corev1.Pod) []plan.Step {
				return []plan.Step{object(true)(p), plan.Change{Old: labelled(p), New: p}}
			}},
		{name: "the status twice, with the object in between", writes: 2, err: errRefused,
			steps: func(p *corev1.Pod) []plan.Step {
				return []plan.Step{status(p), object(true)(failed(p)), status(labelled(p))}
			}},
		{name: "the second begins with what was observed", writes: 1, err: errRefused,
			steps: func(p *corev1.Pod) []plan.Step { return []plan.Step{object(true)(p), status(p)} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			if c.update {
				b.Method = func(schema.GroupResource, string) client.Method { return client.MethodUpdate }
			}
			p := put(b, newPod("p", owner))
			pods, _ := client.BuiltIn(podKind)
			if c.between {
				b.AfterWrite(func(clienttest.Write) error {
					b.AfterWrite(nil)
					other := &corev1.Pod{}
					if err := b.Get(t.Context(), pods, plan.KeyOf(p), other); err != nil {
						return err
					}
					other.Annotations = map[string]string{"by": "another"}
					put(b, other)
					return nil
				})
			}
			did := b.apply(owner, c.steps(p)...)
			if c.err == errRefused && (did.Err == nil || !strings.HasPrefix(did.Err.Error(), "refused: ")) ||
				c.err != errRefused && !errors.Is(did.Err, c.err) {
				t.Errorf("%v, want %v", did.Err, c.err)
			}
			if n := len(b.Log()) - b.CountWrites("refused"); n != c.writes {
				t.Errorf("%d writes: %v", n, b.Log())
			}
			if version := did.Results[len(did.Results)-1].Version; c.err == nil && version != "" && b.waiting(version) != "" {
				t.Errorf("waits for %s although its cache shows the last write", b.waiting(version))
			}
		})
	}
}

// errRefused stands for an error that is not one of the server.
var errRefused = errors.New("refused")

// After a change that says nothing of what others have written, a list that is replaced whole is the one that was observed.
func TestALongListIsNotReplacedAfterAnUncheckedChange(t *testing.T) {
	owner, b := newSet(), newBench(t)
	p := newPod("p", owner)
	for i := range 201 {
		p.Finalizers = append(p.Finalizers, fmt.Sprint("example.com/f", i))
	}
	p = put(b, p)
	b.BeforeWrite(func(clienttest.Write) error { // another one writes before the first change
		b.BeforeWrite(nil)
		other := p.DeepCopy()
		other.Finalizers = append(other.Finalizers, "example.com/of-another")
		put(b, other)
		return nil
	})
	failed := p.DeepCopy()
	failed.Status.Phase = corev1.PodFailed
	freed := failed.DeepCopy()
	freed.Finalizers = freed.Finalizers[1:]
	did := b.apply(owner, plan.Change{Old: p, New: failed, Subresource: plan.Status}, plan.Change{Old: failed, New: freed})
	now, pods := &corev1.Pod{}, client.MappingFor[*corev1.Pod]()
	if err := b.Get(t.Context(), pods, plan.KeyOf(p), now); err != nil || !errors.Is(did.Err, plan.ErrStale) ||
		!slices.Contains(now.Finalizers, "example.com/of-another") {
		t.Errorf("%v, %v, %d finalizers", did.Err, err, len(now.Finalizers))
	}
}
