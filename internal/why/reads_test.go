package why

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// guest may not list some resources, and counts what it reads one by one.
type guest struct {
	*clienttest.Server
	forbidden func(client.Mapping) bool
	gets      map[string]int
	whole     map[string]int // of these, with all that is in them
}

func newGuest(t *testing.T, objects ...plan.Object) *guest {
	t.Helper()
	g := &guest{clienttest.NewServer(), func(client.Mapping) bool { return false }, map[string]int{}, map[string]int{}}
	for _, o := range objects {
		if _, err := g.Put(o); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func (g *guest) List(ctx context.Context, m client.Mapping, at string, o metav1.ListOptions, into runtime.Object) error {
	if g.forbidden(m) {
		return apierrors.NewForbidden(m.GroupResource(), "", errors.New("no right"))
	}
	return g.Server.List(ctx, m, at, o, into)
}

func (g *guest) Get(ctx context.Context, m client.Mapping, key plan.Key, into plan.Object) error {
	g.gets[m.Kind]++
	if _, metadata := into.(*metav1.PartialObjectMetadata); !metadata {
		g.whole[m.Kind]++
	}
	if g.forbidden(m) {
		return apierrors.NewForbidden(m.GroupResource(), key.Name, errors.New("no right"))
	}
	return g.Server.Get(ctx, m, key, into)
}

// Owners that a list has are not read one by one, nor are more than a bound of those that none has.
func TestOwnersAreNotReadOneByOne(t *testing.T) {
	const n = 1000
	var objects []plan.Object
	for i := range n {
		owner := metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprint("owner-", i), UID: "u"}
		objects = append(objects, &corev1.Pod{ObjectMeta: owner})
		if i%2 == 0 { // of Secrets there is none
			objects = append(objects, &corev1.LimitRange{ObjectMeta: owner})
		}
		for _, kind := range []string{"Pod", "LimitRange", "Secret"} {
			objects = append(objects, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprint("of-", kind, i),
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: owner.Name, UID: owner.UID}}}})
		}
	}
	g := newGuest(t, objects...)
	all, err := AskDeletions(t.Context(), g, resources{}, time.Now(), ns)
	if err != nil || !strings.HasSuffix(all.Summary, "and some could not be read") {
		t.Errorf("%v: %s", err, all.Summary)
	}
	if g.gets["Pod"] > 0 || g.gets["LimitRange"] > manySingle || g.gets["Secret"] > manySingle || g.whole["Secret"] > 0 {
		t.Errorf("read one by one: %v, whole: %v", g.gets, g.whole)
	}
	gone := map[string]int{}
	for _, item := range all.Items {
		kind, _, _ := strings.Cut(strings.TrimPrefix(item.Rule, "garbage collection: its owner "), " ")
		gone[kind]++
	}
	if gone["Pod"] > 0 || gone["LimitRange"] < manySingle-2*fewSingle || gone["Secret"] != manySingle {
		t.Errorf("owners are gone of %v", gone)
	}
}

// Who may read nothing is told so.
func TestNothingMayBeRead(t *testing.T) {
	g := newGuest(t, newPod(func(*corev1.Pod) {}))
	g.forbidden = func(client.Mapping) bool { return true }
	if all, err := AskDeletions(t.Context(), g, resources{}, time.Now(), ns); err == nil || !strings.Contains(err.Error(), "no right") {
		t.Errorf("%v: %s", err, all.Summary)
	}
	if o, err := AskNamespace(t.Context(), g, resources{}, time.Now(), ns); err == nil || !strings.Contains(err.Error(), "no right") {
		t.Errorf("%v: %s", err, o.Summary)
	}
	g.forbidden = func(m client.Mapping) bool { return m.Kind == "Service" }
	all, err := AskDeletions(t.Context(), g, resources{}, time.Now(), ns)
	if err != nil || !strings.HasSuffix(all.Summary, "could not be read") {
		t.Errorf("%v: %s", err, all.Summary)
	}
}

// Devices that may not be read are not said to be none.
func TestDevicesThatMayNotBeRead(t *testing.T) {
	c := &resourcev1.ResourceClaim{ObjectMeta: of("gpu"), Status: resourcev1.ResourceClaimStatus{
		ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "p"}}}}
	g := newGuest(t, c)
	g.forbidden = func(m client.Mapping) bool { return m.Kind == "ResourceSlice" }
	a, err := Ask(t.Context(), g, resources{}, time.Now(), Question{client.KindFor[*resourcev1.ResourceClaim](), ns, c.Name})
	if err != nil || a.Cause == nil || a.Cause.Certain || strings.Contains(a.Summary, "none of the 0") {
		t.Errorf("%v: %s", err, a.Summary)
	}
}
