package replicationcontroller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/rbac"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

func kindOf(name string) schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind(name) }

// web is a ReplicationController as a server would default it.
func web(name string, size int32, owners ...metav1.OwnerReference) *corev1.ReplicationController {
	app := map[string]string{"app": name}
	return &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Generation: 1, OwnerReferences: owners},
		Spec: corev1.ReplicationControllerSpec{
			Replicas: &size, Selector: app,
			Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}},
		},
	}
}

// pod is one that runs on a node and has been ready for so long.
func pod(name, node string, ready time.Duration, owner metav1.Object, kind schema.GroupVersionKind) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(name), Labels: map[string]string{"app": owner.GetName()},
			CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour)),
			OwnerReferences:   []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)},
		},
		Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(-ready))}}},
	}
}

// cluster is a server with the controller at work on it. It is also the controller's event recorder.
type cluster struct {
	*clienttest.Server
	record.EventRecorder // nil: only Event is called
	t                    *testing.T
	records              *explain.Records

	mu     sync.Mutex
	events []string
}

// Event implements [record.EventRecorder].
func (c *cluster) Event(about runtime.Object, kind, reason, message string) {
	ref, err := reference.GetReference(scheme.Scheme, about)
	if err != nil {
		c.t.Error(err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, fmt.Sprintf("%s %s %s: %s %s: %s", ref.APIVersion, ref.Kind, ref.Name, kind, reason, message))
}

// inCluster runs a test in virtual time, with a cluster of these objects at which the controller has nothing left to do.
func inCluster(t *testing.T, test func(c *cluster), objects func() []plan.Object) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{Server: clienttest.NewServer(), t: t}
		c.put(objects()...)
		mapper, err := client.NewMapper(&rest.Config{}) // it asks nobody about built-in kinds
		if err != nil {
			t.Fatal(err)
		}
		from := manager.Context{
			Informers: informers.NewFactory(nil, 0),
			Enabled:   func(string) bool { return true },
			Shared:    reconcile.Shared{Tracker: freshness.NewTracker(), Mapper: mapper},
			Access: reconcile.Access{Client: c, Events: c, Method: func(resource schema.GroupResource, subresource string) client.Method {
				return client.MethodFor(Rights(), resource, subresource)
			}},
		}
		for _, example := range []plan.Object{&corev1.ReplicationController{}, &corev1.Pod{}} { // RC-3: these and no others
			informer, err := c.NewInformer(t.Context(), example)
			if err != nil {
				t.Fatal(err)
			}
			from.Informers.InformerFor(example, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return informer })
		}
		runner, err := New(Options{}).Init(from)
		if err != nil {
			t.Fatal(err)
		}
		c.records = runner.(reconcile.Part).Records()[0]
		clienttest.Run(t, runner.Run, func() { test(c) })
	})
}

func (c *cluster) put(objects ...plan.Object) {
	c.t.Helper()
	for _, o := range objects {
		if _, err := c.Put(o); err != nil {
			c.t.Error(err)
		}
	}
}

func (c *cluster) controller(name string) *corev1.ReplicationController {
	c.t.Helper()
	mapping, _ := client.BuiltIn(kindOf("ReplicationController"))
	rc := &corev1.ReplicationController{}
	if err := c.Get(context.Background(), mapping, plan.Key{Namespace: "shop", Name: name}, rc); err != nil {
		c.t.Error(err)
	}
	return rc
}

func TestRC1Names(t *testing.T) {
	entry := New(Options{})
	if entry.Name != "replicationcontroller-controller" || entry.Alias != "replicationcontroller" ||
		entry.Account != "replication-controller" {
		t.Errorf("%+v", entry)
	}
	inCluster(t, func(c *cluster) {
		if r, ok := c.records.Get(plan.Key{Namespace: "shop", Name: "web"}); !ok || r.Why == "" {
			t.Errorf("RC-30: the queue has another name: %+v", r)
		}
	}, func() []plan.Object { return []plan.Object{web("web", 0)} })
}

func TestRC2Flag(t *testing.T) {
	for args, want := range map[string]int32{"": 5, "--concurrent-rc-syncs=7": 7, "--concurrent_rc_syncs=8": 8} {
		o := New(Options{}).Flags.(*Options)
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
		o.AddFlags(fs)
		if err := fs.Parse(strings.Fields(args)); err != nil || o.Workers != want || len(o.Validate()) > 0 {
			t.Errorf("%q: %d workers, %v, %v", args, o.Workers, err, o.Validate())
		}
		section, fields := o.Configz()
		if got := fmt.Sprintf("%s %+v", section, fields); got != fmt.Sprintf("ReplicationController {ConcurrentRCSyncs:%d}", want) {
			t.Errorf("configz: %s", got)
		}
	}
	if len((&Options{}).Validate()) == 0 {
		t.Error("no workers are accepted")
	}
}

