package faults

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// TestOutages: they are of a resource, and end when its watch has caught up or a request gets through, not with the fault or long
// after it.
func TestOutages(t *testing.T) {
	watch := func(l *Link, resource string) apiserver.Channel {
		return l.Watching(apiserver.Request{Verb: "watch", Resource: resource})
	}
	write := apiserver.Request{Verb: "update", Resource: "pods", Namespace: "shop", Name: "web"}
	send := func(l *Link) error {
		if err := l.Send(context.Background(), write); err != nil {
			return err
		}
		return l.Receive(context.Background(), write, nil)
	}
	for _, c := range []struct {
		name string
		do   func(l *Link)
		want []oracle.Outage // in seconds from the beginning
	}{
		{"frozen, and caught up late", func(l *Link) {
			pods, sets := watch(l, "pods"), watch(l, "replicasets")
			l.Freeze("pods", true)
			sets.CaughtUp()
			time.Sleep(10 * time.Second)
			pods.CaughtUp() // nothing has happened
			l.Freeze("pods", false)
			time.Sleep(2 * time.Second)
			pods.CaughtUp()
			time.Sleep(time.Minute)
		}, []oracle.Outage{during(at(0), at(12), "pods")}},
		{"cut, and another watch caught up", func(l *Link) {
			pods := watch(l, "pods")
			l.Cut("pods")
			pods.CaughtUp()
			time.Sleep(5 * time.Second)
			watch(l, "pods").CaughtUp()
			time.Sleep(time.Minute)
		}, []oracle.Outage{during(at(0), at(5), "pods")}},
		{"cut, and of two watches of the resource one caught up late", func(l *Link) {
			metadata := func() apiserver.Channel {
				return l.Watching(apiserver.Request{Verb: "watch", Resource: "pods", Selection: "metadata"})
			}
			watch(l, "pods")
			metadata()
			l.Cut("pods")
			metadata().CaughtUp()
			time.Sleep(5 * time.Second)
			watch(l, "pods").CaughtUp()
			time.Sleep(time.Minute)
		}, []oracle.Outage{during(at(0), at(0), "pods"), during(at(0), at(5), "pods")}},
		{"never caught up", func(l *Link) {
			watch(l, "pods")
			l.Delay("", time.Second)
			time.Sleep(10 * time.Second)
			l.Delay("", 0)
			time.Sleep(10 * time.Minute)
		}, []oracle.Outage{during(at(0), at(10).Add(aftermath), "pods")}},
		{"down", func(l *Link) {
			l.Down(true)
			time.Sleep(10 * time.Second)
			l.Down(false)
			time.Sleep(time.Minute)
		}, []oracle.Outage{during(at(0), at(10), "")}},
		{"refused, and written later", func(l *Link) {
			l.Refuse(Refusal{Left: 2, Code: 500})
			_ = send(l)
			time.Sleep(time.Second)
			_ = send(l)
			time.Sleep(time.Second)
			if err := send(l); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute)
		}, []oracle.Outage{during(at(0), at(2), "pods")}},
		{"under way for long", func(l *Link) {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			l.Refuse(Refusal{Left: 1, Code: -1, Resource: "pods"})
			_ = l.Send(ctx, write)
			_ = send(l)
			time.Sleep(time.Minute)
		}, []oracle.Outage{during(at(0), at(30), "pods"), during(at(0), at(30), "pods")}},
		{"nothing", func(l *Link) {
			watch(l, "pods").CaughtUp()
			time.Sleep(time.Minute)
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := New(1, 0)
				c.do(l)
				if have := l.Outages(); !slices.EqualFunc(have, c.want, func(a, b oracle.Outage) bool {
					return a.Resource == b.Resource && a.From.Equal(b.From) && a.To.Equal(b.To)
				}) {
					t.Errorf("has %v, expected %v", have, c.want)
				}
			})
		})
	}
}

func during(from, to time.Time, resource string) oracle.Outage {
	return oracle.Outage{Interval: oracle.Interval{From: from, To: to}, Resource: resource}
}

// at is a moment in virtual time.
func at(second int) time.Time {
	return time.Date(2000, 1, 1, 0, 0, second, 0, time.UTC)
}
