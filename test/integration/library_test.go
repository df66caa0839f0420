package integration

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// A program that embeds the manager, on a real control plane: a Deployment becomes available.
func TestAnEmbeddedManager(t *testing.T) {
	c := cluster.Start(t)
	namespace := c.Namespace(t)
	began := time.Now()
	managertest.Start(t, c.RESTConfig, controllers.Named("deployment", "replicaset")...)
	running := time.Now()
	deployments := c.Client.AppsV1().Deployments(namespace)
	if _, err := deployments.Create(t.Context(), deployment("web", 3), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, patience, "the Deployment is available", func() error {
		d, err := deployments.Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil || d.Status.AvailableReplicas != 3 {
			return fmt.Errorf("%d of 3 are available, %v", d.Status.AvailableReplicas, err)
		}
		return nil
	})
	t.Logf("running after %v, available after %v", running.Sub(began), time.Since(began))
}
