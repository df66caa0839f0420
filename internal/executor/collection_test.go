package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/paging"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var allPods = plan.DeleteCollection{Kind: podKind, Namespace: "ns", Propagation: metav1.DeletePropagationBackground}

// NS-16: one request deletes all objects of a kind in a namespace, without regard to who controls them.
func TestDeleteCollection(t *testing.T) {
	b := newBench(t)
	put(b, newPod("a", nil))
	put(b, newPod("b", newSet()))
	did := b.apply(newSet(), allPods)
	if did.Err != nil || len(did.Results) != 1 || did.Results[0].Verb != plan.Deleted ||
		did.Results[0].Object.GetObjectKind().GroupVersionKind() != podKind {
		t.Errorf("%+v", did)
	}
	b.wantLog("deletecollection Pod ")
	if kind := b.waiting("0"); kind != "" {
		t.Errorf("the caches of %s are waited for", kind)
	}
}

// NS-16, NS-17: where the server has no such request, the objects are deleted one by one, each under its uid.
func TestDeleteCollectionOneByOne(t *testing.T) {
	for name, refusal := range map[string]error{
		"405": apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "pods"}, "deletecollection"),
		"404": apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, ""),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			put(b, newPod("a", nil))
			put(b, newPod("b", nil))
			b.BeforeWrite(func(w clienttest.Write) error {
				if w.Verb == "deletecollection" {
					return refusal
				}
				if w.DeleteOptions.Preconditions == nil || *w.DeleteOptions.PropagationPolicy != metav1.DeletePropagationBackground {
					t.Errorf("%+v", w.DeleteOptions)
				}
				return nil
			})
			if did := b.apply(nil, allPods); did.Err != nil {
				t.Error(did.Err)
			}
			b.wantLog("delete Pod a", "delete Pod b")
		})
	}
}

// One object that may not be deleted keeps no other one; where none may be, not all are tried.
func TestDeleteCollectionWithOneThatIsRefused(t *testing.T) {
	b := newBench(t)
	for i := range 50 {
		put(b, newPod(fmt.Sprintf("p-%02d", i), nil))
	}
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("a webhook"))
	var tried atomic.Int64
	kept := func(name string) bool { return true }
	b.BeforeWrite(func(w clienttest.Write) error {
		if w.Verb == "delete" {
			tried.Add(1)
		}
		if w.Verb == "deletecollection" || kept(w.Key.Name) {
			return refusal
		}
		return nil
	})
	if did := b.apply(nil, allPods); !errors.Is(did.Err, refusal) || tried.Load() != mostRefusals {
		t.Errorf("%d tries: %v", tried.Load(), did.Err)
	}
	kept = func(name string) bool { return name == "p-00" }
	if did := b.apply(nil, allPods); !errors.Is(did.Err, refusal) {
		t.Errorf("%v", did.Err)
	}
	if left := b.Names(podKind); !slices.Equal(left, []string{"p-00"}) {
		t.Errorf("left are %v", left)
	}
}

// endless is a server that makes lists go on for ever.
type endless struct {
	client.Client
	asked int
}

func (e *endless) List(ctx context.Context, m client.Mapping, namespace string, o metav1.ListOptions, into runtime.Object) error {
	e.asked++
	if o.Limit == 0 {
		return errors.New("all at once")
	}
	err := e.Client.List(ctx, m, namespace, metav1.ListOptions{}, into)
	into.(*metav1.PartialObjectMetadataList).Continue = fmt.Sprint(e.asked % 3)
	return err
}

// What a server has that makes its lists go on for ever is deleted nevertheless, and no more is kept of it than a page.
func TestDeleteCollectionWithoutAnEnd(t *testing.T) {
	b := newBench(t)
	put(b, newPod("a", nil))
	server := &endless{Client: b.Client}
	b.Client = server
	b.BeforeWrite(func(w clienttest.Write) error {
		if w.Verb == "deletecollection" {
			return apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "pods"}, "deletecollection")
		}
		return nil
	})
	if did := b.apply(nil, allPods); !errors.Is(did.Err, paging.ErrEndless) || server.asked != 4 {
		t.Errorf("%d lists: %v", server.asked, did.Err)
	}
	if left := b.Names(podKind); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

func TestDeleteCollectionThatIsRefused(t *testing.T) {
	b := newBench(t)
	put(b, newPod("a", nil))
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
	b.BeforeWrite(func(clienttest.Write) error { return refusal })
	if did := b.apply(nil, allPods); !errors.Is(did.Err, refusal) || did.Failed(plan.Deleted) == nil {
		t.Errorf("%+v", did)
	}
	b.BeforeWrite(notLeading)
	if did := b.apply(nil, allPods); !errors.Is(did.Err, client.ErrNotLeading) {
		t.Errorf("without the lease: %+v", did)
	}
}
