package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// example is an object of examples/ and what is to become of it.
type example struct {
	kind, name string
	path       string // of its resource, in its namespace
	became     func(object) (what string, done bool)
}

// object is as much of any workload as it takes to see what became of it.
type object struct {
	Metadata struct{ Generation int64 }
	Spec     struct {
		Replicas, Completions, MinReplicas int
		Hard                               map[string]string
		Metrics                            []struct{ Resource struct{ Target utilization } }
	}
	Status struct {
		ObservedGeneration                                              int64
		Replicas, UpdatedReplicas, AvailableReplicas                    int
		CurrentRevision, UpdateRevision                                 string
		DesiredNumberScheduled, UpdatedNumberScheduled, NumberAvailable int
		Succeeded                                                       int
		Conditions                                                      []struct{ Type, Status string }
		LastScheduleTime, LastSuccessfulTime                            string
		ExpectedPods, CurrentHealthy, DisruptionsAllowed                int
		Hard, Used                                                      map[string]string
		CurrentReplicas, DesiredReplicas                                int
		CurrentMetrics                                                  []struct{ Resource struct{ Current utilization } }
	}
}

type utilization struct{ AverageUtilization int }

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
		{"Deployment", "api", "/apis/apps/v1/namespaces/team/deployments/", replicated},
		{"ResourceQuota", "team", "/api/v1/namespaces/team/resourcequotas/", counted},
		{"HorizontalPodAutoscaler", "shop", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/", autoscaled},
		{"Deployment", "shop", "/apis/apps/v1/namespaces/default/deployments/", replicated},
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

// counted says how much of a quota is used. All of the example is.
func counted(o object) (string, bool) {
	what, done := "", len(o.Spec.Hard) > 0
	for _, name := range slices.Sorted(maps.Keys(o.Spec.Hard)) {
		hard, used := o.Status.Hard[name], cmp.Or(o.Status.Used[name], "0")
		what += fmt.Sprintf(", %s of %s %s", used, o.Spec.Hard[name], name)
		done = done && hard == o.Spec.Hard[name] && used != "0"
	}
	return "in use are " + strings.TrimPrefix(what, ", "), done
}

// autoscaled is done when as many replicas were added as it takes to use no more than was said.
func autoscaled(o object) (string, bool) {
	s := o.Status
	if len(s.CurrentMetrics) == 0 || len(o.Spec.Metrics) == 0 {
		return "it has no metrics yet", false
	}
	used, most := s.CurrentMetrics[0].Resource.Current.AverageUtilization, o.Spec.Metrics[0].Resource.Target.AverageUtilization
	what := fmt.Sprintf("%d pods, with at least %d, use %d%% of the CPU time that they request", s.CurrentReplicas, o.Spec.MinReplicas,
		used)
	return what, s.CurrentReplicas == s.DesiredReplicas && s.CurrentReplicas > o.Spec.MinReplicas && used > 0 && used <= most
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
