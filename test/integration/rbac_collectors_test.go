package integration

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// workOfGarbage has an owner deleted in the foreground, and an owner in another namespace told of twice.
func (b *bench) workOfGarbage() {
	b.Helper()
	home, elsewhere := newFamily(b.T, b.Cluster), newFamily(b.T, b.Cluster)
	home.make("dependent", home.make("owner"))
	home.delete("owner", metav1.DeletePropagationForeground)
	home.waitFor()
	near, far := home.make("near"), elsewhere.make("far")
	stray := home.make("stray", near, far)
	document, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": stray.OwnerReferences}})
	if err != nil {
		b.Fatal(err)
	}
	for range 2 {
		b.wait("the owner in another namespace is removed", func() error {
			if refs := home.get("stray").OwnerReferences; len(refs) != 1 {
				return fmt.Errorf("%+v", refs)
			}
			return nil
		})
		home.patch("stray", string(document))
	}
	b.wait("it is told and counted", func() error {
		list, err := b.Client.CoreV1().Events(home.ns).List(b.Context(),
			metav1.ListOptions{FieldSelector: "reason=OwnerRefInvalidNamespace"})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(list.Items, func(e corev1.Event) bool { return e.Count > 1 }) {
			return fmt.Errorf("%d events", len(list.Items))
		}
		return nil
	})
}

// workOfNamespaces has a namespace deleted in which something is held for a while.
func (b *bench) workOfNamespaces() {
	b.Helper()
	n := newTenant(b.T, b.Cluster)
	n.configMap("held", "example.com/hold")
	n.delete()
	n.waitSays(corev1.NamespaceFinalizersRemaining, "example.com/hold in 1 resource instances")
	n.release("configmaps", "held")
	n.waitGone()
}
