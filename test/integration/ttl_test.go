package integration

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

const nodeTTL = "node.alpha.kubernetes.io/ttl"

// waitNodeTTL waits until a node, or each node if the name is empty, has the value.
func (b *bench) waitNodeTTL(name, want string) {
	b.Helper()
	b.wait(fmt.Sprintf("nodes have the annotation %q", want), func() error {
		list, err := b.Client.CoreV1().Nodes().List(b.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, n := range list.Items {
			if got := n.Annotations[nodeTTL]; got != want && (name == "" || n.Name == name) {
				return fmt.Errorf("%s has %q", n.Name, got)
			}
		}
		return nil
	})
}

// removeNode deletes a node that nobody plays.
func (b *bench) removeNode(name string) {
	b.Helper()
	if err := b.Client.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		b.Error(err)
	}
}

func (b *bench) patchNode(name, document string) {
	b.Helper()
	_, err := b.Client.CoreV1().Nodes().Patch(b.Context(), name, types.MergePatchType, []byte(document), metav1.PatchOptions{})
	if err != nil {
		b.Fatal(err)
	}
}

// TestNodesAreAnnotated: a new node gets the annotation, and edits are undone (TTL-1, TTL-10, TTL-12).
func TestNodesAreAnnotated(t *testing.T) {
	b := share(t)
	name := b.ns + "-ttl"
	b.node(name)
	t.Cleanup(func() { b.removeNode(name) })
	b.waitNodeTTL(name, "0")
	for _, value := range []string{`"7"`, `"x"`, `null`} {
		b.patchNode(name, `{"metadata":{"annotations":{"`+nodeTTL+`":`+value+`,"team":"a"}}}`)
		b.waitNodeTTL(name, "0")
	}
	n, err := b.Client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || n.Annotations["team"] != "a" {
		t.Errorf("other annotations are not as they were: %v, %v", n.Annotations, err)
	}
}

// TestNodesFollowTheSizeOfTheCluster: when there are more than 100 nodes, and when there are fewer than 90, all of them follow
// (TTL-3, TTL-4, TTL-8, TTL-16). A new process has no other opinion of what is in between (TTL-15).
func TestNodesFollowTheSizeOfTheCluster(t *testing.T) {
	c := cluster.Start(t)
	b := &bench{t, c, c.Namespace(t)}
	m := c.Manager(t, "--controllers=ttl")
	list, err := c.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var made []string
	t.Cleanup(func() {
		for _, name := range made {
			b.removeNode(name)
		}
	})
	add := func(upTo int) {
		for i := len(made); len(list.Items)+len(made) < upTo; i++ {
			name := fmt.Sprintf("%s-ttl-%d", b.ns, i)
			b.node(name)
			made = append(made, name)
		}
	}
	remove := func(downTo int) {
		for len(list.Items)+len(made) > downTo {
			b.removeNode(made[len(made)-1])
			made = made[:len(made)-1]
		}
	}
	add(100)
	b.waitNodeTTL("", "0")
	add(101)
	b.waitNodeTTL("", "15")
	remove(90)
	m.Stop(t)
	name := b.ns + "-last"
	b.node(name)
	made = append(made, name)
	c.Manager(t, "--controllers=ttl")
	b.waitNodeTTL("", "15")
	remove(89)
	b.waitNodeTTL("", "0")
}
