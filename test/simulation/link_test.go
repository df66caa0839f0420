package simulation

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/test/faults"
	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
)

func TestAServerThatLagsShowsThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, link := apiserver.New(1), newLink(1, time.Millisecond)
		client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://memory",
			Transport: &apiserver.Client{Server: server, Name: "test", Network: link}, QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		maps := client.CoreV1().ConfigMaps("default")
		create := func(name string) {
			if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}},
				metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		seen := func() int {
			list, err := maps.List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
			if err != nil {
				t.Fatal(err)
			}
			return len(list.Items)
		}
		create("old")
		time.Sleep(time.Minute)
		begin(t, link, "lag configmaps 10s")
		began := time.Now()
		create("new")
		if n := seen(); n != 1 {
			t.Errorf("a server that lags shows %d objects, expected the old one", n)
		}
		w, err := maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		<-w.ResultChan()
		if e := <-w.ResultChan(); e.Object.(*corev1.ConfigMap).Name != "new" || time.Since(began) < 10*time.Second {
			t.Errorf("%v came after %v", e, time.Since(began))
		}
		if n := seen(); n != 2 {
			t.Errorf("when it has caught up it shows %d objects", n)
		}
		create("newest")
		link.Heal()
		if n := seen(); n != 3 {
			t.Errorf("after the fault there are %d objects", n)
		}
	})
}

// begin begins a fault of a link.
func begin(t *testing.T, l *link, words string) (end func()) {
	t.Helper()
	f, err := faults.Parse(script.Line{Words: strings.Fields("fault m0 " + words)})
	if err != nil {
		t.Fatal(err)
	}
	return l.Begin(f)
}

// TestOutagesOfRequests: they end when a request gets through or is given up, not with the fault or long after it.
func TestOutagesOfRequests(t *testing.T) {
	write := apiserver.Request{Verb: "update", Resource: "pods", Namespace: "shop", Name: "web"}
	send := func(l *link) error {
		if err := l.Send(context.Background(), write); err != nil {
			return err
		}
		return l.Receive(context.Background(), write, nil)
	}
	during := func(from, to int) oracle.Outage {
		at := func(second int) time.Time { return time.Date(2000, 1, 1, 0, 0, second, 0, time.UTC) }
		return oracle.Outage{Interval: oracle.Interval{From: at(from), To: at(to)}, Resource: "pods"}
	}
	for name, c := range map[string]struct {
		do   func(t *testing.T, l *link)
		want []oracle.Outage // in seconds from the beginning
	}{
		"refused, and written later": {func(t *testing.T, l *link) {
			begin(t, l, "refuse n=2 code=500")
			for range 2 {
				if send(l) == nil {
					t.Error("it is not refused")
				}
				time.Sleep(time.Second)
			}
			if err := send(l); err != nil {
				t.Error(err)
			}
		}, []oracle.Outage{during(0, 2)}},
		"under way for long": {func(t *testing.T, l *link) {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			begin(t, l, "refuse n=1 code=-1 resource=pods")
			if l.Send(ctx, write) == nil {
				t.Error("it is answered")
			}
			if err := send(l); err != nil {
				t.Error(err)
			}
		}, []oracle.Outage{during(0, 30), during(0, 30)}},
		"silent": {func(t *testing.T, l *link) {
			end := begin(t, l, "silent")
			time.AfterFunc(10*time.Second, end)
			if err := send(l); err != nil {
				t.Error(err)
			}
		}, []oracle.Outage{{Interval: during(0, 10).Interval}, during(0, 10)}},
		"nothing": {func(t *testing.T, l *link) {
			if err := send(l); err != nil {
				t.Error(err)
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLink(1, 0)
				c.do(t, l)
				time.Sleep(time.Minute)
				if have := l.Outages.All(); !slices.EqualFunc(have, c.want, func(a, b oracle.Outage) bool {
					return a.Resource == b.Resource && a.From.Equal(b.From) && a.To.Equal(b.To)
				}) {
					t.Errorf("has %v, expected %v", have, c.want)
				}
			})
		})
	}
}
