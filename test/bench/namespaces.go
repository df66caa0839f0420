package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// namespaceFlags switch on the controller that ends namespaces, beside those of all sessions. DaemonSets get no pods, which nobody
// would end.
func namespaceFlags() []string { return append(raisedLimits(), "--controllers=namespace,-daemonset") }

// namespaces measures how soon namespaces are gone that are deleted.
func namespaces(ctx context.Context, b *bench) error {
	empty, each, others := 20, 100, 200
	if b.quick {
		empty, each, others = 3, 5, 10
	}
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			return b.withManager(ctx, p, t, namespaceFlags(), func(s *session) error {
				return errors.Join(b.endEmpty(ctx, t, s, empty), b.endFull(ctx, t, s, each, 0), b.endFull(ctx, t, s, each, others))
			})
		})
	})
}

// endEmpty ends namespaces without content, one after the other.
func (b *bench) endEmpty(ctx context.Context, t turn, s *session, n int) error {
	began := time.Now()
	var took []time.Duration
	for range n {
		ns, err := s.plane.bareNamespace(ctx)
		if err != nil {
			return err
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil { // as if somebody had looked at it
			return err
		}
		deleted := time.Now()
		if err := s.endNamespaces(ctx, ns); err != nil {
			return err
		}
		took = append(took, time.Since(deleted))
	}
	b.keep(t, sample{Scenario: "an empty namespace is deleted", Began: began, Flags: s.flags,
		Figures: latencies("from its deletion until it is gone", took)})
	return nil
}

// endFull ends a namespace with objects of 20 kinds, and others beside it that are empty.
func (b *bench) endFull(ctx context.Context, t turn, s *session, each, others int) error {
	ns, err := s.plane.newNamespace(ctx)
	if err != nil {
		return err
	}
	if err := s.plane.fillNamespace(ctx, ns, each); err != nil {
		return err
	}
	beside := make([]string, others)
	for i := range beside {
		if beside[i], err = s.plane.bareNamespace(ctx); err != nil {
			return err
		}
	}
	var began time.Time
	var took, all time.Duration
	c, err := s.costOf(ctx, func(ctx context.Context) error {
		began = time.Now()
		ended := make(chan error, 1)
		go func() { ended <- s.endNamespaces(ctx, beside...) }()
		err := s.endNamespaces(ctx, ns)
		took = time.Since(began)
		err = errors.Join(err, <-ended)
		all = time.Since(began)
		return err
	})
	if err != nil {
		return err
	}
	requests := 0
	for _, r := range s.proxy.Requests().Rows {
		if r.Resource != "leases" && r.Resource != "events" {
			requests += r.Count
		}
	}
	name := fmt.Sprintf("a namespace with %d objects of %d kinds is deleted", each*len(kinds()), len(kinds()))
	figures := []figure{seconds("from its deletion until it is gone", took)}
	if others > 0 {
		name += fmt.Sprintf(", and %d empty ones", others)
		figures = append(figures, seconds("from the first deletion until all are gone", all))
	}
	b.keep(t, sample{Scenario: name, Began: began, Flags: s.flags, Figures: append(figures,
		count("requests of the manager", requests), seconds("CPU of the manager", c.cpu))})
	return nil
}

// endNamespaces deletes namespaces and waits until they are gone.
func (s *session) endNamespaces(ctx context.Context, names ...string) error {
	client := s.plane.client.CoreV1().Namespaces()
	err := forEach(ctx, 8, len(names), func(ctx context.Context, _, i int) error {
		return client.Delete(ctx, names[i], metav1.DeleteOptions{})
	})
	for i := 0; i < len(names) && err == nil; i++ {
		err = until(ctx, "namespace "+names[i]+" is gone", 5*time.Millisecond, func() (bool, error) {
			_, err := client.Get(ctx, names[i], metav1.GetOptions{})
			return apierrors.IsNotFound(err), errors.Join(client404IsFine(err), s.manager.running())
		})
	}
	return err
}

// kindOf is a kind of which a namespace is filled.
type kindOf struct{ group, version, resource, object string }

// kinds are 20 kinds that no controller of the session makes anything of.
func kinds() []kindOf {
	const pods = `template: {metadata: {labels: {app: x}}, spec: {restartPolicy: Never, containers: [{name: x, image: x}]}}`
	const selected = `selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {containers: [{name: x, image: x}]}}`
	return []kindOf{
		{"", "v1", "configmaps", `{kind: ConfigMap}`},
		{"", "v1", "secrets", `{kind: Secret}`},
		{"", "v1", "serviceaccounts", `{kind: ServiceAccount}`},
		{"", "v1", "services", `{kind: Service, spec: {clusterIP: None}}`},
		{"", "v1", "podtemplates", `{kind: PodTemplate, ` + pods + `}`},
		{"", "v1", "limitranges", `{kind: LimitRange, spec: {limits: []}}`},
		{"", "v1", "replicationcontrollers",
			`{kind: ReplicationController, spec: {replicas: 0, selector: {app: x}, template: {metadata: {labels: {app: x}}, spec: {containers: [{name: x, image: x}]}}}}`},
		{"apps", "v1", "controllerrevisions", `{kind: ControllerRevision, revision: 1, data: {x: y}}`},
		{"apps", "v1", "daemonsets", `{kind: DaemonSet, spec: {` + selected + `}}`},
		{"apps", "v1", "statefulsets", `{kind: StatefulSet, spec: {serviceName: x, replicas: 0, ` + selected + `}}`},
		{"batch", "v1", "jobs", `{kind: Job, spec: {suspend: true, ` + pods + `}}`},
		{"batch", "v1", "cronjobs", `{kind: CronJob, spec: {schedule: "0 0 1 1 *", jobTemplate: {spec: {` + pods + `}}}}`},
		{"autoscaling", "v2", "horizontalpodautoscalers",
			`{kind: HorizontalPodAutoscaler, spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: x, apiVersion: apps/v1}}}`},
		{"policy", "v1", "poddisruptionbudgets",
			`{kind: PodDisruptionBudget, spec: {maxUnavailable: 1, selector: {matchLabels: {app: x}}}}`},
		{"networking.k8s.io", "v1", "networkpolicies", `{kind: NetworkPolicy, spec: {podSelector: {}}}`},
		{"networking.k8s.io", "v1", "ingresses", `{kind: Ingress, spec: {defaultBackend: {service: {name: x, port: {number: 80}}}}}`},
		{"rbac.authorization.k8s.io", "v1", "roles", `{kind: Role, rules: []}`},
		{"rbac.authorization.k8s.io", "v1", "rolebindings",
			`{kind: RoleBinding, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: x}}`},
		{"coordination.k8s.io", "v1", "leases", `{kind: Lease}`},
		{"storage.k8s.io", "v1", "csistoragecapacities", `{kind: CSIStorageCapacity, storageClassName: x}`},
	}
}

// fillNamespace creates so many objects of each kind.
func (p *plane) fillNamespace(ctx context.Context, ns string, each int) error {
	client, err := p.dynamic()
	if err != nil {
		return err
	}
	all := kinds()
	return forEach(ctx, 8, each*len(all), func(ctx context.Context, _, i int) error {
		k := all[i%len(all)]
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(k.object), &o.Object); err != nil {
			return err
		}
		gv := schema.GroupVersion{Group: k.group, Version: k.version}
		o.SetAPIVersion(gv.String())
		o.SetName(fmt.Sprint("x-", i/len(all)))
		_, err := client.Resource(gv.WithResource(k.resource)).Namespace(ns).Create(ctx, &o, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("%s: %w", k.resource, err)
		}
		return nil
	})
}
