package nodes

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestReady(t *testing.T) {
	for status, want := range map[corev1.ConditionStatus]bool{"True": true, "False": false, "Unknown": false} {
		n := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: "DiskPressure", Status: "True"}, {Type: "Ready", Status: status},
		}}}
		if got := Ready(n); got != want {
			t.Errorf("ready is %s: %v", status, got)
		}
	}
	if Ready(&corev1.Node{}) {
		t.Error("a node that says nothing is ready")
	}
}

func TestReadyChanged(t *testing.T) {
	made, changed := metav1.Unix(1, 0), metav1.Unix(2, 0)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: made}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: "DiskPressure", LastTransitionTime: metav1.Unix(3, 0)}}
	if got := ReadyChanged(n); !got.Equal(made.Time) {
		t.Errorf("without a condition: %s", got)
	}
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "Ready", LastTransitionTime: changed})
	if got := ReadyChanged(n); !got.Equal(changed.Time) {
		t.Errorf("%s, want %s", got, changed.UTC().Format(time.TimeOnly))
	}
}
