package suite

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still write them

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// mirrorManager is the controller's value of the label managed-by (EPS-6).
const mirrorManager = "endpointslicemirroring-controller.k8s.io"

func endpointSliceMirroringEntry() Entry {
	return Entry{
		Controller: "endpointslice-mirroring-controller",
		Needs:      []string{"endpoints-controller", "endpointslice-controller"},
		Operations: map[string]Operation{
			"mirrored": mirrored, // NAME n=: a Service without selector and Endpoints by hand; skip=true; selects=true; delete=true
		},
		Begin: func(g *workload.Generator, app string) {
			if g.IntN(4) == 0 {
				g.Add(g.Early(), "mirrored hand-%s n=%d", app, g.IntN(4))
			}
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, _ time.Duration) {
			g.Add(at, "mirrored hand-%s n=%d%s", app, g.IntN(5), workload.Pick(g, "", "", " skip=true", " selects=true", " delete=true"))
		}}},
		Settled: settledMirrors,
		Scenarios: []Scenario{{Name: "Endpoints by hand", Play: func(u *User) {
			u.Create(selectorless("hand"))
			u.Create(manualEndpoints("hand", 2))
			for _, n := range []int{3, 1, 2} {
				u.Try("update Endpoints", func() error { return setAddresses(u, "hand", n) })
				u.waitSlices("hand", n, true)
			}
		}}},
		Malformed: map[string]string{
			"services/endpoints/absurd": `{"apiVersion":"v1","kind":"Endpoints","metadata":${META},
				"subsets":[{"addresses":[{"ip":"x"},{"ip":""},{"ip":"10.0.0.1","targetRef":{}}],"ports":[{},{"port":-1,"protocol":"X"}]},{"notReadyAddresses":[{}]}]}`,
		},
		Mutants: endpointSliceMirroringMutants,
		Budgets: []Budget{{
			Name: "mirror 50 Endpoints, and their change", Floor: floor.Writes{Other: 100},
			Do: func(u *User) {
				u.Each(50, func(i int) error {
					name := fmt.Sprint("hand-", i)
					return errors.Join(create(u, selectorless(name)), create(u, manualEndpoints(name, 2)))
				})
				for i := range 50 {
					u.waitSlices(fmt.Sprint("hand-", i), 2, true)
				}
				u.Each(50, func(i int) error { return setAddresses(u, fmt.Sprint("hand-", i), 3) })
				for i := range 50 {
					u.waitSlices(fmt.Sprint("hand-", i), 3, true)
				}
			},
		}},
	}
}

// manualEndpoints are Endpoints with so many ready addresses, one that is not ready, and, if there are three or more, one of the other
// family.
func manualEndpoints(name string, n int) *corev1.Endpoints {
	subset := corev1.EndpointSubset{
		Ports:             []corev1.EndpointPort{{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP}},
		NotReadyAddresses: []corev1.EndpointAddress{{IP: "10.98.1.1"}},
	}
	for i := range n {
		ip := fmt.Sprint("10.98.0.", i+1)
		if i == 3 {
			ip = "fd00::98"
		}
		subset.Addresses = append(subset.Addresses, corev1.EndpointAddress{IP: ip})
	}
	return &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: name}, Subsets: []corev1.EndpointSubset{subset}}
}

// setAddresses gives Endpoints so many addresses.
func setAddresses(u *User, name string, n int) error {
	return edit(u, name, func(e *corev1.Endpoints) { e.Subsets = manualEndpoints(name, n).Subsets })
}

// mirrored makes, changes or deletes a Service without selector and its Endpoints.
func mirrored(u *User, l script.Line) error {
	name := l.Arg(0)
	if says(l, "delete") {
		return removeAsToldBy[*corev1.Service](u, name, l)
	}
	n, _ := l.Int("n")
	_, skip := l.Get("skip")
	_, selects := l.Get("selects")
	err := edit(u, name, func(s *corev1.Service) {
		s.Spec.Selector = nil
		if selects {
			s.Spec.Selector = labelsOf(name)
		}
	})
	if apierrors.IsNotFound(err) {
		err = create(u, selectorless(name))
	}
	if err != nil || selects {
		return err
	}
	after := manualEndpoints(name, n)
	if skip {
		after.Labels = map[string]string{discoveryv1.LabelSkipMirror: "true"}
	}
	return apply(u, after.DeepCopy(), func(e *corev1.Endpoints) { e.Subsets, e.Labels = after.Subsets, after.Labels })
}

