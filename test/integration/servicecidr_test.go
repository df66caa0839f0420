package integration

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const rangeFinalizer = "networking.k8s.io/service-cidr-finalizer"

// A ServiceCIDR gets the finalizer and becomes ready, API servers allocate addresses from it, and it goes when the last Service that has
// one in it alone is gone.
func TestServiceCIDRsStayWhileTheyAreUsed(t *testing.T) { share(t).lifeOfAServiceCIDR() } // SCC-1, SCC-3 to SCC-6

func (b *bench) lifeOfAServiceCIDR() {
	b.Helper()
	ranges, name := b.Client.NetworkingV1().ServiceCIDRs(), "range-"+b.ns
	if _, err := ranges.Create(b.Context(), &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"100.127.0.8/30"}}}, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	is := func(what string, ready metav1.ConditionStatus) {
		b.Helper()
		b.wait("the ServiceCIDR is "+what, func() error {
			c, err := ranges.Get(b.Context(), name, metav1.GetOptions{})
			if err != nil || !slices.Contains(c.Finalizers, rangeFinalizer) ||
				!meta.IsStatusConditionPresentAndEqual(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady, ready) {
				return fmt.Errorf("%v: %v, %+v", err, c.Finalizers, c.Status.Conditions)
			}
			return nil
		})
	}
	is("ready", metav1.ConditionTrue)
	// All its addresses are taken, so that no Service of another test gets one and keeps the range.
	services, addresses := b.Client.CoreV1().Services(b.ns), map[string]string{"one": "100.127.0.9", "other": "100.127.0.10"}
	for service, ip := range addresses {
		b.wait("a Service has an address of the range", func() error {
			_, err := services.Create(b.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: service},
				Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
	}
	if err := ranges.Delete(b.Context(), name, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	is("kept by the address", metav1.ConditionFalse)
	for service := range addresses {
		if err := services.Delete(b.Context(), service, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	b.wait("the ServiceCIDR is gone", func() error {
		_, err := ranges.Get(b.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
}
