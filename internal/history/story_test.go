package history

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// The story of a pod whose ReplicaSet and Deployment are gone: from the entries of several processes, through restarts.
func TestStory(t *testing.T) {
	deployment := &appsv1.Deployment{ObjectMeta: meta("web")}
	record := func(observer bool, decisions map[string]reconcile.Decision, gone ...plan.Object) []Entry {
		dir := t.TempDir()
		r, stop := runs(t, Options{Dir: dir, Most: Least, Observer: observer})
		for controller, d := range decisions {
			r.Decided(controller)(d)
		}
		for _, o := range gone {
			r.Gone(o)
		}
		stop()
		found, err := read(t.Context(), dir, Ref{Kind: "pod", Namespace: "shop", Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	p := pod("a")
	collected := decision([]plan.Step{plan.Delete{Objects: []plan.Object{p}, Why: "its owner is gone"}}, done(plan.Deleted, p))
	collected.Owner = nil
	made := decision([]plan.Step{plan.Create{Object: set(2), Why: "no ReplicaSet has the template"}}, done(plan.Created, set(2)))
	made.Steps[0] = plan.Create{Object: made.Did[0].Object, Why: "no ReplicaSet has the template"}
	made.Owner, made.Record.Time = deployment, at.Add(-time.Minute)
	entries := record(false, map[string]reconcile.Decision{"garbage-collector-controller": collected, "deployment-controller": made},
		p, set(2), deployment)
	s, ok := Tell(Ref{Kind: "Pod", Namespace: "shop", Name: "a"}, entries)
	if !ok || len(s.Chain) != 3 {
		t.Fatalf("%v: %+v", ok, s)
	}
	for i, want := range []string{
		"Deployment shop/web: somebody else deleted it: no controller that was asked planned it; gone since ",
		"ReplicaSet shop/web-1: somebody else deleted it: no controller that was asked planned it; gone since ",
		"Pod shop/a: garbage-collector-controller deleted it at 2026-01-02T03:04:05Z: its owner is gone; gone since ",
	} {
		if got := s.Chain[i].Object.String() + ": " + s.Chain[i].Says; !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	var text bytes.Buffer
	s.WriteText(&text)
	for _, want := range []string{s.Summary + "\n", "\n  Deployment shop/web", "\n    ReplicaSet shop/web-1", "\n      Pod shop/a",
		"deployment-controller created ReplicaSet shop/web-1; no ReplicaSet has the template", "precondition: uid", "saw: Running, on node node-a"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("there is no %q in\n%s", want, &text)
		}
	}
	// An observer has planned the same, and seen it gone; then nobody of ours has done it.
	observed := collected
	observed.Did, observed.Record.Inferred = nil, true
	entries = record(true, map[string]reconcile.Decision{"garbage-collector-controller": observed}, p)
	if s, _ := Tell(Ref{Kind: "Pod", Namespace: "shop", Name: "a"}, entries); !strings.HasPrefix(s.Summary,
		"Pod shop/a: it is gone; garbage-collector-controller would have deleted it at 2026-01-02T03:04:05Z: its owner is gone (inferred); gone since ") {
		t.Error(s.Summary)
	}
}

// What the last object of a name has met is told in one line.
func TestVerdict(t *testing.T) {
	gone, own, made := entry("a"), entry("a"), entry("a")
	gone.Verb, gone.Time, made.Verb, made.Rule = Gone, at.Add(time.Hour), Created, "missing"
	seen := gone
	seen.Inferred, seen.Time = true, at.Add(time.Hour+time.Second)
	own.Controller, made.Controller = "c", "c"
	refused, needless, planned, evicted, all, about := own, own, own, own, own, own
	about.Verb = Deleting
	refused.Error, needless.Needless, planned.Inferred, evicted.Verb = "forbidden", true, true, Evicted
	all.Object = Ref{Kind: "Pod", Namespace: "shop"}
	later := all
	later.Time = at.Add(2 * time.Hour)
	again := made
	again.Object.UID, again.Time = "other", at.Add(3*time.Hour)
	unanswered, part, aboutAll, spared, restarted := refused, all, all, about, needless
	unanswered.NoAnswer, part.Error, aboutAll.Verb, spared.Verb = true, "forbidden", Deleting, Spared
	restarted.Time, restarted.By = at.Add(time.Minute), "other"
	younger, lost := gone, Entry{Time: at, Verb: Lost, Count: 3}
	younger.Made = at.Add(time.Minute)
	otherGroup := all
	otherGroup.Object.Group = "example.com"
	for want, entries := range map[string][]Entry{
		"c deleted it at 2026-01-02T03:04:05Z: too many; gone since 2026-01-02T04:04:05Z":                    {made, own, gone},
		"c evicted it at 2026-01-02T03:04:05Z: too many":                                                     {made, evicted},
		"c tried to have it deleted at 2026-01-02T03:04:05Z, and failed: forbidden":                          {refused},
		"c found it gone or replaced at 2026-01-02T03:04:05Z":                                                {needless},
		"somebody else deleted it: no controller that was asked planned it; gone since 2026-01-02T04:04:05Z": {gone, later, seen},
		"it is gone, and no plan of an observer names it: somebody else deleted it, or a controller that was quicker; gone since " +
			"2026-01-02T04:04:06Z": {seen, seen},
		"c would have deleted it at 2026-01-02T03:04:05Z: too many (inferred); nothing shows that it is gone":          {planned},
		"c deleted all objects of kind Pod in shop at 2026-01-02T03:04:05Z: too many; gone since 2026-01-02T04:04:05Z": {all, gone},
		"c deleted it at 2026-01-02T03:04:05Z: too many":                                                               {about, own},
		"c was about to delete it at 2026-01-02T03:04:05Z, and no answer is known: too many; gone since 2026-01-02T04:04:05Z": {
			made, about, gone},
		"c was about to delete it at 2026-01-02T03:04:05Z, and no answer is known: too many": {made, about},
		"c tried to have it deleted at 2026-01-02T03:04:05Z, and failed: forbidden; gone since 2026-01-02T04:04:05Z": {
			about, refused, gone},
		"c asked for it to be deleted at 2026-01-02T03:04:05Z, and got no answer: too many; gone since 2026-01-02T04:04:05Z": {
			about, unanswered, gone},
		"c was about to delete it at 2026-01-02T03:04:05Z, and no answer is known: too many; gone since 2026-01-02T04:04:05Z ": {
			about, restarted, gone},
		"c tried to have all objects of kind Pod in shop deleted at 2026-01-02T03:04:05Z, and failed: forbidden; gone since " +
			"2026-01-02T04:04:05Z": {aboutAll, part, gone},
		"somebody else deleted it: no controller that was asked planned it; gone since 2026-01-02T04:04:05Z ":    {about, spared, gone},
		"somebody else deleted it: no controller that was asked planned it; gone since 2026-01-02T04:04:05Z  ":   {all, younger},
		"somebody else deleted it: no controller that was asked planned it; gone since 2026-01-02T04:04:05Z   ":  {otherGroup, gone},
		"nothing that was kept says who deleted it: 3 entries were lost; gone since 2026-01-02T04:04:05Z":        {lost, gone},
		"somebody else deleted it: no controller that was asked planned it; gone since 2026-01-02T04:04:05Z    ": {lost, younger},
		"c created it: missing; nothing shows that it is gone":                                                   {own, gone, again},
	} {
		s, ok := Tell(Ref{Kind: "Pod", Namespace: "shop", Name: "a"}, entries)
		if want = strings.TrimSpace(want); !ok || s.Summary != "Pod shop/a: "+want {
			t.Errorf("%q, want %q", s.Summary, want)
		}
	}
	if _, ok := Tell(Ref{Kind: "Pod", Namespace: "shop", Name: "b"}, []Entry{all, own}); ok {
		t.Error("there is a story of an object that nobody knows")
	}
}

// Names of owners are the tenant's, and of any length.
func TestHugeOwners(t *testing.T) {
	dir := t.TempDir()
	r, stop := running(t, dir, Least)
	p := pod("a")
	p.OwnerReferences[0].Name, p.OwnerReferences[0].Kind = strings.Repeat("<", 100<<10), "a\x1b[2Jb"
	p.OwnerReferences[0].UID = types.UID(strings.Repeat("u", 100<<10))
	r.Gone(p)
	stop()
	found, err := read(t.Context(), dir, Ref{Kind: "pod", Namespace: "shop", Name: "a"})
	if err != nil || len(found) != 1 {
		t.Fatalf("%d entries, %v", len(found), err)
	}
	s, _ := Tell(Ref{Kind: "Pod", Namespace: "shop", Name: "a"}, found)
	var text bytes.Buffer
	if s.WriteText(&text); strings.Contains(text.String(), "\x1b") {
		t.Error("a terminal would act upon the name of an owner")
	}
}

// An answer is bounded, and has what is newest.
func TestAnswersAreBounded(t *testing.T) {
	dir := t.TempDir()
	r, stop := running(t, dir, Least)
	for i := range 3 * mostOfObject {
		e := entry("a")
		e.Version = fmt.Sprint(i)
		r.record(e)
	}
	stop()
	found, err := read(t.Context(), dir, Ref{Kind: "pod", Namespace: "shop", Name: "a"})
	if err != nil || len(found) != mostOfObject || found[len(found)-1].Version != fmt.Sprint(3*mostOfObject-1) {
		t.Errorf("%d entries, %v", len(found), err)
	}
}