// settledMirrors checks that slices show all addresses of the Endpoints that are to be mirrored, and no others (ESM-4, ESM-9,
// ESM-14).
func settledMirrors(server *View) (wrong []string) {
	want := map[string]bool{}
	for _, s := range all[*corev1.Service](server) {
		e := one[*corev1.Endpoints](server, s.Namespace, s.Name)
		if s.Spec.Selector != nil || e == nil || e.Labels[discoveryv1.LabelSkipMirror] == "true" {
			continue
		}
		for _, subset := range e.Subsets {
			for _, a := range subset.Addresses {
				want[place(s.Name, a.IP, true)] = true
			}
			for _, a := range subset.NotReadyAddresses {
				want[place(s.Name, a.IP, false)] = true
			}
		}
	}
	has := map[string]bool{}
	for _, s := range subjects[*discoveryv1.EndpointSlice](server) {
		if s.Labels[discoveryv1.LabelManagedBy] != mirrorManager || s.DeletionTimestamp != nil {
			continue
		}
		for _, e := range s.Endpoints {
			has[place(s.Labels[discoveryv1.LabelServiceName], strings.Join(e.Addresses, ","), ptr.Deref(e.Conditions.Ready, false))] = true
		}
	}
	if !maps.Equal(want, has) {
		wrong = append(wrong, fmt.Sprintf("mirrored are %v, want %v", has, want))
	}
	return wrong
}

func place(service, ip string, ready bool) string { return fmt.Sprint(service, " ", ip, " ", ready) }

var endpointSliceMirroringMutants = []Mutant{
	{
		Name:   "addresses that are not ready are mirrored as ready",
		Edits:  []Edit{{"pkg/controllers/endpointslicemirroring/plan.go", "			add(a, false)", "			add(a, true)"}},
		Script: withoutElection + "\n\t\t\tat 1s   mirrored hand n=2",
		Oracle: SettledOracle,
	},
	{
		Name: "the label that forbids to mirror is ignored",
		Edits: []Edit{{"pkg/controllers/endpointslicemirroring/plan.go",
			`o.GetLabels()[discoveryv1.LabelSkipMirror] != "true"`, `o.GetLabels()[discoveryv1.LabelSkipMirror] != "never"`}},
		Script: withoutElection + "\n\t\t\tat 1s   mirrored hand n=2 skip=true",
		Oracle: SettledOracle,
	},
	{
		Name: "mirrors stay when the Service gets a selector",
		Edits: []Edit{{"pkg/controllers/endpointslicemirroring/plan.go",
			"	case s.Service.Spec.Selector != nil:", "	case len(s.Service.Spec.Selector) > 9:"}},
		Script: withoutElection + "\n\t\t\tat 1s   mirrored hand n=2\n\t\t\tat 20s  mirrored hand n=2 selects=true",
		Oracle: SettledOracle,
	},
	{
		Name: "addresses that are gone stay mirrored",
		Edits: []Edit{{"pkg/controllers/endpointslicemirroring/plan.go",
			"changed = len(list) != len(has) || len(list) != len(want)", "changed = len(list) != len(want)"}},
		Script: withoutElection + "\n\t\t\tat 1s   mirrored hand n=3\n\t\t\tat 20s  mirrored hand n=1",
		Oracle: SettledOracle,
	},
	{
		Name: "addresses of the second family are not mirrored",
		Edits: []Edit{{"pkg/controllers/endpointslicemirroring/plan.go",
			"{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6,\n\t\tdiscoveryv1.AddressTypeFQDN}",
			"{discoveryv1.AddressTypeIPv4}"}},
		Script: withoutElection + "\n\t\t\tat 1s   mirrored hand n=4",
		Oracle: SettledOracle,
	},
}
