package apiserver

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "a:1"}}}}
}

func made[T Object](t *testing.T, s *Server, o T) T {
	t.Helper()
	created, err := s.Do(Write{By: "test", Verb: Create, Object: o})
	if err != nil {
		t.Fatal(err)
	}
	return created.(T)
}

func client(t *testing.T, s *Server, n Network, contentType string) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(&rest.Config{Host: "http://memory", Transport: &Client{Server: s, Name: "test", Network: n}, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: contentType}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Both encodings, and what a stale write meets; all else is compared with the real server in the parent folder.
func TestClientsReachIt(t *testing.T) {
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		t.Run(contentType, func(t *testing.T) {
			pods := client(t, New(1), nil, contentType).CoreV1().Pods("default")
			created, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"}, Spec: pod("", "").Spec},
				metav1.CreateOptions{})
			if err != nil || len(created.Name) != len("p-")+5 {
				t.Fatalf("created %q, %v", created.Name, err)
			}
			stale := created.DeepCopy()
			created.Labels = map[string]string{"a": "b"}
			updated, err := pods.Update(t.Context(), created, metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			same, err := pods.Update(t.Context(), updated, metav1.UpdateOptions{})
			if err != nil || same.ResourceVersion != updated.ResourceVersion {
				t.Errorf("an update without a change went from version %s to %s, %v", updated.ResourceVersion, same.ResourceVersion, err)
			}
			if _, err := pods.Update(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
				t.Errorf("an outdated update was answered with %v", err)
			}
		})
	}
}

func TestPodsEndGracefully(t *testing.T) {
	for _, c := range []struct {
		name, node string
		grace      *int64
		lingers    bool
	}{
		{"one that runs lingers", "n", nil, true},
		{"one that was never bound does not", "", nil, false},
		{"nor does one that is forced", "n", ptr.To[int64](0), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := New(1)
			made(t, s, pod("p", c.node))
			if _, err := s.Do(Write{Verb: Delete, Resource: "pods", Namespace: "default", Name: "p",
				Options: metav1.DeleteOptions{GracePeriodSeconds: c.grace}}); err != nil {
				t.Fatal(err)
			}
			left := One[*corev1.Pod](s, "default", "p")
			if (left != nil) != c.lingers || left != nil && left.DeletionTimestamp == nil {
				t.Errorf("left is %v", left)
			}
		})
	}
}

func TestFinalizersHold(t *testing.T) {
	s := New(1)
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r"}}
	rs.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	rs.Spec.Template.Labels, rs.Spec.Template.Spec = rs.Spec.Selector.MatchLabels, pod("", "").Spec
	made(t, s, rs)
	policy := metav1.DeletePropagationOrphan
	if _, err := s.Do(Write{Verb: Delete, Resource: "replicasets", Namespace: "default", Name: "r",
		Options: metav1.DeleteOptions{PropagationPolicy: &policy}}); err != nil {
		t.Fatal(err)
	}
	held := One[*appsv1.ReplicaSet](s, "default", "r")
	if held == nil || held.DeletionTimestamp == nil || held.Generation != 2 {
		t.Fatalf("held is %v", held)
	}
	free := held.DeepCopy()
	free.Finalizers = nil
	if _, err := s.Do(Write{Verb: Update, Object: free}); err != nil {
		t.Fatal(err)
	}
	if One[*appsv1.ReplicaSet](s, "default", "r") != nil {
		t.Error("it is still there")
	}
}

func TestATerminatingNamespaceTakesNothingIn(t *testing.T) { // RS-28
	s := New(1)
	made(t, s, namespace("x"))
	if _, err := s.Do(Write{Verb: Delete, Resource: "namespaces", Name: "x"}); err != nil {
		t.Fatal(err)
	}
	p := pod("p", "")
	p.Namespace = "x"
	if _, err := s.Do(Write{Verb: Create, Object: p}); !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("got %v", err)
	}
}

// late is a network that holds events back.
type late struct {
	delay time.Duration
	cut   error
}

func (late) Send(context.Context, Request) error           { return nil }
func (late) Receive(context.Context, Request, error) error { return nil }
func (late) Webhook(Request) func(context.Context) error   { return nil }
func (l *late) Watching(Request) Channel                   { return l }
func (l *late) Due(e *Event) time.Time                     { return e.Time.Add(l.delay) }
func (*late) CaughtUp()                                    {}
func (*late) Changed() <-chan struct{}                     { return nil }
func (l *late) Cut() error                                 { return l.cut }

func TestWatchesAreDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1)
		w, err := client(t, s, &late{delay: 3 * time.Second}, runtime.ContentTypeProtobuf).CoreV1().Pods("default").
			Watch(t.Context(), metav1.ListOptions{ResourceVersion: fmt.Sprint(s.Version())})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		began := time.Now()
		made(t, s, pod("p", ""))
		e := <-w.ResultChan()
		if took := time.Since(began); e.Type != watch.Added || took != 3*time.Second {
			t.Errorf("%s came after %v", e.Type, took)
		}
	})
}

// A watch on which nothing happens waits: if it did not, the time of the simulation would stand still.
func TestAnIdleWatchWaits(t *testing.T) {
	for _, bookmarks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := New(1)
			w, err := client(t, s, nil, runtime.ContentTypeJSON).CoreV1().Pods("default").
				Watch(t.Context(), metav1.ListOptions{ResourceVersion: fmt.Sprint(s.Version()), AllowWatchBookmarks: bookmarks})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			time.Sleep(bookmarkEvery + time.Second)
			synctest.Wait()
			select {
			case e := <-w.ResultChan():
				if !bookmarks || e.Type != watch.Bookmark {
					t.Errorf("bookmarks %v: got %s", bookmarks, e.Type)
				}
			default:
				if bookmarks {
					t.Error("no bookmark")
				}
			}
		})
	}
}

func TestAWatchFromBeforeTheCompactionIsGone(t *testing.T) {
	s := New(1)
	before := s.Version()
	made(t, s, pod("p", ""))
	s.Compact()
	w, err := client(t, s, nil, runtime.ContentTypeJSON).CoreV1().Pods("default").Watch(t.Context(),
		metav1.ListOptions{ResourceVersion: fmt.Sprint(before)})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := <-w.ResultChan(); e.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
		t.Errorf("got %v", e)
	}
}

func TestListAsMetadata(t *testing.T) {
	s := New(1)
	made(t, s, pod("p", ""))
	raw, err := client(t, s, nil, runtime.ContentTypeJSON).CoreV1().RESTClient().Get().Namespace("default").Resource("pods").
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(raw), `"PartialObjectMetadataList"`) || strings.Contains(string(raw), `"containers"`) {
		t.Errorf("%v: %s", err, raw)
	}
}
