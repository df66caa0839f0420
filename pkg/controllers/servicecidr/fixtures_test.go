package servicecidr

import (
	"errors"
	"fmt"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const finalizer = "networking.k8s.io/service-cidr-finalizer"

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

type edit = func(*networkingv1.ServiceCIDR)

// newCIDR is one that has just been created, "extra" by name.
func newCIDR(ranges []string, edits ...edit) *networkingv1.ServiceCIDR {
	c := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "extra", UID: "uid-extra", ResourceVersion: "5"},
		Spec: networkingv1.ServiceCIDRSpec{CIDRs: ranges}}
	for _, edit := range edits {
		edit(c)
	}
	return c
}

// other is one that protects its addresses, too.
func other(name string, ranges ...string) *networkingv1.ServiceCIDR {
	return newCIDR(ranges, protected, func(c *networkingv1.ServiceCIDR) { c.Name, c.UID = name, types.UID("uid-"+name) })
}

func protected(c *networkingv1.ServiceCIDR) { c.Finalizers = append(c.Finalizers, finalizer) }

func deletedAt(at time.Time) edit {
	return func(c *networkingv1.ServiceCIDR) { c.DeletionTimestamp = &metav1.Time{Time: at} }
}

func doomed(c *networkingv1.ServiceCIDR) { deletedAt(epoch.Add(-time.Minute))(c) }

func condition(status, reason, message string) edit {
	return func(c *networkingv1.ServiceCIDR) {
		c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionStatus(status), Reason: reason, Message: message,
			LastTransitionTime: metav1.NewTime(epoch.Add(-time.Hour))}}
	}
}

var (
	ready       = condition("True", "", "Kubernetes Service CIDR is ready")
	terminating = condition("False", "Terminating",
		"There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR")
)

// newAddress is one that an API server has allocated to a Service.
func newAddress(ip string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: ip, UID: types.UID("uid-" + ip), ResourceVersion: "7",
		Labels: map[string]string{"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "shop", Name: "web"}}}
}

// foreign is an address that somebody else has made.
func foreign(ip string) *networkingv1.IPAddress {
	a := newAddress(ip)
	a.Labels = map[string]string{"ipaddress.kubernetes.io/managed-by": "example.com"}
	return a
}

func addresses(ips ...string) (objects []plan.Object) {
	for _, ip := range ips {
		objects = append(objects, newAddress(ip))
	}
	return objects
}

// cachesWith returns caches with these objects, while the controller works.
func cachesWith(t interface{ Fatal(...any) }, objects ...plan.Object) *caches {
	f := informers.NewFactory(fake.NewClientset(), 0)
	ranges, err1 := informers.IndexedObjects(f, "being deleted", beingDeleted)
	all, err2 := informers.Objects[*networkingv1.IPAddress](f)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		store := ranges.Informer()
		if isAddress(o) {
			store = all.Informer()
		}
		if err := store.GetIndexer().Add(o); err != nil {
			t.Fatal(err)
		}
	}
	return newCaches(ranges, all)
}

// many returns so many addresses of 10.32.0.0/11.
func many(n int) []plan.Object {
	ips := make([]string, n)
	for i := range ips {
		ips[i] = fmt.Sprintf("10.%d.%d.%d", 32+i>>16, i>>8&255, i&255)
	}
	return addresses(ips...)
}
