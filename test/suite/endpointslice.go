package suite

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// sliceManager is the controller's value of the label managed-by (EPS-6).
const sliceManager = "endpointslice-controller.k8s.io"

func endpointSliceEntry() Entry {
	return Entry{
		Controller: "endpointslice-controller",
		Needs:      []string{"endpoints-controller"},
		Operations: map[string]Operation{
			"slices": editSlices, // of a service: do=delete, do=edit, or do=add: one that somebody else manages
		},
		Begin: func(g *workload.Generator, app string) {
			if g.IntN(3) == 0 {
				g.Add(g.Early(), "service %s", app)
			}
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, _ time.Duration) {
			g.Add(at, "slices %s do=%s", app, workload.Pick(g, "delete", "edit", "add"))
		}}},
		Scenarios: []Scenario{{Name: "a Service whose pods change, in EndpointSlices", Play: func(u *User) {
			u.Expose("sliced")
			u.Create(Deployment("sliced", 2))
			for _, n := range []int{4, 0, 1} {
				u.Patch("sliced", fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
				u.WaitComplete("sliced")
				u.waitSlices("sliced", n, false)
			}
		}}},
		Malformed: map[string]string{
			"endpointslices/bare": `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":${META},"addressType":"IPv4"}`,
			"endpointslices/odd": `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":${META},
				"addressType":"IPv9","endpoints":[{},{"addresses":["x",""],"targetRef":{"kind":"Pod"}}],"ports":[{},{"port":-1}]}`,
		},
		Mutants: endpointSliceMutants,
		Budgets: []Budget{{
			Name: "a Service for 150 pods", Floor: floor.Writes{Other: 3}, // Endpoints and two slices
			Prepare: func(u *User) {
				u.Create(Deployment("sliced", 150))
				u.WaitComplete("sliced")
			},
			Do: func(u *User) {
				u.Expose("sliced")
				u.waitSlices("sliced", 150, false)
				u.waitEndpoints("sliced", 150)
			},
		}},
	}
}

// editSlices does something to the slices of a service behind the controller's back.
func editSlices(u *User, l script.Line) error {
	do, _ := l.Get("do")
	if do == "add" {
		return create(u, &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{GenerateName: l.Arg(0) + "-", Labels: map[string]string{
				discoveryv1.LabelServiceName: l.Arg(0), discoveryv1.LabelManagedBy: By,
			}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.99.0.1"}}},
		})
	}
	slices, err := list[*discoveryv1.EndpointSlice](u, discoveryv1.LabelServiceName+"="+l.Arg(0),
		discoveryv1.LabelManagedBy+"="+sliceManager)
	switch {
	case len(slices) == 0:
		return err
	case do == "delete":
		return removeAsToldBy[*discoveryv1.EndpointSlice](u, slices[0].Name, l)
	}
	return edit(u, slices[0].Name, func(o *discoveryv1.EndpointSlice) { o.Endpoints = nil })
}

var endpointSliceMutants = []Mutant{
	{
		Name: "EndpointSlices give pods as ready that are not",
		Edits: []Edit{{"pkg/controllers/endpointslice/plan_pods.go",
			"m.service.Spec.PublishNotReadyAddresses || serving && p.DeletionTimestamp == nil",
			"m.service.Spec.PublishNotReadyAddresses || serving || p.DeletionTimestamp == nil"}},
		Script: withoutElection + `
			at 1s   service web
			at 1s   bare web replicas=2 image=bad:1`,
		Oracle: "S15",
	},
	{
		Name: "an EndpointSlice does not look at readiness again",
		Edits: []Edit{{"pkg/controllers/endpointslice/plan_pods.go",
			"!is(c.Ready, m.ready(p, serving)) || !is(c.Serving, serving) || !is(c.Terminating, p.DeletionTimestamp != nil)",
			"c.Ready == nil && serving"}},
		Script: withoutElection + `
			at 1s   service web
			at 1s   bare web replicas=3 image=slow:1`,
		Oracle: "S15",
	},
	{
		Name: "new pods do not get into EndpointSlices that exist",
		Edits: []Edit{{"pkg/controllers/endpointslice/plan_packing.go",
			"		if !m.all[i].placed {", "		if !m.all[i].placed && len(existing) == 0 {"}},
		Script: withoutElection + `
			at 1s   service web
			at 10s  bare web replicas=2 image=good:1`,
		Oracle: "S15",
	},
	{
		Name:  "pods get into EndpointSlices twice",
		Edits: []Edit{{"pkg/controllers/endpointslice/plan_packing.go", "		m.placed = true\n		kept++", "		kept++"}},
		Script: withoutElection + `
			at 1s   service web
			at 1s   bare web replicas=2 image=good:1
			at 20s  bare web replicas=3`,
		Oracle: "S15",
	},
	{
		Name: "EndpointSlices of others are taken for left over",
		Edits: []Edit{{"pkg/controllers/endpointslice/plan.go", "o.Labels[discoveryv1.LabelManagedBy] == managedBy",
			`o.Labels[discoveryv1.LabelManagedBy] != ""`}},
		Script: withoutElection + `
			at 1s   service web
			at 1s   bare web replicas=2 image=good:1
			at 10s  slices web do=add
			at 20s  bare web replicas=3`,
		Oracle: "S15",
	},
	{
		Name: "EndpointSlices that were deleted do not come back",
		Edits: []Edit{{"internal/network/endpoints/slices.go", "if key, ok := ServiceOfSlice(before); ok && w.manages(before) {",
			"if key, ok := ServiceOfSlice(before); ok && !w.manages(before) {"}},
		Script: withoutElection + `
			at 1s   service web
			at 1s   bare web replicas=2 image=good:1
			at 20s  slices web do=delete`,
		Oracle: "S15",
	},
}

// waitSlices waits until the slices of a Service have so many ready endpoints, and if they show no others, that is all.
func (u *User) waitSlices(name string, n int, others bool) {
	u.Helper()
	u.Wait(fmt.Sprintf("the slices of %s have %d endpoints", name, n), Patience, func() error {
		all, err := list[*discoveryv1.EndpointSlice](u, discoveryv1.LabelServiceName+"="+name)
		ready, endpoints := 0, 0
		for _, s := range all {
			endpoints += len(s.Endpoints)
			for _, e := range s.Endpoints {
				if ptr.Deref(e.Conditions.Ready, false) {
					ready++
				}
			}
		}
		if err == nil && (ready != n || len(all) == 0 || endpoints != n && !others) {
			err = fmt.Errorf("%d of %d endpoints in %d slices are ready", ready, endpoints, len(all))
		}
		return err
	})
}

// selectorless is a Service whose Endpoints somebody keeps by hand.
func selectorless(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}
