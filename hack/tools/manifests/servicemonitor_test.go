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
	components := filepath.Join(deploy, "kustomize", "components")
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
	decodeSome(t, filepath.Join(components, "service", "service.yaml"), &service)
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
	if len(m.Spec.Endpoints) != 1 || m.Spec.Endpoints[0].Port != service.Spec.Ports[0].Name ||
		m.Spec.NamespaceSelector.MatchNames[0] != service.Metadata.Namespace {
		t.Errorf("it scrapes %+v in %v", m.Spec.Endpoints, m.Spec.NamespaceSelector)
	}
}

// decode reads a file all of whose fields the type has.
func decode(t *testing.T, path string, into any) {
	t.Helper()
	decodeWith(t, path, func(data []byte) error { return yaml.UnmarshalStrict(data, into) })
}

// decodeSome reads some fields of a file.
func decodeSome(t *testing.T, path string, into any) {
	t.Helper()
	decodeWith(t, path, func(data []byte) error { return yaml.Unmarshal(data, into) })
}

func decodeWith(t *testing.T, path string, unmarshal func([]byte) error) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = unmarshal(data)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
