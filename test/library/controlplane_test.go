package library

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/test/library/website"
	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// controlPlane is an API server in memory, with a node whose kubelet is played. It works in virtual time, too.
type controlPlane struct {
	server *apiserver.Server
	config *rest.Config
	client kubernetes.Interface
	sites  dynamic.ResourceInterface
	stop   func()
}

func newControlPlane() *controlPlane {
	server := apiserver.New(1)
	server.Define(apiserver.Custom{GroupVersionKind: website.GroupVersion.WithKind("Website"), Resource: "websites", Status: true})
	cluster := actors.New(server, 1)
	cluster.Pace = time.Millisecond
	if err := cluster.AddNode("node-0"); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var played sync.WaitGroup
	played.Go(func() { cluster.Run(ctx) })
	config := &rest.Config{Host: "http://memory", QPS: -1, Transport: &apiserver.Client{Server: server, Name: "library"}}
	return &controlPlane{
		server: server, config: config, client: kubernetes.NewForConfigOrDie(config),
		sites: dynamic.NewForConfigOrDie(config).Resource(website.GroupVersion.WithResource("websites")).Namespace(metav1.NamespaceDefault),
		stop:  func() { cancel(); played.Wait() },
	}
}

// newDeployment returns a Deployment of one's own.
func newDeployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
			},
		},
	}
}

func (p *controlPlane) createDeployment(name string, replicas int32) {
	_, err := p.client.AppsV1().Deployments(metav1.NamespaceDefault).Create(context.Background(), newDeployment(name, replicas),
		metav1.CreateOptions{})
	if err != nil {
		panic(err)
	}
}

// waitForDeployment returns how many pods are available, when they are as many as wanted.
func (p *controlPlane) waitForDeployment(name string, wanted int32) int32 {
	return eventually(wanted, func() int32 {
		d, err := p.client.AppsV1().Deployments(metav1.NamespaceDefault).Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			panic(err)
		}
		return d.Status.AvailableReplicas
	})
}

func (p *controlPlane) createWebsite(name string, spec website.Spec) {
	_, err := p.sites.Create(context.Background(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": website.GroupVersion.String(), "kind": "Website", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"image": spec.Image, "replicas": int64(spec.Replicas)},
	}}, metav1.CreateOptions{})
	if err != nil {
		panic(err)
	}
}

func (p *controlPlane) scaleWebsite(name string, replicas int32) {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	if _, err := p.sites.Patch(context.Background(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		panic(err)
	}
}

// waitForWebsite returns how many servers are ready, when they are as many as wanted.
func (p *controlPlane) waitForWebsite(name string, wanted int32) int32 {
	return eventually(wanted, func() int32 {
		site, err := p.sites.Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			panic(err)
		}
		ready, _, _ := unstructured.NestedInt64(site.Object, "status", "ready")
		return int32(ready)
	})
}

// eventually returns the value that is wanted, or what there is after half a minute.
func eventually(wanted int32, is func() int32) int32 {
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if now := is(); now == wanted || time.Now().After(end) {
			return now
		}
	}
}
