package legacyserviceaccounttokencleaner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// counted is a server that counts what is listed.
type counted struct {
	*clienttest.Server
	listed []string
}

func (c *counted) List(ctx context.Context, m client.Mapping, namespace string, o metav1.ListOptions, into runtime.Object) error {
	c.listed = append(c.listed, strings.TrimSpace(m.Kind+" "+namespace))
	return c.Server.List(ctx, m, namespace, o, into)
}

// run runs the controller at a cluster of tokens of the ServiceAccounts builder, which lists the Secrets that are named in list.
func run(t *testing.T, since string, list []string, test func(c *counted), objects ...plan.Object) {
	synctest.Test(t, func(t *testing.T) { // it begins on 2000-01-01
		c := &counted{Server: clienttest.NewServer()}
		a := account("builder", "a1", list...)
		tracking := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: trackingName},
			Data: map[string]string{"since": since}}
		for _, o := range append(objects, &a, tracking) {
			if _, err := c.Put(o); err != nil {
				t.Fatal(err)
			}
		}
		entry := New(Options{})
		if err := managertest.SetFlags([]manager.Controller{entry},
			map[string]string{"legacy-service-account-token-clean-up-period": "72h"}); err != nil {
			t.Fatal(err)
		}
		from := managertest.Context(t, c.Server, entry)
		from.Shared.Verifier = c
		managertest.Run(t, from, entry, func() { test(c) })
	})
}

func old(name string, edits ...edit) *corev1.Secret {
	edits = append([]edit{named(name), func(s *corev1.Secret) {
		s.CreationTimestamp = metav1.Date(1998, 1, 1, 0, 0, 0, 0, time.UTC)
		s.Data = map[string][]byte{"token": []byte("T")}
	}}, edits...)
	return secret(edits...)
}

// A token that nobody uses is marked, and deleted when it has been marked for longer than the period; other Secrets stay (LTC-2, LTC-6
// to LTC-9).
func TestLifeOfAToken(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"},
		Spec: corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "mounted"}}}}
	opaque := old("opaque", func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque })
	run(t, "1999-12-01", []string{"unused", "mounted", "busy", "opaque"}, func(c *counted) {
		if got := c.Log(); !slices.Equal(got, []string{"patch Secret unused"}) {
			t.Errorf("at once: %v", got)
		}
		mapping := client.MappingFor[*corev1.Secret]()
		s := &corev1.Secret{}
		if err := c.Get(t.Context(), mapping, plan.Key{Namespace: "shop", Name: "unused"}, s); err != nil ||
			s.Labels[invalidLabel] != "2000-01-01" || string(s.Data["token"]) != "T" || s.Labels["app"] != "x" {
			t.Errorf("%v, %v", s, err)
		}
		time.Sleep(3 * 24 * time.Hour)
		synctest.Wait()
		if n := c.CountWrites("delete"); n != 0 {
			t.Errorf("deleted a period after it was marked, to the day: %v", c.Log())
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if got := c.Log(); !slices.Contains(got, "delete Secret unused") {
			t.Errorf("after four days: %v", got)
		}
		if got := fmt.Sprint(c.Names(corev1.SchemeGroupVersion.WithKind("Secret"))); strings.Contains(got, "unused") ||
			!strings.Contains(got, "byhand") {
			t.Errorf("left are %s", got)
		}
	}, pod, opaque, old("unused"), old("mounted"), old("busy", used("2000-01-05")), old("byhand"))
}

// Most clusters have no such tokens: then the controller costs one read a day, and one list where usage was tracked (LTC-13).
func TestReadsNoMoreThanNeeded(t *testing.T) {
	for _, c := range []struct {
		name, since string
		secrets     []plan.Object
		list        []string
		want        []string
	}{
		{"LTC-3 usage is not tracked for long enough", "1999-12-31", []plan.Object{old("unused")}, []string{"unused"}, nil},
		{"no tokens", "1998-01-01", nil, nil, []string{"Secret"}},
		{"all are used", "1998-01-01", []plan.Object{old("busy", used("2000-01-01"))}, []string{"busy"}, []string{"Secret"}},
		{"LTC-6 all are made by users", "1998-01-01", []plan.Object{old("byhand")}, nil, []string{"Secret", "ServiceAccount shop"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, c.since, c.list, func(server *counted) {
				if !slices.Equal(server.listed, c.want) || len(server.Log()) > 0 {
					t.Errorf("lists %v, writes %v", server.listed, server.Log())
				}
			}, c.secrets...)
		})
	}
}

func TestLTC1Period(t *testing.T) {
	for d, good := range map[time.Duration]bool{-time.Hour: false, 0: false, time.Nanosecond: true, 8760 * time.Hour: true} {
		if err := (&Options{Period: d}).periodError(); (err == nil) != good {
			t.Errorf("%v: %v", d, err)
		}
	}
	if o := New(Options{}).Flags.(*Options); o.Period != 8760*time.Hour {
		t.Errorf("the default is %v", o.Period)
	}
}
