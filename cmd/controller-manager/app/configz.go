package app

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1alpha1 "k8s.io/component-base/config/v1alpha1"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// configzName is the key of the configuration in /configz (MH-10).
const configzName = "kubecontrollermanager.config.k8s.io"

type configzGeneric struct {
	MinResyncPeriod         metav1.Duration
	ClientConnection        configv1alpha1.ClientConnectionConfiguration
	ControllerStartInterval metav1.Duration
	LeaderElection          configv1alpha1.LeaderElectionConfiguration
	Controllers             []string
	Debugging               configv1alpha1.DebuggingConfiguration
}

// configz returns what /configz shows: the part of a KubeControllerManagerConfiguration that this build obeys, with the names
// that it has there, by which tools read it (MH-10). Each controller adds its section.
func configz(c options.Config, registry []manager.Controller) map[string]any {
	type shared struct{ UseServiceAccountCredentials bool }
	z := map[string]any{
		"kind": "KubeControllerManagerConfiguration", "apiVersion": configzName + "/v1alpha1",
		"Generic":         configzOfGeneric(c),
		"KubeCloudShared": shared{c.ServiceAccounts},
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

func configzOfGeneric(c options.Config) configzGeneric {
	l := c.LeaderElection
	qps, burst := c.QPS, int32(c.Burst)
	if !c.RateLimited {
		qps, burst = -1, 0 // as clients know it: no limit
	}
	return configzGeneric{
		MinResyncPeriod: metav1.Duration{Duration: max(0, c.MinResyncPeriod)},
		ClientConnection: configv1alpha1.ClientConnectionConfiguration{
			Kubeconfig: c.Flags["kubeconfig"], ContentType: c.ContentType, QPS: qps, Burst: burst,
		},
		ControllerStartInterval: metav1.Duration{Duration: c.StartInterval},
		LeaderElection: configv1alpha1.LeaderElectionConfiguration{
			LeaderElect:       &c.LeaderElect,
			LeaseDuration:     metav1.Duration{Duration: l.LeaseDuration},
			RenewDeadline:     metav1.Duration{Duration: l.RenewDeadline},
			RetryPeriod:       metav1.Duration{Duration: l.RetryPeriod},
			ResourceLock:      l.ResourceLock,
			ResourceName:      l.Name,
			ResourceNamespace: l.Namespace,
		},
		Controllers: c.Controllers.Items,
		Debugging: configv1alpha1.DebuggingConfiguration{
			EnableProfiling: &c.Serving.Profiling, EnableContentionProfiling: &c.Serving.ContentionProfiling,
		},
	}
}
