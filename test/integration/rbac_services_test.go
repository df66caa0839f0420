package integration

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still use them

// workOfEndpointSlices has slices written, deleted and mirrored, some that quota refuses, and addresses left out, again and again.
func (b *bench) workOfEndpointSlices() {
	b.Helper()
	b.service("sliced")
	b.waitSlices("sliced", b.sliceOfWeb())
	b.Kubectl(b.T, "-n", b.ns, "patch", "service", "sliced", "--type=merge", "-p", `{"spec":{"selector":{"app":"nothing"}}}`)
	b.waitSlices("sliced", "IPv4")
	orphan := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4,
		ObjectMeta: metav1.ObjectMeta{Name: "orphan", Labels: map[string]string{
			discoveryv1.LabelServiceName: "sliced", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"}}}
	if _, err := b.Client.DiscoveryV1().EndpointSlices(b.ns).Create(b.Context(), orphan, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.waitSlices("sliced", "IPv4") // one of them: the other one is deleted
	b.service("hand", func(s *corev1.Service) { s.Spec.Selector = nil })
	e := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "hand"}, Subsets: []corev1.EndpointSubset{{
		Ports: []corev1.EndpointPort{{Port: 8080}}, Addresses: []corev1.EndpointAddress{{IP: "10.9.1.1"}, {IP: "10.9.1.2"}}}}}
	if _, err := b.Client.CoreV1().Endpoints(b.ns).Create(b.Context(), e, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.waitSlices("hand", "IPv4:8080 10.9.1.1")
	for _, port := range []string{"81", "82"} {
		b.Kubectl(b.T, "-n", b.ns, "patch", "endpoints", "hand", "--type=json", "-p",
			`[{"op":"replace","path":"/subsets/0/ports/0/port","value":`+port+`}]`)
		b.waitSlices("hand", "IPv4:"+port+" 10.9.1.1")
	}
	b.Kubectl(b.T, "-n", b.ns, "label", "endpoints", "hand", "endpointslice.kubernetes.io/skip-mirror=true")
	b.waitSlices("hand")
	poor := &bench{b.T, b.Cluster, b.Namespace(b.T)}
	poor.quotaOf("count/endpointslices.discovery.k8s.io", 0)
	poor.service("sliced")
	for _, told := range []struct {
		at     *bench
		reason string
	}{{poor, "FailedToUpdateEndpointSlices"}, {b, "TooManyAddressesToMirror"}} {
		told.at.wait(told.reason+" is told and counted", func() error {
			list, err := b.Client.CoreV1().Events(told.at.ns).List(b.Context(), metav1.ListOptions{FieldSelector: "reason=" + told.reason})
			if err != nil {
				return err
			}
			// The name that the server makes up is in the error, so that only the events that are combined are counted.
			if !slices.ContainsFunc(list.Items, func(e corev1.Event) bool { return e.Count > 1 }) {
				return fmt.Errorf("%d events", len(list.Items))
			}
			return nil
		})
	}
}

// sliceOfWeb is how the slice of a Service for the pods of web reads.
func (b *bench) sliceOfWeb() string {
	b.Helper()
	var all []string
	for _, a := range b.endpoints("web").Subsets[0].Addresses {
		all = append(all, a.IP)
	}
	slices.Sort(all)
	return "IPv4:8080 " + strings.Join(all, " ")
}

// workOfEndpoints has Endpoints written, and some that quota refuses, again and again.
func (b *bench) workOfEndpoints() {
	b.Helper()
	b.service("web")
	b.wait("the Service has Endpoints", func() error {
		if e := b.endpoints("web"); e == nil || len(e.Subsets) != 1 || len(e.Subsets[0].Addresses) != 2 {
			return fmt.Errorf("%+v", e)
		}
		return nil
	})
	b.patch("web", `{"spec":{"replicas":3}}`)
	b.wait("they are updated", func() error {
		if e := b.endpoints("web"); len(e.Subsets[0].Addresses) != 3 {
			return fmt.Errorf("%+v", e)
		}
		return nil
	})
	b.wait("those that were left over are gone", func() error {
		if b.endpoints("left") != nil {
			return fmt.Errorf("they are there")
		}
		return nil
	})
	poor := &bench{b.T, b.Cluster, b.Namespace(b.T)}
	poor.quotaOf("count/endpoints", 0)
	poor.service("web")
	poor.wait("the refusal is told and counted", func() error {
		list, err := b.Client.CoreV1().Events(poor.ns).List(b.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=web"})
		if err != nil {
			return err
		}
		// There may be events about other objects of that name. They come in the order of their names, which are times.
		if !slices.ContainsFunc(list.Items, func(e corev1.Event) bool { return e.Reason == "FailedToCreateEndpoint" && e.Count >= 2 }) {
			return fmt.Errorf("%d events: %+v", len(list.Items), list.Items)
		}
		return nil
	})
}

// quotaOf lets the namespace have so many of a resource.
func (b *bench) quotaOf(name corev1.ResourceName, n int64) {
	b.Helper()
	b.createQuota("few", corev1.ResourceList{name: *resource.NewQuantity(n, resource.DecimalSI)})
	b.wait("the quota limits", func() error {
		quota, err := b.Client.CoreV1().ResourceQuotas(b.ns).Get(b.Context(), "few", metav1.GetOptions{})
		if _, counted := quota.Status.Used[name]; err == nil && !counted {
			err = fmt.Errorf("%+v", quota.Status)
		}
		return err
	})
}
