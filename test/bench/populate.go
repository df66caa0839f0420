package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// population is what a large cluster is filled with. All of it is as its controllers want it, so nothing is to be done.
type population struct {
	namespaces, deployments, pods, services int // the last three for each namespace; pods for each Deployment
}

func (c population) allDeployments() int { return c.namespaces * c.deployments }
func (c population) allPods() int        { return c.allDeployments() * c.pods }
func (c population) allServices() int    { return c.namespaces * c.services }

func (c population) String() string {
	return fmt.Sprintf("%d pods, %d Deployments, %d services", c.allPods(), c.allDeployments(), c.allServices())
}

// populate makes the objects and returns the names of the namespaces and the size of a pod, as JSON.
func (p *plane) populate(ctx context.Context, c population) (namespaces []string, podSize int, err error) {
	clients, err := p.clients(kubeletConnections)
	if err != nil {
		return nil, 0, err
	}
	for range c.namespaces {
		name, err := p.newNamespace(ctx)
		if err != nil {
			return nil, 0, err
		}
		namespaces = append(namespaces, name)
	}
	err = forEach(ctx, 16, c.allServices(), func(ctx context.Context, worker, i int) error {
		return makeService(ctx, clients[worker%len(clients)], namespaces[i%c.namespaces], fmt.Sprintf("web-%d", i/c.namespaces))
	})
	if err != nil {
		return nil, 0, err
	}
	err = forEach(ctx, 32, c.allDeployments(), func(ctx context.Context, worker, i int) error {
		return makeDeploymentTree(ctx, clients[worker%len(clients)], namespaces[i%c.namespaces], fmt.Sprintf("web-%d", i/c.namespaces),
			c.pods, uint32(i*c.pods))
	})
	if err != nil {
		return nil, 0, err
	}
	podSize, err = p.podSize(ctx, namespaces[0])
	return namespaces, podSize, err
}

// podSize is the size of some pod as the API server sends it, as JSON.
func (p *plane) podSize(ctx context.Context, ns string) (int, error) {
	list, err := p.client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil || len(list.Items) == 0 {
		return 0, err
	}
	text, err := json.Marshal(&list.Items[0])
	return len(text), err
}

// makeDeploymentTree makes a Deployment, its ReplicaSet and the pods, numbered from first. Only the status of the pods is
// set: the manager that comes first sets those of the others.
func makeDeploymentTree(ctx context.Context, client kubernetes.Interface, ns, name string, pods int, first uint32) error {
	d := deployment(name, pods)
	d.Annotations = map[string]string{"deployment.kubernetes.io/revision": "1"}
	d.Spec.Template.Spec = richSpec(name)
	made, err := client.AppsV1().Deployments(ns).Create(ctx, d, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	set, err := client.AppsV1().ReplicaSets(ns).Create(ctx, replicaSet(made), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for i := range pods {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: fmt.Sprintf("%s-%d", set.Name, i), GenerateName: set.Name + "-", Labels: set.Spec.Template.Labels,
			Annotations:     richAnnotations(),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		}, Spec: set.Spec.Template.Spec}
		p.Spec.NodeName = fmt.Sprintf("node-%d", i%3)
		if _, err := makeReadyPod(ctx, client, p, first+uint32(i)); err != nil {
			return err
		}
	}
	return nil
}

// replicaSet is the one that belongs to a Deployment of revision 1.
func replicaSet(d *appsv1.Deployment) *appsv1.ReplicaSet {
	const hashLabel, hash = "pod-template-hash", "7f9c6d5b84"
	most, _ := roomOf(int(*d.Spec.Replicas))
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Name: d.Name + "-" + hash, Labels: map[string]string{appLabel: d.Name, hashLabel: hash},
		Annotations: map[string]string{
			"deployment.kubernetes.io/revision":         "1",
			"deployment.kubernetes.io/desired-replicas": fmt.Sprint(*d.Spec.Replicas),
			"deployment.kubernetes.io/max-replicas":     fmt.Sprint(most),
		},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
	}}
	set.Spec.Replicas = d.Spec.Replicas
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: set.Labels}
	set.Spec.Template = *d.Spec.Template.DeepCopy()
	set.Spec.Template.Labels = set.Labels
	return set
}

// richSpec is a pod of about 8 KB together with status, annotations and the managed fields that the API server adds: two
// containers with variables, probes, resources and volumes.
func richSpec(name string) corev1.PodSpec {
	spec := corev1.PodSpec{ServiceAccountName: "default", Volumes: []corev1.Volume{
		{Name: "config",
			VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name + "-config"}}}},
		{Name: "credentials", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name + "-credentials"}}},
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}}
	for c, port := range []int32{8080, 9090} {
		container := corev1.Container{Name: fmt.Sprintf("container-%d", c), Image: "registry.example.com/team/" + name + ":1.27.3",
			Args:  []string{"--listen=:8080", "--log-format=json", "--config=/etc/web/config.yaml"},
			Ports: []corev1.ContainerPort{{Name: fmt.Sprintf("port-%d", c), ContainerPort: port}},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "config", MountPath: "/etc/web", ReadOnly: true},
				{Name: "credentials", MountPath: "/etc/credentials", ReadOnly: true},
				{Name: "scratch", MountPath: "/tmp"},
			}}
		for i := range 4 {
			container.Env = append(container.Env,
				corev1.EnvVar{Name: fmt.Sprintf("WEB_SETTING_NUMBER_%02d", i), Value: "a-value-of-some-length.example.com:5432"})
		}
		container.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"),
			corev1.ResourceMemory: resource.MustParse("128Mi")}
		container.ReadinessProbe = &corev1.Probe{PeriodSeconds: 5}
		container.ReadinessProbe.Exec = &corev1.ExecAction{Command: []string{"/bin/web", "ready"}}
		spec.Containers = append(spec.Containers, container)
	}
	return spec
}

func richAnnotations() map[string]string {
	return map[string]string{
		"example.com/checksum-config": strings.Repeat("3f", 32),
		"example.com/injected":        `{"version":"1.22.1","template":"` + strings.Repeat("sidecar ", 40) + `"}`,
	}
}

// makeFinishedPods makes pods that have succeeded, without an owner.
func (p *plane) makeFinishedPods(ctx context.Context, ns string, n int) error {
	clients, err := p.clients(kubeletConnections)
	if err != nil {
		return err
	}
	return forEach(ctx, 32, n, func(ctx context.Context, worker, i int) error {
		client := clients[worker%len(clients)]
		made, err := client.CoreV1().Pods(ns).Create(ctx, loosePod(ns, fmt.Sprintf("finished-%d", i), "finished"), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		made.Status.Phase = corev1.PodSucceeded
		_, err = client.CoreV1().Pods(ns).UpdateStatus(ctx, made, metav1.UpdateOptions{})
		return err
	})
}
