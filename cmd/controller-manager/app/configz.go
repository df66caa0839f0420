package app

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1alpha1 "k8s.io/component-base/config/v1alpha1"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options"
)

// configzName is the key of the configuration in /configz (MH-10).
const configzName = "kubecontrollermanager.config.k8s.io"

// configzConfig is the part of a KubeControllerManagerConfiguration that this build obeys, with the names that it has in
// /configz, by which tools read it (MH-10).
type configzConfig struct {
	metav1.TypeMeta
	Generic         configzGeneric
	KubeCloudShared struct {
		UseServiceAccountCredentials bool
	}
	DeploymentController struct {
		ConcurrentDeploymentSyncs int32
	}
	EndpointController struct {
		ConcurrentEndpointSyncs    int32
		EndpointUpdatesBatchPeriod metav1.Duration
	}
	PodGCController struct {
		TerminatedPodGCThreshold int32
	}
	ReplicaSetController struct {
		ConcurrentRSSyncs int32
	}
}

type configzGeneric struct {
	MinResyncPeriod         metav1.Duration
	ClientConnection        configv1alpha1.ClientConnectionConfiguration
	ControllerStartInterval metav1.Duration
	LeaderElection          configv1alpha1.LeaderElectionConfiguration
	Controllers             []string
	Debugging               configv1alpha1.DebuggingConfiguration
}

// configz returns what /configz shows.
func configz(c options.Config) configzConfig {
	z := configzConfig{
		TypeMeta: metav1.TypeMeta{Kind: "KubeControllerManagerConfiguration", APIVersion: configzName + "/v1alpha1"},
		Generic:  configzOfGeneric(c),
	}
	z.KubeCloudShared.UseServiceAccountCredentials = c.UseServiceAccountCredentials
	z.DeploymentController.ConcurrentDeploymentSyncs = c.Deployment.Workers
	z.EndpointController.ConcurrentEndpointSyncs = c.Endpoints.Workers
	z.EndpointController.EndpointUpdatesBatchPeriod.Duration = c.Endpoints.BatchPeriod
	z.PodGCController.TerminatedPodGCThreshold = c.PodGC.TerminatedPodThreshold
	z.ReplicaSetController.ConcurrentRSSyncs = c.ReplicaSet.Workers
	return z
}

func configzOfGeneric(c options.Config) configzGeneric {
	l := c.LeaderElection
	return configzGeneric{
		MinResyncPeriod: metav1.Duration{Duration: c.MinResyncPeriod},
		ClientConnection: configv1alpha1.ClientConnectionConfiguration{
			Kubeconfig: c.Flags["kubeconfig"], ContentType: c.ContentType, QPS: c.QPS, Burst: int32(c.Burst),
		},
		ControllerStartInterval: metav1.Duration{Duration: c.ControllerStartInterval},
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
