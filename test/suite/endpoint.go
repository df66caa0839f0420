package suite

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still use them

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func endpointEntry() Entry {
	return Entry{
		Controller: "endpoints-controller",
		Needs:      []string{"deployment-controller"},
		Operations: map[string]Operation{
			"service": service, // NAME app=, of that name by default; type=; delete=true
		},
		Begin: func(g *workload.Generator, app string) {
			if g.IntN(2) == 0 {
				g.Add(g.Early(), "service %s", app)
			}
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, _ time.Duration) {
			g.Add(at, "service %s app=%s%s", app, g.App(), workload.Pick(g, "", "", " unready=true", " delete=true"))
		}}},
		Scenarios: endpointScenarios,
		Malformed: endpointMalformed,
		Mutants:   endpointMutants,
		Budgets:   endpointBudgets,
	}
}

func service(u *User, l script.Line) error {
	name, app := l.Arg(0), l.Arg(0)
	if says(l, "delete") {
		return removeAsToldBy[*corev1.Service](u, name, l)
	}
	if s, ok := l.Get("app"); ok {
		app = s
	}
	err := edit(u, name, func(s *corev1.Service) {
		s.Spec.Selector = labelsOf(app)
		if _, ok := l.Get("unready"); ok {
			s.Spec.PublishNotReadyAddresses = true
		}
	})
	if apierrors.IsNotFound(err) {
		err = create(u, newService(name, app))
	}
	return err
}

var endpointMalformed = map[string]string{
	"services/specs/bare": `{"apiVersion":"v1","kind":"Service","metadata":${META}}`,
	"services/specs/odd": `{"apiVersion":"v1","kind":"Service","metadata":${META},
		"spec":{"selector":{"":"","app":"absurd"},"ports":[{"port":0},{"port":-1,"targetPort":""},{"port":-1,"protocol":"X"}],"ipFamilies":["IPv9"]}}`,
}

var endpointMutants = []Mutant{
	{
		Name: "Endpoints keep dead addresses once there are more than a thousand",
		Edits: []Edit{{"pkg/controllers/endpoint/plan.go",
			"case !endpoints.SameSubsets(", "case !(noted && note) && !endpoints.SameSubsets("}},
		Script: `
			set batch 1000
			at 1s   service web
			at 1s   bare web replicas=1000 image=good:1
			at 40s  bare web replicas=1002
			at 60s  pod web n=10 do=delete
			at 60s  pod web n=500 do=delete`,
		Oracle: "S11",
	},
	{
		Name: "pods that are not ready are given as ready",
		Edits: []Edit{{"pkg/controllers/endpoint/plan_pods.go",
			"return service.Spec.PublishNotReadyAddresses || podutil.Ready(p)",
			"return service != nil && (p == nil || !podutil.Finished(p))"}},
		Script: withoutElection + `
			at 1s   service web
			at 1s   bare web replicas=2 image=bad:1`,
		Oracle: "S11",
	},
	{
		Name: "pods that are being deleted count as addresses",
		Edits: []Edit{{"pkg/controllers/endpoint/plan_pods.go",
			"(p.DeletionTimestamp == nil || service.Spec.PublishNotReadyAddresses)", "service != nil"}},
		Script: withoutElection + `
			at 1s   service web
			at 1s   bare web replicas=3 image=good:1
			at 20s  node node-0 do=stop
			at 20s  node node-1 do=stop
			at 20s  node node-2 do=stop
			at 21s  bare web replicas=0
			at 45s  node node-0 do=start`,
		Oracle: "S11",
	},
	{
		Name: "the selector of a Service is not looked at again",
		Edits: []Edit{{"pkg/controllers/endpoint/plan.go", `if why == "" {`,
			`if why == "" || len(s.Endpoints.Subsets) > 0 && len(after.Subsets) == 0 {`}},
		Script: withoutElection + `
			at 1s   service web
			at 1s   bare web replicas=2 image=good:1
			at 20s  service web app=other`,
		Oracle: "L1",
	},
	{
		Name: "Endpoints stay when their Service is gone",
		Edits: []Edit{{"pkg/controllers/endpoint/plan.go",
			"	if s.Endpoints == nil {\n		return plan.Plan{}\n	}\n	if isLeaderRecord",
			"	if s.Endpoints == nil || s.Service == nil {\n		return plan.Plan{}\n	}\n	if isLeaderRecord"}},
		Script: withoutElection + `
			at 1s   service web
			at 1s   bare web replicas=2 image=good:1
			at 19s  fault m0 delay services 3s for=5s # the server removes the Endpoints, and the manager makes them once more
			at 20s  service web delete=true`,
		Oracle: "L1",
	},
}

var endpointScenarios = []Scenario{
	{Name: "a Service whose pods change", Play: func(u *User) {
		u.Expose("web")
		u.Create(Deployment("web", 2))
		u.WaitComplete("web")
		u.waitEndpoints("web", 2)
		for _, n := range []int{4, 0, 1} {
			u.Patch("web", fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
			u.WaitComplete("web")
			u.waitEndpoints("web", n)
		}
	}},
}

var endpointBudgets = []Budget{{
	// a slice shows that the pod goes, and that it is gone
	Name: "100 Services for the same pods, and a pod less", Floor: floor.Writes{Other: 502, Status: 2},
	Prepare: func(u *User) {
		u.Create(Deployment("web", 3, func(d *appsv1.Deployment) {
			d.Spec.Template.Annotations = map[string]string{cluster.TerminateAfter: "2s"} // so that the slices show that the pod goes
		}))
		u.WaitComplete("web")
	},
	Do: func(u *User) {
		u.Each(100, func(i int) error { return create(u, newService(fmt.Sprint("web-", i), "web")) })
		for i := range 100 {
			u.waitEndpoints(fmt.Sprint("web-", i), 3)
		}
		u.Patch("web", `{"spec":{"replicas":2}}`) // the ReplicaSet's size, the pod, two statuses
		u.WaitComplete("web")
		for i := range 100 {
			u.waitEndpoints(fmt.Sprint("web-", i), 2)
		}
	},
}}

// waitEndpoints waits until the Endpoints of a Service have so many ready addresses.
func (u *User) waitEndpoints(name string, n int) {
	u.Helper()
	Await(u, name, func(e *corev1.Endpoints) error {
		ready := 0
		for _, s := range e.Subsets {
			ready += len(s.Addresses)
		}
		return unless(ready == n, e.Subsets)
	})
}
