package app

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1alpha1 "k8s.io/component-base/config/v1alpha1"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// configzName is the key of the configuration in /configz (MH-10).
const configzName = "kubecontrollermanager.config.k8s.io"

// configzGeneric is the section of /configz about all controllers, with the names of fields that the original
// has.
type configzGeneric struct {
	MinResyncPeriod         metav1.Duration
	ClientConnection        configv1alpha1.ClientConnectionConfiguration
	ControllerStartInterval metav1.Duration
	LeaderElection          configv1alpha1.LeaderElectionConfiguration
	Controllers             []string
	Debugging               configv1alpha1.DebuggingConfiguration
}

// configz returns what /configz shows: the part of a KubeControllerManagerConfiguration that this build obeys, with
// the names that it has there, by which tools read it (MH-10). Each controller adds its section.
func configz(c options.Config, registry []manager.Controller) map[string]any {
	type shared struct {
		UseServiceAccountCredentials, AllocateNodeCIDRs bool
		ClusterCIDR, CIDRAllocatorType                  string
	}
	z := map[string]any{
		"kind": "KubeControllerManagerConfiguration", "apiVersion": configzName + "/v1alpha1",
		"Generic": configzOfGeneric(c),
		"KubeCloudShared": shared{c.Manager.ServiceAccounts, c.Flags["allocate-node-cidrs"] == "true",
			c.Flags["cluster-cidr"], c.Flags["cidr-allocator-type"]},
		"ServiceController": struct{ ConcurrentServiceSyncs int32 }{}, // which is gone, and still shown
	}
	for _, entry := range registry {
		if entry.Flags == nil {
			continue
		}
		if section, fields := entry.Flags.Configz(); section != "" {
			z[section] = fields
		}
	}
	return z
}

// configzOfGeneric fills it from the configuration, in which some values stand for defaults.
func configzOfGeneric(c options.Config) configzGeneric {
	l := c.Manager.LeaderElection
	return configzGeneric{
		MinResyncPeriod: metav1.Duration{Duration: max(0, c.Manager.MinResyncPeriod)},
		ClientConnection: configv1alpha1.ClientConnectionConfiguration{
			Kubeconfig: c.Flags["kubeconfig"], ContentType: c.Manager.ContentType,
			QPS: c.Manager.QPS, Burst: int32(c.Manager.Burst),
		},
		ControllerStartInterval: metav1.Duration{Duration: c.Manager.StartInterval},
		LeaderElection: configv1alpha1.LeaderElectionConfiguration{
			LeaderElect:       &c.Manager.LeaderElect,
			LeaseDuration:     metav1.Duration{Duration: l.LeaseDuration},
			RenewDeadline:     metav1.Duration{Duration: l.RenewDeadline},
			RetryPeriod:       metav1.Duration{Duration: l.RetryPeriod},
			ResourceLock:      l.ResourceLock,
			ResourceName:      l.Name,
			ResourceNamespace: l.Namespace,
		},
		Controllers: c.Selection.Items,
		Debugging: configv1alpha1.DebuggingConfiguration{
			EnableProfiling: &c.Serving.Profiling, EnableContentionProfiling: &c.Serving.ContentionProfiling,
		},
	}
}
