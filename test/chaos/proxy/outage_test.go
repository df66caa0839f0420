package proxy

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/standalone-kcm/controller-manager/test/oracle"
)

// TestOutages: they are of the resource that is late or refused, and end when all has been delivered and answered.
func TestOutages(t *testing.T) {
	s := newServer(t)
	p, client := s.start(t, "refuse n=1 code=500", runtime.ContentTypeJSON, Options{})
	pods := client.CoreV1().Pods("shop")
	w, err := pods.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if all := p.Outages(); len(all) > 0 {
		t.Errorf("outages before any fault: %v", all)
	}
	began := time.Now()
	play(t, p, "freeze pods for=300ms")
	s.events <- 1
	next(t, w)
	frozen := time.Since(began)
	if _, err := pods.Create(t.Context(), numbered(7), metav1.CreateOptions{}); err == nil {
		t.Error("no error")
	}
	if _, err := pods.Create(t.Context(), numbered(7), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	var all []oracle.Outage
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		before := p.Outages()
		time.Sleep(20 * time.Millisecond)
		if all = p.Outages(); len(before) == len(all) && len(all) == 2 && before[0] == all[0] && before[1] == all[1] {
			break // both have ended
		}
	}
	if len(all) != 2 || all[0].Resource != "pods" || all[1].Resource != "pods" {
		t.Fatalf("the outages are %v", all)
	}
	for _, o := range all {
		if lasted := o.To.Sub(o.From); lasted > frozen+5*time.Second {
			t.Errorf("an outage of %v", lasted)
		}
	}
	if lasted := all[0].To.Sub(all[0].From); lasted < 250*time.Millisecond {
		t.Errorf("the events were frozen for %v, and the outage lasted %v", frozen, lasted)
	}
	w.Stop()
}
