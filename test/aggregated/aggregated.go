// Package aggregated runs API servers of tests behind the API server of a control plane, which passes requests for their groups on to them.
package aggregated

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

const (
	serviceNamespace = "kube-system"
	servicesPath     = "/api/v1/namespaces/" + serviceNamespace + "/services/"
	apiServicesPath  = "/apis/apiregistration.k8s.io/v1/apiservices/"
)

// Server is a registered handler. Close ends it.
type Server struct {
	service  string // the name of the Service through which the API server finds it
	versions []schema.GroupVersion
	client   rest.Interface
	port     int
	ca       []byte
	stop     func() error
}

// Start serves HTTPS on a free port of the loopback interface, and registers the versions, of each group the preferred one first, with
// the API server of a configuration, which must have an administrator's rights. It takes over from a server of the name that was not
// closed. It returns when the API server passes requests on. Whoever they are from, it has authorized them.
func Start(ctx context.Context, config *rest.Config, name string, versions []schema.GroupVersion, handler http.Handler) (*Server, error) {
	inJSON := rest.CopyConfig(config)
	inJSON.ContentType = runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(inJSON)
	if err != nil {
		return nil, err
	}
	s := &Server{service: name, versions: versions, client: client.CoreV1().RESTClient()}
	if err := s.listen(handler); err != nil {
		return nil, err
	}
	if err := s.register(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) listen(handler http.Handler) error {
	certificate, key, err := cert.GenerateSelfSignedCertKey(s.service+"."+serviceNamespace+".svc", nil, nil)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.ca, s.port = certificate, l.Addr().(*net.TCPAddr).Port
	server := &http.Server{
		Handler: handler, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}},
	}
	var served sync.WaitGroup
	served.Go(func() { _ = server.ServeTLS(l, "", "") })
	s.stop = func() error {
		err := server.Close()
		served.Wait()
		return err
	}
	return nil
}

// Close takes the server's groups from the API server and ends it.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return errors.Join(s.unregister(ctx), s.stop())
}

// register tells the API server of the server. The Service is one by an external name, because endpoints may not have addresses of the
// loopback interface.
func (s *Server) register(ctx context.Context) error {
	service := &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: serviceNamespace, Name: s.service}}
	service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}
	if err := s.apply(ctx, servicesPath+s.service, service); err != nil {
		return err
	}
	for i, version := range s.versions {
		object := map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": apiService(version)},
			"spec": map[string]any{
				"group": version.Group, "version": version.Version, "groupPriorityMinimum": 100, "versionPriority": 100 - i,
				"caBundle": s.ca,
				"service":  map[string]any{"namespace": serviceNamespace, "name": s.service, "port": s.port},
			},
		}
		if err := s.apply(ctx, apiServicesPath+apiService(version), object); err != nil {
			return err
		}
	}
	for _, version := range s.versions {
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
	return s.client.Patch(types.ApplyPatchType).AbsPath(path).Param("fieldManager", s.service).Param("force",
		"true").Body(data).Do(ctx).Error()
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
	for _, version := range s.versions {
		failed = append(failed, s.client.Delete().AbsPath(apiServicesPath+apiService(version)).Do(ctx).Error())
	}
	failed = append(failed, s.client.Delete().AbsPath(servicesPath+s.service).Do(ctx).Error())
	for i, err := range failed {
		if apierrors.IsNotFound(err) {
			failed[i] = nil
		}
	}
	return errors.Join(failed...)
}
