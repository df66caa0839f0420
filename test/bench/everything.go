package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
)

// allFlags switch on all controllers that ours has: those that have more of them than ours are not to pay for it.
func allFlags() []string {
	var names []string
	for _, c := range controllers.Registry() {
		names = append(names, c.Name)
	}
	return append(raisedLimits(), "--controllers="+strings.Join(names, ","))
}

// everything measures the memory of managers with all controllers on a cluster with many objects, most of which only the garbage
// collector reads. All contenders work on the same control plane, one after the other.
func everything(ctx context.Context, b *bench) error {
	size, large, custom, each := population{namespaces: 10, deployments: 100, pods: 20, services: 30}, 20_000, 50, 20
	if b.quick {
		size, large, custom, each = population{namespaces: 2, deployments: 20, pods: 20, services: 10}, 500, 5, 5
	}
	return b.withPlane(ctx, func(p *plane) error {
		if _, _, err := p.populate(ctx, size); err != nil {
			return err
		}
		if err := p.makeCustom(ctx, custom, each); err != nil {
			return err
		}
		if err := p.makeLarge(ctx, large); err != nil {
			return err
		}
		name := fmt.Sprintf("%d pods, %d Secrets and ConfigMaps of 10 KB, %d custom kinds; all controllers", size.allPods(), large, custom)
		for _, c := range b.contenders { // what one writes, the other finds
			if err := b.withManager(ctx, p, turn{contender: c}, allFlags(), func(*session) error { return nil }); err != nil {
				return fmt.Errorf("settle with %s: %w", c.Name, err)
			}
		}
		return b.inTurnTimes(ctx, 1, func(ctx context.Context, t turn) error {
			return b.withManager(ctx, p, t, allFlags(), func(s *session) error {
				began := time.Now()
				if err := s.quiet(ctx); err != nil {
					return err
				}
				used, _, err := s.manager.atRest(ctx, restTime)
				if err != nil {
					return err
				}
				memory, err := b.memoryAtRest(ctx, s)
				if err != nil {
					return err
				}
				b.keep(t, sample{Scenario: name, Began: began, Flags: s.flags,
					Figures: append(memory, seconds("CPU from the start to rest", used))})
				return nil
			})
		})
	})
}

// makeCustom defines custom kinds, and creates objects of each.
func (p *plane) makeCustom(ctx context.Context, kinds, each int) error {
	client, err := p.dynamic()
	if err != nil {
		return err
	}
	ns, err := p.newNamespace(ctx)
	if err != nil {
		return err
	}
	return forEach(ctx, 4, kinds, func(ctx context.Context, _, i int) error {
		const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things%[1]d.bench.example.com}
spec:
  group: bench.example.com
  names: {kind: Thing%[1]d, plural: things%[1]d, singular: thing%[1]d, listKind: Thing%[1]dList}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`
		var crd unstructured.Unstructured
		if err := yaml.Unmarshal(fmt.Appendf(nil, definition, i), &crd.Object); err != nil {
			return err
		}
		crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
			Resource: "customresourcedefinitions"})
		if _, err := crds.Create(ctx, &crd, metav1.CreateOptions{}); err != nil {
			return err
		}
		things := client.Resource(schema.GroupVersionResource{Group: "bench.example.com", Version: "v1",
			Resource: fmt.Sprint("things", i)}).Namespace(ns)
		if err := until(ctx, "a custom kind is served", 50*time.Millisecond, func() (bool, error) {
			_, err := things.List(ctx, metav1.ListOptions{})
			return err == nil, client404IsFine(err)
		}); err != nil {
			return err
		}
		for j := range each {
			o := &unstructured.Unstructured{}
			o.SetAPIVersion("bench.example.com/v1")
			o.SetKind(fmt.Sprint("Thing", i))
			o.SetName(fmt.Sprint("thing-", j))
			if _, err := things.Create(ctx, o, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}
