package metricsapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// The Service through which the API server finds the server. It is one by an external name, because endpoints may not have
// addresses of the loopback interface.
const (
	serviceNamespace = "kube-system"
	serviceName      = "test-metrics"
	servicesPath     = "/api/v1/namespaces/" + serviceNamespace + "/services/"
	apiServicesPath  = "/apis/apiregistration.k8s.io/v1/apiservices/"
)

// versions are those that the server has, of each group the preferred one first.
func (s *Server) versions() []schema.GroupVersion {
	all := []schema.GroupVersion{{Group: ResourceGroup, Version: "v1beta1"}, {Group: ExternalGroup, Version: "v1beta1"}}
	for _, version := range s.options.CustomVersions {
		all = append(all, schema.GroupVersion{Group: CustomGroup, Version: version})
	}
	return all
}

// register tells the API server of the server. It takes over from one that was not closed.
func (s *Server) register(ctx context.Context) error {
	service := &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Namespace: serviceNamespace, Name: serviceName}}
	service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}
	if err := s.apply(ctx, servicesPath+serviceName, service); err != nil {
		return err
	}
	for i, version := range s.versions() {
		object := map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": apiService(version)},
			"spec": map[string]any{
				"group": version.Group, "version": version.Version, "groupPriorityMinimum": 100, "versionPriority": 100 - i, "caBundle": s.ca,
				"service": map[string]any{"namespace": serviceNamespace, "name": serviceName, "port": s.port},
			},
		}
		if err := s.apply(ctx, apiServicesPath+apiService(version), object); err != nil {
			return err
		}
	}
	for _, version := range s.versions() {
		if err := s.awaitPassed(ctx, version); err != nil {
			return err
		}
	}
	return nil
}

func apiService(version schema.GroupVersion) string { return version.Version + "." + version.Group }

func (s *Server) apply(ctx context.Context, path string, object any) error {
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return s.client.Patch(types.ApplyPatchType).AbsPath(path).Param("fieldManager", serviceName).Param("force", "true").Body(data).Do(ctx).Error()
}

// awaitPassed waits until the API server passes requests for a version on to the server, and says so in discovery.
func (s *Server) awaitPassed(ctx context.Context, version schema.GroupVersion) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := s.client.Get().AbsPath("/apis/" + version.String()).Do(ctx).Error()
		if err == nil {
			err = s.discovered(ctx, version)
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the API server does not pass requests for %s on: %w", version, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *Server) discovered(ctx context.Context, version schema.GroupVersion) error {
	data, err := s.client.Get().AbsPath("/apis/" + version.Group).Do(ctx).Raw()
	if err != nil {
		return err
	}
	var group metav1.APIGroup
	if err := json.Unmarshal(data, &group); err != nil {
		return err
	}
	for _, found := range group.Versions {
		if found.Version == version.Version {
			return nil
		}
	}
	return errors.New("discovery does not know it")
}

func (s *Server) unregister(ctx context.Context) error {
	var failed []error
	for _, version := range s.versions() {
		failed = append(failed, s.client.Delete().AbsPath(apiServicesPath+apiService(version)).Do(ctx).Error())
	}
	failed = append(failed, s.client.Delete().AbsPath(servicesPath+serviceName).Do(ctx).Error())
	for i, err := range failed {
		if apierrors.IsNotFound(err) {
			failed[i] = nil
		}
	}
	return errors.Join(failed...)
}
