package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// testPod builds a pod from words: "pending", "running", "ready", "succeeded", "deleting", "bound".
func testPod(name, app, words string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1",
		Labels: map[string]string{appLabel: app}}}
	p.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:1"}}
	p.Status.Phase = corev1.PodPending
	for word := range strings.FieldsSeq(words) {
		switch word {
		case "running":
			p.Status.Phase = corev1.PodRunning
		case "ready":
			p.Status.Phase = corev1.PodRunning
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		case "succeeded":
			p.Status.Phase = corev1.PodSucceeded
		case "deleting":
			p.DeletionTimestamp = &metav1.Time{}
		case "bound":
			p.Spec.NodeName = "node-0"
		}
	}
	return p
}

func TestDue(t *testing.T) {
	for words, want := range map[string]act{
		"pending": run, "pending bound": run, "ready": nothing, "running": nothing, "succeeded": nothing,
		"ready deleting": finish, "pending deleting": finish, "succeeded deleting": finish,
	} {
		if got := due(testPod("a", "web", words)); got != want {
			t.Errorf("%s: %v, want %v", words, got, want)
		}
	}
}

// recorder keeps what a fake server is asked: "create pods/binding a", "update pods/status a", "delete pods a".
type recorder struct {
	mu   sync.Mutex
	seen []string
}

func (r *recorder) client(refuse error) kubernetes.Interface {
	client := &fake.Clientset{}
	client.AddReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		resource := a.GetResource().Resource
		if a.GetSubresource() != "" {
			resource += "/" + a.GetSubresource()
		}
		what := ""
		switch a := a.(type) {
		case clienttesting.DeleteActionImpl:
			what = fmt.Sprintf("%s grace %d of %s", a.Name, *a.DeleteOptions.GracePeriodSeconds, *a.DeleteOptions.Preconditions.UID)
		case clienttesting.CreateActionImpl:
			what = fmt.Sprintf("%s to %s", a.Object.(*corev1.Binding).Name, a.Object.(*corev1.Binding).Target.Name)
		case clienttesting.UpdateActionImpl:
			p := a.Object.(*corev1.Pod)
			what = fmt.Sprintf("%s %s ready=%t version=%q", p.Name, p.Status.Phase, isReady(p), p.ResourceVersion)
		}
		r.seen = append(r.seen, fmt.Sprintf("%s %s %s", a.GetVerb(), resource, what))
		return true, &corev1.Pod{}, refuse
	})
	return client
}

// play tells a kubelet of changes, waits until it is done with them and returns what it asked of the server, sorted.
func (r *recorder) play(t *testing.T, k *kubelet, want int, tell func()) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { k.work(ctx) })
	tell()
	if err := until(ctx, "the kubelet has acted", time.Millisecond, func() (bool, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.seen) >= want, nil
	}); err != nil {
		t.Error(err)
	}
	cancel()
	wg.Wait()
	slices.Sort(r.seen)
	return r.seen
}

func TestKubeletPlaysEachPodOnce(t *testing.T) {
	r, errs := &recorder{}, &collect{}
	k := newKubelet([]kubernetes.Interface{r.client(nil)}, []string{"node-0"}, errs)
	got := r.play(t, k, 4, func() {
		k.see(testPod("a", "web", "pending"), false)
		k.see(testPod("a", "web", "pending bound"), false) // its own binding
		k.see(testPod("b", "web", "pending bound"), false)
		k.see(testPod("c", "web", "ready"), false)
		k.see(testPod("d", "web", "ready deleting"), false)
		k.see(testPod("d", "web", "ready deleting"), false)
		k.see(testPod("d", "web", "ready deleting"), true)
	})
	want := []string{
		`create pods/binding a to node-0`,
		`delete pods d grace 0 of uid-d`,
		`update pods/status a Running ready=true version=""`,
		`update pods/status b Running ready=true version=""`,
	}
	if !slices.Equal(got, want) || errs.first() != nil {
		t.Errorf("%v\n%s", errs.first(), strings.Join(got, "\n"))
	}
	if took := k.take(); len(took) != 3 {
		t.Errorf("it took %v", took)
	}
	if k.mu.Lock(); k.acted["uid-d"] != nothing || k.acted["uid-a"] != run {
		t.Errorf("remembered: %v", k.acted)
	}
	k.mu.Unlock()
}

func TestKubeletEndsPodsOfJobs(t *testing.T) {
	r, errs := &recorder{}, &collect{}
	k := newKubelet([]kubernetes.Interface{r.client(nil)}, []string{"node-0"}, errs)
	p := testPod("a", "sum", "pending bound")
	p.Labels[endsAtOnce] = "true"
	got := r.play(t, k, 1, func() {
		k.see(p, false)
		k.see(testPod("a", "sum", "succeeded"), false)
	})
	if want := []string{`update pods/status a Succeeded ready=false version=""`}; !slices.Equal(got, want) || errs.first() != nil {
		t.Errorf("%v\n%s", errs.first(), strings.Join(got, "\n"))
	}
	if c := endedStatus(p, "10.64.0.1").ContainerStatuses[0]; c.Ready || c.State.Running != nil ||
		c.State.Terminated.Reason != "Completed" {
		t.Errorf("%+v", c)
	}
}

func TestKubeletForgivesWhatIsGone(t *testing.T) {
	pods := corev1.Resource("pods")
	for _, row := range []struct {
		refuse error
		fails  bool
	}{
		{apierrors.NewNotFound(pods, "a"), false}, {apierrors.NewConflict(pods, "a", nil), false},
		{apierrors.NewInternalError(fmt.Errorf("broken")), true},
	} {
		r, errs := &recorder{}, &collect{}
		k := newKubelet([]kubernetes.Interface{r.client(row.refuse)}, []string{"node-0"}, errs)
		asked := 1
		if row.fails {
			asked = 5 // attempts
		}
		r.play(t, k, asked, func() { k.see(testPod("a", "web", "pending"), false) })
		if (errs.first() != nil) != row.fails {
			t.Errorf("%v: %v", row.refuse, errs.first())
		}
	}
}

func TestAddressesDiffer(t *testing.T) {
	seen := map[string]bool{}
	for n := range uint32(100_000) {
		seen[addressOf(n)] = true
	}
	if len(seen) != 100_000 || !seen["10.64.0.0"] || !seen["10.65.134.159"] {
		t.Errorf("%d addresses; the last one is %s", len(seen), addressOf(99_999))
	}
}
