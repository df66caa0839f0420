package apiserver

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

func names(list *corev1.PodList) (names []string) {
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	return names
}

func TestPagesShowOneState(t *testing.T) {
	s := New(1)
	for _, name := range []string{"a", "b", "c"} {
		made(t, s, pod(name, ""))
	}
	pods := client(t, s, nil, runtime.ContentTypeJSON).CoreV1().Pods("default")
	first, err := pods.List(t.Context(), metav1.ListOptions{Limit: 2})
	if err != nil || !slices.Equal(names(first), []string{"a", "b"}) || ptr.Deref(first.RemainingItemCount, 0) != 1 {
		t.Fatalf("the first page is %v, %v, %v", names(first), first.RemainingItemCount, err)
	}
	made(t, s, pod("d", ""))
	next := metav1.ListOptions{Limit: 2, Continue: first.Continue}
	second, err := pods.List(t.Context(), next)
	if err != nil || !slices.Equal(names(second), []string{"c"}) || second.ResourceVersion != first.ResourceVersion ||
		second.Continue != "" {
		t.Errorf("the second page is %v of version %s, %v", names(second), second.ResourceVersion, err)
	}

	s.Compact()
	_, err = pods.List(t.Context(), next)
	if !apierrors.IsResourceExpired(err) {
		t.Fatalf("after a compaction, the second page is answered with %v", err)
	}
	rest, err := pods.List(t.Context(), metav1.ListOptions{Continue: err.(apierrors.APIStatus).Status().Continue})
	if err != nil || !slices.Equal(names(rest), []string{"c", "d"}) {
		t.Errorf("the rest is %v, %v", names(rest), err)
	}
	if _, err := pods.List(t.Context(),
		metav1.ListOptions{ResourceVersion: first.ResourceVersion,
			ResourceVersionMatch: metav1.ResourceVersionMatchExact}); !apierrors.IsResourceExpired(err) {
		t.Errorf("after a compaction, an exact list is answered with %v", err)
	}
}

// behind is a network to a server that lags.
type behind struct {
	late
	lag time.Duration
}

func (b behind) Lag(string) time.Duration { return b.lag }

func TestAServerThatLagsShowsThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1)
		made(t, s, pod("old", ""))
		time.Sleep(10 * time.Second)
		made(t, s, pod("new", ""))
		now := fmt.Sprint(s.Version())
		pods := client(t, s, &behind{lag: 5 * time.Second}, runtime.ContentTypeJSON).CoreV1().Pods("default")

		for options, want := range map[metav1.ListOptions]int{
			{}:                     2, // consistent
			{ResourceVersion: "0"}: 1,
			{ResourceVersion: now, ResourceVersionMatch: metav1.ResourceVersionMatchExact}: 2,
		} {
			if list, err := pods.List(t.Context(), options); err != nil || len(list.Items) != want {
				t.Errorf("%+v: %d pods, %v, expected %d", options, len(list.Items), err, want)
			}
		}
		if _, err := pods.Get(t.Context(), "new", metav1.GetOptions{ResourceVersion: "0"}); !apierrors.IsNotFound(err) {
			t.Errorf("a get of any version sees what is new: %v", err)
		}
		if _, err := pods.Get(t.Context(), "new", metav1.GetOptions{}); err != nil {
			t.Errorf("a consistent get does not: %v", err)
		}
		w, err := pods.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		if e := <-w.ResultChan(); e.Type != watch.Added || e.Object.(*corev1.Pod).Name != "old" {
			t.Errorf("a watch of any version begins with %v", e)
		}
		time.Sleep(5 * time.Second)
		if list, err := pods.List(t.Context(), metav1.ListOptions{ResourceVersion: now}); err != nil || len(list.Items) != 2 {
			t.Errorf("when it has caught up: %d pods, %v", len(list.Items), err)
		}
	})
}

func TestAServerThatLagsRefusesVersionsItDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1)
		made(t, s, pod("p", ""))
		c := &Client{Server: s, Network: &behind{lag: time.Second}}
		r := request{store: s.stores["pods"], list: metav1.ListOptions{ResourceVersion: fmt.Sprint(s.Version())}}
		if _, err := c.list(r); !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
			t.Errorf("got %v", err)
		}
	})
}

func TestFieldSelectors(t *testing.T) {
	s := New(1)
	made(t, s, pod("here", "n"))
	made(t, s, pod("there", "m"))
	pods := client(t, s, nil, runtime.ContentTypeJSON).CoreV1().Pods("")
	list, err := pods.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=n,status.phase!=Failed"})
	if err != nil || !slices.Equal(names(list), []string{"here"}) {
		t.Errorf("selected %v, %v", names(list), err)
	}
	if _, err := pods.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nothing=n"}); !apierrors.IsBadRequest(err) {
		t.Errorf("an unknown field is answered with %v", err)
	}
}
