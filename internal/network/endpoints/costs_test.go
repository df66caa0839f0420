package endpoints

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/costs"
	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
)

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still use them

// subsetOf returns a subset of addresses and ports that begin with these numbers.
func subsetOf(addresses, ports, n int) (s corev1.EndpointSubset) {
	for i := range n {
		s.Addresses = append(s.Addresses, corev1.EndpointAddress{IP: fmt.Sprintf("10.0.%d.%d", (addresses+i)>>8, (addresses+i)&255)})
		s.Ports = append(s.Ports, corev1.EndpointPort{Name: fmt.Sprint("p", ports+i), Port: int32(1 + ports + i)})
	}
	return s
}

// What Endpoints cost is linear in their size, and not in the number of addresses times that of their ports.
func TestCostsOfEndpoints(t *testing.T) {
	const n = 5000
	for name, c := range map[string]struct {
		subsets []corev1.EndpointSubset
		packed  int
	}{
		"one subset":                             {[]corev1.EndpointSubset{subsetOf(0, 0, n)}, 1},
		"two subsets":                            {[]corev1.EndpointSubset{subsetOf(0, 0, n), subsetOf(n, n, n)}, 2},
		"two subsets that have a port in common": {[]corev1.EndpointSubset{subsetOf(0, 0, n), subsetOf(n, n-1, n)}, 2},
		"two subsets with the same addresses":    {[]corev1.EndpointSubset{subsetOf(0, 0, n), subsetOf(0, n, n)}, 1},
	} {
		subsets := c.subsets
		var packed []corev1.EndpointSubset
		if took := costs.CPU(func() { packed = Pack(Unpack(subsets)) }); costs.Exceeds(took, 200*time.Millisecond) {
			t.Errorf("%s: packed in %s", name, took)
		}
		if len(packed) != c.packed {
			t.Errorf("%s: packed into %d", name, len(packed))
		}
		if took := costs.CPU(func() {
			if !SameSubsets(subsets, packed) {
				t.Errorf("%s: not the same", name)
			}
		}); costs.Exceeds(took, 200*time.Millisecond) {
			t.Errorf("%s: compared in %s", name, took)
		}
	}
}

// Entries whose lists of ports have none in common are grouped as if each port were looked at.
func TestListsThatAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var entries []*Entry
		for range rapid.IntRange(0, 8).Draw(t, "entries") {
			e := &Entry{Address: corev1.EndpointAddress{IP: fmt.Sprint("10.0.0.", rapid.IntRange(1, 4).Draw(t, "ip"))},
				Ready: rapid.Bool().Draw(t, "ready")}
			first := rapid.IntRange(0, 3).Draw(t, "list") * 10
			for p := range rapid.IntRange(0, 2).Draw(t, "ports") {
				e.Ports = append(e.Ports, Port{Name: "p", Number: int32(first + p)})
			}
			entries = append(entries, e)
		}
		slices.SortStableFunc(entries, CompareEntries)
		if lists, apart, _ := listed(entries); apart {
			if got, want := groupedByLists(lists).Subsets(), groupedByEachPort(entries).Subsets(); !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v, want %+v", got, want)
			}
		}
	})
}

// The ports of a Service that names them are found in pods with many ports.
func TestCostsOfNamedPorts(t *testing.T) {
	const n = 10_000
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}}
	var ports []corev1.ServicePort
	for i := range n {
		name := fmt.Sprint("p", i)
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{Name: name, ContainerPort: int32(1 + i)})
		ports = append(ports, corev1.ServicePort{Name: name, TargetPort: intstr.FromString(name)})
	}
	if took := costs.CPU(func() {
		numbers := NumbersOf(p, n)
		for i := range ports {
			if got := numbers.Of(&ports[i]); got != int32(1+i) {
				t.Fatalf("%s: %d", ports[i].Name, got)
			}
		}
	}); costs.Exceeds(took, 100*time.Millisecond) {
		t.Errorf("found in %s", took)
	}
}

// A port is found in the same way whether few or many are asked for.
func TestManyPortsAreFoundLikeFew(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	port := func(name string, number int32) corev1.ContainerPort {
		return corev1.ContainerPort{Name: name, ContainerPort: number}
	}
	p := &corev1.Pod{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Ports: []corev1.ContainerPort{port("a", 1), port("zero", 0), port("zero", 2)}},
			{Ports: []corev1.ContainerPort{port("a", 3), port("b", 4)}}},
		InitContainers: []corev1.Container{
			{Ports: []corev1.ContainerPort{port("init", 5)}},
			{RestartPolicy: &always, Ports: []corev1.ContainerPort{port("a", 6), port("zero", 7), port("side", 8), port("side", 9)}},
		},
	}}
	few, many := NumbersOf(p, 1), NumbersOf(p, 100)
	for name, want := range map[string]int32{"a": 1, "b": 4, "zero": 7, "side": 8, "init": 0, "none": 0} {
		sp := &corev1.ServicePort{TargetPort: intstr.FromString(name)}
		if few.Of(sp) != want || many.Of(sp) != want {
			t.Errorf("%s: %d and %d, want %d", name, few.Of(sp), many.Of(sp), want)
		}
	}
}