// The role of the original is enough.
func TestRC31Rights(t *testing.T) {
	allowed := map[string]string{
		"replicationcontrollers": "get list watch update", "replicationcontrollers/status": "update",
		"replicationcontrollers/finalizers": "update",
		"pods":                              "list watch patch create delete",
	}
	rights := Rights()
	if diff := cmp.Diff([]rbac.Resource{{Name: "replicationcontrollers"}, {Name: "pods"}}, rights.Caches); diff != "" {
		t.Errorf("RC-3: caches (-want +got):\n%s", diff)
	}
	for _, rule := range rights.Own[len(rbac.Events()):] {
		for _, verb := range rule.Verbs {
			if rule.Group != "" || !slices.Contains(strings.Fields(allowed[rule.Resource]), verb) {
				t.Errorf("RC-31: it may not %s %s", verb, rule.Resource)
			}
		}
	}
	resource := schema.GroupResource{Resource: "replicationcontrollers"}
	if got := client.MethodFor(rights, resource, "status"); got != client.MethodUpdate {
		t.Errorf("RC-17: the status is written by %s", got)
	}
}

// Pods that terminate are not told, and so no reason to write a status again and again (RC-14).
func TestRC14PodsThatTerminate(t *testing.T) {
	rc := web("web", 1)
	inCluster(t, func(c *cluster) {
		for i := range 3 {
			p := pod("going", "n1", time.Hour, rc, kindOf("ReplicationController"))
			p.DeletionTimestamp, p.Status.Message = ptr.To(metav1.Now()), fmt.Sprint(i)
			c.put(p)
			clienttest.Settle()
		}
		if log := c.Log(); !slices.Equal(log, []string{"update ReplicationController web"}) {
			t.Errorf("writes: %v", log)
		}
	}, func() []plan.Object {
		return []plan.Object{rc, pod("stays", "n1", time.Hour, rc, kindOf("ReplicationController"))}
	})
}

// The whole way: pods are created and deleted, events are about the ReplicationController, the status is updated.
func TestRC4RC5RC17Scaling(t *testing.T) {
	inCluster(t, func(c *cluster) {
		rc := c.controller("web")
		if s := rc.Status; s.Replicas != 2 || s.FullyLabeledReplicas != 2 || s.ObservedGeneration != 1 {
			t.Errorf("RC-14: status %+v", s)
		}
		rc.Spec.Replicas, rc.Generation = ptr.To[int32](1), 2
		c.put(rc)
		clienttest.Settle()
		if names := c.Names(kindOf("Pod")); len(names) != 1 {
			t.Errorf("pods %v", names)
		}
		if s := c.controller("web").Status; s.Replicas != 1 || s.ObservedGeneration != 2 {
			t.Errorf("RC-14: status %+v", s)
		}
		for _, w := range c.Writes() {
			if w.Kind == "ReplicationController" && (w.Verb != "update" || w.Options.Subresource != "status") {
				t.Errorf("RC-17: %s, subresource %q", w, w.Options.Subresource)
			}
		}
		if creates, deletes := c.CountWrites("create Pod"), c.CountWrites("delete Pod"); creates != 2 || deletes != 1 {
			t.Errorf("RC-13: %d pods created, %d deleted: %v", creates, deletes, c.Log())
		}
		var said []string
		for _, e := range c.events {
			said = append(said, e[:strings.LastIndex(e, " ")])
		}
		const about = "v1 ReplicationController web: Normal "
		created := about + "SuccessfulCreate: Created pod:"
		if diff := cmp.Diff([]string{created, created, about + "SuccessfulDelete: Deleted pod:"}, said); diff != "" {
			t.Errorf("RC-5: events (-want +got):\n%s", diff)
		}
	}, func() []plan.Object { return []plan.Object{web("web", 2)} })
}

