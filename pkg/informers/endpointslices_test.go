package informers

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// Slices are found by the service that they name, in its namespace.
func TestEndpointSlicesOfService(t *testing.T) {
	c := must(EndpointSlices(NewFactory(fake.NewClientset(), 0)))
	for name, service := range map[string]string{"shop/a": "web", "shop/b": "web", "shop/c": "other", "shop/d": "", "bank/e": "web"} {
		s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: name[:4], Name: name[5:]}}
		if service != "" {
			s.Labels = map[string]string{discoveryv1.LabelServiceName: service}
		}
		if err := c.Informer().GetIndexer().Add(s); err != nil {
			t.Fatal(err)
		}
	}
	if a, b, c := len(c.Of("shop", "web")), len(c.Of("shop", "other")), len(c.Of("shop", "")); a != 2 || b != 1 || c != 0 {
		t.Error(a, b, c)
	}
}
