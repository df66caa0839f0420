package suite

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// sliceManager is the controller's value of the label managed-by (EPS-6).
const sliceManager = "endpointslice-controller.k8s.io"

func endpointSliceEntry() Entry {
	return Entry{
		Controller: "endpointslice-controller",
		Operations: map[string]workload.Operation{
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
				u.waitSlices("sliced", n)
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
				u.waitSlices("sliced", 150)
				u.waitEndpoints("sliced", 150)
			},
		}},
	}
}

// editSlices does something to the slices of a service behind the controller's back.
func editSlices(u *workload.Users, l script.Line) error {
	do, _ := l.Get("do")
	if do == "add" {
		_, err := u.Server.Do(apiserver.Write{By: workload.By, Verb: apiserver.Create, Object: &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: workload.Namespace, GenerateName: l.Arg(0) + "-", Labels: map[string]string{
				discoveryv1.LabelServiceName: l.Arg(0), discoveryv1.LabelManagedBy: workload.By,
			}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.99.0.1"}}},
		}})
		return err
	}
	for _, s := range apiserver.All[*discoveryv1.EndpointSlice](u.Server) {
		if s.Labels[discoveryv1.LabelServiceName] != l.Arg(0) || s.Labels[discoveryv1.LabelManagedBy] != sliceManager {
			continue
		}
		if do == "delete" {
			return u.Remove("endpointslices", s.Name, l)
		}
		_, err := actors.Edit(u.Server, workload.By, workload.Namespace, s.Name, "", func(o *discoveryv1.EndpointSlice) { o.Endpoints = nil })
		return err
	}
	return nil
}

var endpointSliceMutants = []Mutant{
	{
		Name: "EndpointSlices give pods as ready that are not",
		Edits: []Edit{{"pkg/controllers/endpointslice/planpods.go",
			"m.service.Spec.PublishNotReadyAddresses || serving && p.DeletionTimestamp == nil", "m.service.Spec.PublishNotReadyAddresses || serving || p.DeletionTimestamp == nil"}},
		Script: withoutElection + `
			at 1s   service web
			at 1s   bare web replicas=2 image=bad:1`,
		Oracle: "S15",
	},
	{
		Name: "an EndpointSlice does not look at readiness again",
		Edits: []Edit{{"pkg/controllers/endpointslice/planpods.go",
			"!is(c.Ready, m.ready(p, serving)) || !is(c.Serving, serving) || !is(c.Terminating, p.DeletionTimestamp != nil)", "c.Ready == nil && serving"}},
		Script: withoutElection + `
			at 1s   service web
			at 1s   bare web replicas=3 image=slow:1`,
		Oracle: "S15",
	},
	{
		Name: "new pods do not get into EndpointSlices that exist",
		Edits: []Edit{{"pkg/controllers/endpointslice/planpacking.go",
			"		if !m.all[i].placed {", "		if !m.all[i].placed && len(existing) == 0 {"}},
		Script: withoutElection + `
			at 1s   service web
			at 10s  bare web replicas=2 image=good:1`,
		Oracle: "S15",
	},
	{
		Name:  "pods get into EndpointSlices twice",
		Edits: []Edit{{"pkg/controllers/endpointslice/planpacking.go", "		m.placed = true\n		kept++", "		kept++"}},
		Script: withoutElection + `
			at 1s   service web
			at 1s   bare web replicas=2 image=good:1
			at 20s  bare web replicas=3`,
		Oracle: "S15",
	},
	{
		Name:  "EndpointSlices of others are taken for left over",
		Edits: []Edit{{"pkg/controllers/endpointslice/plan.go", "o.Labels[discoveryv1.LabelManagedBy] == managedBy", `o.Labels[discoveryv1.LabelManagedBy] != ""`}},
		Script: withoutElection + `
			at 1s   service web
			at 1s   bare web replicas=2 image=good:1
			at 10s  slices web do=add
			at 20s  bare web replicas=3`,
		Oracle: "S15",
	},
	{
		Name:  "EndpointSlices that were deleted do not come back",
		Edits: []Edit{{"pkg/endpoints/slices.go", "if key, ok := ServiceOfSlice(before); ok && w.manages(before) {", "if key, ok := ServiceOfSlice(before); ok && !w.manages(before) {"}},
		Script: withoutElection + `
			at 1s   service web
			at 1s   bare web replicas=2 image=good:1
			at 20s  slices web do=delete`,
		Oracle: "S15",
	},
}

// waitSlices waits until the slices of a Service have so many ready endpoints, and no others.
func (u *User) waitSlices(name string, n int) {
	u.Helper()
	u.Wait(fmt.Sprintf("the slices of %s have %d endpoints", name, n), Patience, func() error {
		list, err := u.Client.DiscoveryV1().EndpointSlices(u.Namespace).List(ctx(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name})
		if err != nil {
			return err
		}
		ready, all := 0, 0
		for _, s := range list.Items {
			all += len(s.Endpoints)
			for _, e := range s.Endpoints {
				if ptr.Deref(e.Conditions.Ready, false) {
					ready++
				}
			}
		}
		if ready != n || all != n || len(list.Items) == 0 {
			return fmt.Errorf("%d of %d endpoints in %d slices are ready", ready, all, len(list.Items))
		}
		return nil
	})
}

// selectorless is a Service whose Endpoints somebody keeps by hand.
func selectorless(namespace, name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}
