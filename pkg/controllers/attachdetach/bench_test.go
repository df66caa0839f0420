package attachdetach

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkPlanNode plans for a node with volumes, half of which no pod needs.
func BenchmarkPlanNode(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := nodeSnapshot{Name: "n", Node: aNode(), Memory: nodeMemory{UID: "n1"}}
			for i := range n {
				v := on(fmt.Sprint("disk-", i))
				s.Node.Status.VolumesAttached = append(s.Node.Status.VolumesAttached,
					corev1.AttachedVolume{Name: corev1.UniqueVolumeName(v.Name)})
				if i%2 == 0 {
					v.Pod = "shop/web"
				}
				s.Volumes = append(s.Volumes, v)
			}
			for b.Loop() {
				if _, p := planNode(epoch, s); len(p.Steps) != 1 {
					b.Fatal(p)
				}
			}
		})
	}
}

// BenchmarkPlanVolume plans for a volume that many nodes need, half of which have it.
func BenchmarkPlanVolume(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := volumeSnapshot{Volume: shared}
			for i := range n {
				node := fmt.Sprint("n", i)
				s.Users = append(s.Users, at(node, "web"))
				if i%2 == 0 {
					s.Attachments = append(s.Attachments, anAttachment("a", node))
				}
			}
			for b.Loop() {
				if _, p := planVolume(epoch, s); len(creations(p)) != n/2 {
					b.Fatal(len(p.Steps))
				}
			}
		})
	}
}

// BenchmarkPodChanges looks at pods that change, as every change of any pod in the cluster is looked at.
func BenchmarkPodChanges(b *testing.B) {
	volumes, nodes := &volumeController{&views{}}, &nodeController{&views{}}
	p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}
	for b.Loop() {
		if len(volumes.volumesByPod(p, p))+len(nodes.nodesByPod(p, p)) > 0 {
			b.Fatal("it enqueues")
		}
	}
}
