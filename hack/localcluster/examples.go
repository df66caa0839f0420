package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// example is an object of examples/ and what is to become of it.
type example struct {
	kind, name string
	path       string // of its resource, in the namespace default
	became     func(object) (what string, done bool)
}

// object is as much of any workload as it takes to see what became of it.
type object struct {
	Metadata struct{ Generation int64 }
	Spec     struct{ Replicas, Completions int }
	Status   struct {
		ObservedGeneration                                              int64
		Replicas, UpdatedReplicas, AvailableReplicas                    int
		CurrentRevision, UpdateRevision                                 string
		DesiredNumberScheduled, UpdatedNumberScheduled, NumberAvailable int
		Succeeded                                                       int
		Conditions                                                      []struct{ Type, Status string }
		LastScheduleTime, LastSuccessfulTime                            string
		ExpectedPods, CurrentHealthy, DisruptionsAllowed                int
	}
}

// examples are all workloads of examples/, each kind that the controller manager looks after. An example that is to go has no became.
func examples() []example {
	return []example{
		{"Deployment", "web", "/apis/apps/v1/namespaces/default/deployments/", replicated},
		{"ReplicaSet", "cache", "/apis/apps/v1/namespaces/default/replicasets/", replicated},
		{"StatefulSet", "db", "/apis/apps/v1/namespaces/default/statefulsets/", ordered},
		{"DaemonSet", "agent", "/apis/apps/v1/namespaces/default/daemonsets/", onNodes},
		{"PodDisruptionBudget", "web", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/", budgeted},
		{"Job", "sum", "/apis/batch/v1/namespaces/default/jobs/", completed},
		{"Job", "cleanup", "/apis/batch/v1/namespaces/default/jobs/", nil},
		{"CronJob", "report", "/apis/batch/v1/namespaces/default/cronjobs/", ran},
	}
}

func replicated(o object) (string, bool) {
	s := o.Status
	what := fmt.Sprintf("%d of %d pods are available", s.AvailableReplicas, o.Spec.Replicas)
	outdated := s.UpdatedReplicas != 0 && s.UpdatedReplicas != o.Spec.Replicas // ReplicaSets do not count these
	return what, o.observed() && s.Replicas == o.Spec.Replicas && s.AvailableReplicas == o.Spec.Replicas && !outdated
}

func ordered(o object) (string, bool) {
	what, done := replicated(o)
	return what + ", each with a claim", done && o.Status.UpdateRevision != "" && o.Status.CurrentRevision == o.Status.UpdateRevision
}

func onNodes(o object) (string, bool) {
	s := o.Status
	what := fmt.Sprintf("%d of %d nodes have an available pod", s.NumberAvailable, s.DesiredNumberScheduled)
	wanted := s.DesiredNumberScheduled
	return what, o.observed() && wanted > 0 && s.UpdatedNumberScheduled == wanted && s.NumberAvailable == wanted
}

func budgeted(o object) (string, bool) {
	s := o.Status
	what := fmt.Sprintf("%d of %d pods are healthy, %d may be evicted", s.CurrentHealthy, s.ExpectedPods, s.DisruptionsAllowed)
	return what, o.observed() && s.ExpectedPods > 0 && s.CurrentHealthy == s.ExpectedPods && s.DisruptionsAllowed > 0
}

func completed(o object) (string, bool) {
	what := fmt.Sprintf("%d of %d pods have succeeded", o.Status.Succeeded, o.Spec.Completions)
	for _, c := range o.Status.Conditions {
		if c.Type == "Complete" && c.Status == "True" {
			return what, true
		}
	}
	return what, false
}

func ran(o object) (string, bool) {
	if o.Status.LastScheduleTime == "" {
		return "no Job was due yet", false
	}
	what := "the Job of " + o.Status.LastScheduleTime + " was created"
	if o.Status.LastSuccessfulTime == "" {
		return what, false
	}
	return what + ", and one was successful at " + o.Status.LastSuccessfulTime, true
}

func (o object) observed() bool { return o.Status.ObservedGeneration >= o.Metadata.Generation }

// await waits until there has become of an example what is to become of it, and tells that.
func (a *api) await(ctx context.Context, e example) (what string, err error) {
	err = poll(ctx, e.kind+" "+e.name, func() error {
		data, err := a.do(ctx, "GET", e.path+e.name, nil)
		switch {
		case e.became == nil && errors.Is(err, errNotFound):
			what = "was deleted when its time to live was over"
			return nil
		case err != nil:
			return err
		case e.became == nil:
			return errors.New("it is still there")
		}
		var o object
		if err := json.Unmarshal(data, &o); err != nil {
			return err
		}
		done := false
		if what, done = e.became(o); !done {
			return errors.New(what)
		}
		return nil
	})
	return what, err
}

// awaitAll waits for all examples, and says what became of each.
func (a *api) awaitAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, rolloutTime)
	defer cancel()
	fmt.Println()
	for _, e := range examples() {
		start := time.Now()
		what, err := a.await(ctx, e)
		if err != nil {
			return err
		}
		fmt.Printf("%s %s: %s (waited %s)\n", e.kind, e.name, what, time.Since(start).Round(100*time.Millisecond))
	}
	return nil
}
