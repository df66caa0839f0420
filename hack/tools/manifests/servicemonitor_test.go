// Package manifests has no code: its test checks manifests whose types no API server has by itself.
package manifests

import (
	"os"
	"path/filepath"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// TestServiceMonitor: the Prometheus operator knows every field, and finds the Service of the component beside it.
func TestServiceMonitor(t *testing.T) {
	components := filepath.Join("..", "..", "..", "deploy", "kustomize", "components")
	m := &monitoringv1.ServiceMonitor{}
	decode(t, filepath.Join(components, "servicemonitor", "servicemonitor.yaml"), m)
	var service struct {
		Metadata struct {
			Namespace string            `json:"namespace"`
			Labels    map[string]string `json:"labels"`
		} `json:"metadata"`
		Spec struct {
			Ports []struct {
				Name string `json:"name"`
			} `json:"ports"`
		} `json:"spec"`
	}
	data, err := os.ReadFile(filepath.Join(components, "service", "service.yaml"))
	if err == nil {
		err = yaml.Unmarshal(data, &service)
	}
	if err != nil {
		t.Fatal(err)
	}
	if m.APIVersion != "monitoring.coreos.com/v1" || m.Kind != monitoringv1.ServiceMonitorsKind {
		t.Errorf("it is a %s of %s", m.Kind, m.APIVersion)
	}
	for key, value := range m.Spec.Selector.MatchLabels {
		if service.Metadata.Labels[key] != value {
			t.Errorf("the Service has not the label %s=%s", key, value)
		}
	}
	if service.Metadata.Labels[m.Spec.JobLabel] != "kube-controller-manager" {
		t.Errorf("MH-39: the job is %q", service.Metadata.Labels[m.Spec.JobLabel])
	}
	if len(m.Spec.Endpoints) != 1 || m.Spec.Endpoints[0].Port != service.Spec.Ports[0].Name || m.Spec.NamespaceSelector.MatchNames[0] != service.Metadata.Namespace {
		t.Errorf("it scrapes %+v in %v", m.Spec.Endpoints, m.Spec.NamespaceSelector)
	}
}

func decode(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = yaml.UnmarshalStrict(data, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}
