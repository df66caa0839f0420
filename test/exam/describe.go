package exam

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Describe returns what an object says of itself, as "kubectl describe" shows it: its conditions, and the events about it.
func (p *Place) Describe(ctx context.Context, object string) (text string, asked Object, err error) {
	found, err := p.find(ctx, object)
	if err != nil {
		return "", asked, err
	}
	if len(found) == 0 {
		return "", asked, fmt.Errorf("there is no %s", object)
	}
	u := found[0]
	var b strings.Builder
	conditions, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
	if err != nil {
		return "", asked, fmt.Errorf("read the conditions of %s: %w", object, err)
	}
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok {
			fmt.Fprintln(&b, c["type"], c["status"], c["reason"], c["message"])
		}
	}
	events, err := p.client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(u.GetUID())})
	if err != nil {
		return "", asked, fmt.Errorf("list the events about %s: %w", object, err)
	}
	for _, e := range events.Items {
		fmt.Fprintln(&b, e.Reason, e.Message)
	}
	return b.String(), Object{Kind: u.GetKind(), Name: u.GetName()}, nil
}
