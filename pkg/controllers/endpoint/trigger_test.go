package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
)

// readySince lets a pod have been ready for so long.
func readySince(d time.Duration) podEdit {
	return func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = ago(d) }
}

func TestEarliestChange(t *testing.T) { // EP-31
	service := web()
	a, b := pod("a", "10.0.0.1", readySince(time.Hour)), pod("b", "10.0.0.2", readySince(time.Minute))
	var m *endpoints.Times
	for _, step := range []struct {
		what    string
		service *corev1.Service
		pods    []*corev1.Pod
		want    time.Duration // ago; zero: none
	}{
		{"the first time: when the service was created", service, list(a), 2 * time.Hour},
		{"nothing has happened", service, list(a), 0},
		{"a pod that is new", service, list(a, b), time.Minute},
		{"two changes: the earlier", service, list(pod("a", "", readySince(30*time.Second)), pod("b", "", readySince(20*time.Second))),
			30 * time.Second},
		{"a pod is gone", service, list(pod("a", "", readySince(30*time.Second))), 0},
		{"an earlier time is no change", service, list(pod("a", "", readySince(40*time.Second))), 0},
		{"the service was made anew", web(func(s *corev1.Service) { s.CreationTimestamp = ago(10 * time.Second) }), nil, 10 * time.Second},
	} {
		after := endpoints.TimesOf(step.service, step.pods)
		got := endpoints.EarliestChange(m, after)
		if step.want == 0 && !got.IsZero() || step.want != 0 && !got.Equal(now.Add(-step.want)) {
			t.Errorf("%s: %v", step.what, got)
		}
		m = after
	}
}

// Whatever becomes of a write, the next one tells of the earliest change of which no write is known to have told (EP-31).
func TestTriggerTimeOutlivesWritesThatFail(t *testing.T) {
	b, c := pod("b", "10.0.0.2", readySince(30*time.Minute)), pod("c", "10.0.0.3", readySince(10*time.Minute))
	noAnswer := context.DeadlineExceeded
	for _, row := range []struct {
		name   string
		before func(*cluster) error // the first write, not carried out if this returns an error
		after  func(*cluster) error // the first write, carried out
		then   func(*cluster)       // when all is quiet
		want   []string
	}{
		{name: "answered", want: []string{"30m0s: a b"}},
		{name: "refused", before: func(*cluster) error { return apierrors.NewInternalError(noAnswer) }, want: []string{"30m0s: a b"}},
		{name: "refused, and another change before the next try", before: func(k *cluster) error {
			k.put(c)
			return apierrors.NewInternalError(noAnswer)
		}, want: []string{"30m0s: a b c"}},
		{name: "conflict", before: func(k *cluster) error {
			e := k.endpoints()
			metav1.SetMetaDataAnnotation(&e.ObjectMeta, "theirs", "x")
			k.put(e)
			return nil
		}, want: []string{"30m0s: a b"}},
		{name: "not carried out and not answered", before: func(*cluster) error { return noAnswer }, want: []string{"30m0s: a b"}},
		{name: "carried out and not answered", after: func(*cluster) error { return noAnswer }, want: []string{"30m0s: a b"}},
		{name: "carried out and not answered, while the cache of Endpoints lags", after: func(k *cluster) error {
			k.FreezeWatches(client.KindFor[*corev1.Endpoints]())
			return noAnswer
		}, then: func(k *cluster) { k.ResumeWatches(client.KindFor[*corev1.Endpoints]()) }, want: []string{"30m0s: a b"}},
		{name: "carried out and not answered, and another change before the next try", after: func(k *cluster) error {
			k.put(c)
			return noAnswer
		}, want: []string{"30m0s: a b", "30m0s: a b c"}}, // nobody knows that the first write has told of b
	} {
		t.Run(row.name, func(t *testing.T) {
			inCluster(t, func(k *cluster) {
				if diff := cmp.Diff([]string{"2h0m0s: a"}, k.noted); diff != "" {
					t.Fatal(diff)
				}
				k.noted = nil
				var writes atomic.Int64
				k.BeforeWrite(func(clienttest.Write) error {
					if n := writes.Add(1); n > 1 || row.before == nil {
						return nil
					}
					return row.before(k)
				})
				k.AfterWrite(func(w clienttest.Write) error {
					_ = k.note(w)
					if writes.Load() > 1 || row.after == nil {
						return nil
					}
					return row.after(k)
				})
				k.put(b)
				clienttest.Settle()
				if row.then != nil {
					row.then(k)
					clienttest.Settle()
				}
				if diff := cmp.Diff(row.want, k.noted); diff != "" {
					t.Error(diff)
				}
				k.noted = nil
				k.put(pod("d", "10.0.0.4", readySince(5*time.Minute)))
				clienttest.Settle()
				if len(k.noted) != 1 || !strings.HasPrefix(k.noted[0], "5m0s: ") {
					t.Errorf("after the next change: %q", k.noted)
				}
			}, web(), pod("a", "10.0.0.1", readySince(time.Hour)))
		})
	}
}