// What happens to a pod is the concern of the ReplicationController that it names (RC-4).
func TestRC4PodsOfItsOwn(t *testing.T) {
	rc := web("web", 2)
	inCluster(t, func(c *cluster) {
		p := pod("a", "n1", time.Hour, rc, kindOf("ReplicationController"))
		p.Status.Conditions = nil
		c.put(p)
		clienttest.Settle()
		if s := c.controller("web").Status; s.ReadyReplicas != 1 || s.Replicas != 2 {
			t.Errorf("RC-14: status %+v after a pod was not ready any more", s)
		}
		pods, _ := client.BuiltIn(kindOf("Pod"))
		if err := c.Delete(t.Context(), pods, plan.Key{Namespace: "shop", Name: "b"}, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		clienttest.Settle()
		if n := c.CountWrites("create Pod"); n != 1 || len(c.Names(kindOf("Pod"))) != 2 {
			t.Errorf("a pod that is gone is not replaced: %v", c.Log())
		}
	}, func() []plan.Object {
		return []plan.Object{rc, pod("a", "n1", time.Hour, rc, kindOf("ReplicationController")),
			pod("b", "n2", time.Hour, rc, kindOf("ReplicationController"))}
	})
}

// A pod names a ReplicaSet that has the name of a ReplicationController: what happens to it is no concern of that one (RC-4).
func TestRC4NamesakesOfAnotherKind(t *testing.T) {
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "set"}}
	inCluster(t, func(c *cluster) {
		before, _ := c.records.Get(plan.Key{Namespace: "shop", Name: "web"})
		p := pod("of-set", "n1", time.Second, set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
		p.Status.Message = "hello"
		c.put(p)
		clienttest.Settle()
		after, _ := c.records.Get(plan.Key{Namespace: "shop", Name: "web"})
		if !before.Time.Equal(after.Time) {
			t.Error("the ReplicationController is reconciled for a pod of a ReplicaSet")
		}
		if n := c.CountWrites("create Pod"); n != 1 || len(c.Names(kindOf("Pod"))) != 2 {
			t.Errorf("writes: %v", c.Log())
		}
	}, func() []plan.Object {
		return []plan.Object{web("web", 1), pod("of-set", "n1", time.Second, set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	})
}

// Which pods go depends on no other ReplicationController, not even on one with the same owner: the youngest goes, though the
// node of the older one has more pods of that owner.
func TestRC16RelatedPodsAreNone(t *testing.T) {
	owner := *metav1.NewControllerRef(&metav1.ObjectMeta{Name: "app", UID: "app"},
		schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Rollout"})
	mine, sibling, kind := web("web", 1, owner), web("sibling", 3, owner), kindOf("ReplicationController")
	inCluster(t, func(c *cluster) {
		if got := c.Names(kindOf("Pod")); !slices.Equal(got, []string{"older", "s1", "s2", "s3"}) {
			t.Errorf("left: %v", got)
		}
	}, func() []plan.Object {
		return []plan.Object{mine, sibling, pod("older", "n1", time.Hour, mine, kind), pod("younger", "n2", time.Minute, mine, kind),
			pod("s1", "n1", time.Hour, sibling, kind), pod("s2", "n1", time.Hour, sibling, kind), pod("s3", "n1", time.Hour, sibling, kind)}
	})
}

// With a cache that shows nothing of what was created, nothing is created twice, however often it is looked at (RC-13).
func TestRC13CachesThatLag(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.FreezeWatches(kindOf("Pod"))
		for i := range 5 {
			rc := c.controller("web")
			rc.Spec.Replicas, rc.Generation = ptr.To[int32](3), int64(i+2)
			c.put(rc)
			time.Sleep(time.Second)
		}
		if n := len(c.Names(kindOf("Pod"))); n != 3 {
			t.Errorf("%d pods while the cache shows none", n)
		}
		c.ResumeWatches(kindOf("Pod"))
		clienttest.Settle()
		if n := len(c.Names(kindOf("Pod"))); n != 3 || c.CountWrites("create Pod") != 3 {
			t.Errorf("%d pods, writes: %v", n, c.Log())
		}
	}, func() []plan.Object { return []plan.Object{web("web", 0)} })
}

func TestRC11RC15WithoutATemplate(t *testing.T) {
	bare := web("web", 2)
	bare.Spec.Template = nil
	inCluster(t, func(c *cluster) {
		conditions := c.controller("web").Status.Conditions
		if len(conditions) != 1 || conditions[0].Type != corev1.ReplicationControllerReplicaFailure ||
			conditions[0].Reason != "FailedCreate" ||
			!strings.Contains(conditions[0].Message, "no labels") {
			t.Errorf("conditions %+v", conditions)
		}
		if len(c.Names(kindOf("Pod"))) > 0 || len(c.events) != 1 ||
			!strings.HasPrefix(c.events[0], "v1 ReplicationController web: Warning FailedCreate: ") {
			t.Errorf("events %v, writes %v", c.events, c.Log())
		}
	}, func() []plan.Object { return []plan.Object{bare} })
}

// A status that cannot be written is written later, and spoils nothing else of the object.
func TestRC17RC18ConflictsOfTheStatus(t *testing.T) {
	inCluster(t, func(c *cluster) {
		var refusals atomic.Int64
		c.BeforeWrite(func(w clienttest.Write) error {
			if w.Kind == "ReplicationController" && refusals.Load() < 3 {
				refusals.Add(1)
				return errors.New("not now")
			}
			return nil
		})
		rc := c.controller("web")
		rc.Spec.Replicas, rc.Generation, rc.Annotations = ptr.To[int32](1), 2, map[string]string{"a": "b"}
		c.put(rc)
		clienttest.Settle()
		got := c.controller("web")
		if got.Status.Replicas != 1 || got.Status.ObservedGeneration != 2 || refusals.Load() != 3 {
			t.Errorf("after %d refusals the status is %+v", refusals.Load(), got.Status)
		}
		got.Status, got.ResourceVersion, rc.ResourceVersion = rc.Status, "", ""
		if diff := cmp.Diff(rc, got); diff != "" {
			t.Errorf("RC-18: %s", diff)
		}
	}, func() []plan.Object { return []plan.Object{web("web", 0)} })
}
