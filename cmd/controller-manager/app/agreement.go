package app

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options"
	"github.com/standalone-kcm/controller-manager/internal/agreement"
	"github.com/standalone-kcm/controller-manager/internal/metrics"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// agreementPath is where an observer shows how its plans compare with what is written.
const agreementPath = "/debug/agreement"

// compare has an observer compare what it plans with what is written. It returns nil for a manager that leads, or may.
func compare(c *options.Config, measured *metrics.Metrics) (*agreement.Comparison, error) {
	if !c.Manager.ReadOnly {
		return nil, nil
	}
	config := rest.CopyConfig(c.Client)
	config.QPS, config.Burst = 20, 20 // of an outage it asks about a thousand writes, one after the other
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for leases and events: %w", err)
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for metadata: %w", err)
	}
	lease := plan.Key{Namespace: cmp.Or(c.Manager.LeaderElection.Namespace, metav1.NamespaceSystem),
		Name: cmp.Or(c.Manager.LeaderElection.Name, "kube-controller-manager")} // of the manager that is observed
	compared := agreement.New(agreement.Options{
		Count: func(controller string, v agreement.Verdict, n int) {
			measured.Compared(controller, string(v), n)
		},
		Hindrance: agreement.HindranceOf(client, objects, lease),
	})
	others := c.Manager.Hooks
	c.Manager.Hooks = func(controller string) reconcile.Hooks {
		return compared.Hooks(controller, others(controller))
	}
	c.Manager.FollowCaches = compared.Follow
	return compared, nil
}
