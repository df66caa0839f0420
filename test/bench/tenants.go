package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/metricsapi"
)

// tenantSizes are what tenant A has, beside tenant B, who has little.
type tenantSizes struct {
	owners, each int // dependents of each owner
	deployments  int
	autoscalers  int
}

// tenants measures what tenant B waits for while tenant A keeps a controller busy; where it is about turns of keys, with the limits of
// clients that are the default, too.
func tenants(ctx context.Context, b *bench) error {
	sizes := tenantSizes{owners: 100, each: 1000, deployments: 1000, autoscalers: 200}
	busy := busySizes{flapping: 25, pods: 8, endless: 100, atRest: 1000, asks: 5}
	if b.quick {
		sizes = tenantSizes{owners: 10, each: 100, deployments: 50, autoscalers: 20}
		busy = busySizes{flapping: 25, pods: 4, endless: 20, atRest: 50, asks: 3}
	}
	const controllers = "--controllers=garbagecollector,job,horizontalpodautoscaling,-replicationcontroller"
	return b.inTurnTimes(ctx, 1, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			raised := append(raisedLimits(), controllers)
			err := b.withManager(ctx, p, t, raised, func(s *session) error {
				return errors.Join(
					b.besideDependents(ctx, t, s, sizes), b.besideDeployments(ctx, t, s, sizes.deployments),
					b.besideSlowMetrics(ctx, t, s, sizes.autoscalers),
					b.besideBusy(ctx, t, s, busy))
			})
			byDefault := b.withManager(ctx, p, t, []string{controllers}, func(s *session) error { return b.besideBusy(ctx, t, s, busy) })
			return errors.Join(err, byDefault, b.besideBackground(ctx, t, p, raised, busy))
		})
	})
}

// smallShare is how many pods, or dependents, tenant B has.
const smallShare = 8

// besideDependents has the owners of all that tenant A has deleted. Once that is being collected, tenant B creates a Job, and then
// deletes an owner.
func (b *bench) besideDependents(ctx context.Context, t turn, s *session, sizes tenantSizes) error {
	a, err := s.plane.newNamespace(ctx)
	if err != nil {
		return err
	}
	owners, err := s.plane.makeOwned(ctx, a, sizes.owners, sizes.each)
	if err != nil {
		return err
	}
	return s.inNamespace(ctx, func(ns *namespace) error {
		if _, err := s.plane.makeOwned(ctx, ns.name, 1, smallShare); err != nil {
			return err
		}
		var began, over time.Time
		var figures []figure
		all := sizes.owners * sizes.each
		c, err := s.costOf(ctx, func(ctx context.Context) (err error) {
			began = time.Now()
			if err := forEach(ctx, userWorkers, len(owners),
				func(ctx context.Context, _, i int) error { return s.plane.deleteOwner(ctx, a, owners[i]) }); err != nil {
				return err
			}
			if err := s.awaitDependents(ctx, a, func(left int) bool { return left < all }); err != nil {
				return err
			}
			if figures, err = ns.askForLittle(ctx, s, a); err != nil {
				return err
			}
			err = s.awaitDependents(ctx, a, func(left int) bool { return left == 0 })
			over = time.Now()
			return err
		})
		if err != nil {
			return err
		}
		name := fmt.Sprintf("A has %d dependents collected, B starts a Job of %d pods and deletes an owner of %[2]d", all, smallShare)
		b.keep(t, sample{Scenario: name, Began: began, Flags: s.flags, Figures: append(figures,
			figure{Name: "deletions for A", Value: float64(all) / over.Sub(began).Seconds(), Unit: "/s"},
			seconds("CPU of the manager", c.cpu))})
		return nil
	})
}

// askForLittle creates a Job and deletes an owner for tenant B, while the dependents of tenant A are being collected.
func (ns *namespace) askForLittle(ctx context.Context, s *session, a string) ([]figure, error) {
	created := time.Now()
	if err := ns.createJob(ctx, newJob("small", smallShare, smallShare)); err != nil {
		return nil, err
	}
	if err := until(ctx, "the pods of B are there", 5*time.Millisecond, func() (bool, error) {
		return ns.crowd.active() == smallShare, errors.Join(ns.errs.first(), s.manager.running())
	}); err != nil {
		return nil, err
	}
	deleted := time.Now()
	if err := s.plane.deleteOwner(ctx, ns.name, ownerName(0)); err != nil {
		return nil, err
	}
	if err := s.awaitDependents(ctx, ns.name, func(left int) bool { return left == 0 }); err != nil {
		return nil, err
	}
	gone := time.Now()
	left, err := s.plane.countDependents(ctx, a)
	return []figure{
		seconds("from the Job's creation to the last pod of B", deleted.Sub(created)),
		seconds("from the owner's deletion to the last dependent of B", gone.Sub(deleted)),
		count("dependents that A has then", left),
	}, err
}

// awaitDependents waits until what makeOwned has made in a namespace is as wanted.
func (s *session) awaitDependents(ctx context.Context, ns string, enough func(left int) bool) error {
	return until(ctx, "the dependents are gone", 20*time.Millisecond, func() (bool, error) {
		left, err := s.plane.countDependents(ctx, ns)
		return enough(left), errors.Join(err, s.manager.running())
	})
}

func (p *plane) deleteOwner(ctx context.Context, ns, name string) error {
	return p.client.CoreV1().ConfigMaps(ns).Delete(ctx, name, metav1.DeleteOptions{})
}

func ownerName(i int) string { return fmt.Sprint("owner-", i) }

// makeOwned makes ConfigMaps, and Secrets that they own. It returns the names of the owners.
func (p *plane) makeOwned(ctx context.Context, ns string, owners, each int) ([]string, error) {
	clients, err := p.clients(kubeletConnections)
	if err != nil {
		return nil, err
	}
	names, uids := make([]string, owners), make([]types.UID, owners)
	err = forEach(ctx, len(clients), owners, func(ctx context.Context, worker, i int) error {
		names[i] = ownerName(i)
		made, err := clients[worker].CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: names[i]}},
			metav1.CreateOptions{})
		if err == nil {
			uids[i] = made.UID
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return names, forEach(ctx, kubeletWorkers, owners*each, func(ctx context.Context, worker, i int) error {
		owner := i % owners
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("of-%d-%d", owner, i/owners),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: names[owner], UID: uids[owner]}}}}
		_, err := clients[worker%len(clients)].CoreV1().Secrets(ns).Create(ctx, secret, metav1.CreateOptions{})
		return err
	})
}

// countDependents counts what makeOwned has made, and is still there, at little cost for the API server.
func (p *plane) countDependents(ctx context.Context, ns string) (int, error) {
	list, err := p.client.CoreV1().Secrets(ns).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	return len(list.Items) + int(ptr.Deref(list.RemainingItemCount, 0)), nil
}

// besideDeployments creates many Deployments for tenant A and, half a second later, one for tenant B.
func (b *bench) besideDeployments(ctx context.Context, t turn, s *session, deployments int) error {
	return s.inNamespace(ctx, func(a *namespace) error {
		return s.inNamespace(ctx, func(ns *namespace) error {
			if err := s.quiet(ctx); err != nil {
				return err
			}
			began, ended := time.Now(), make(chan error, 1)
			go func() { ended <- a.createDeployments(ctx, 0, deployments, 2) }()
			if err := until(ctx, "A has half of its Deployments", 2*time.Millisecond, func() (bool, error) {
				n, _ := a.rollouts.missing()
				return n > deployments/2, errors.Join(a.errs.first(), s.manager.running())
			}); err != nil {
				return errors.Join(err, <-ended)
			}
			created := time.Now()
			if err := ns.createDeployments(ctx, 0, 1, smallShare); err != nil {
				return errors.Join(err, <-ended)
			}
			err := ns.waitRolledOut(ctx, s.manager.running)
			took := time.Since(created)
			missing, _ := a.rollouts.missing()
			if err := errors.Join(err, <-ended); err != nil {
				return err
			}
			if err := a.waitRolledOut(ctx, s.manager.running); err != nil {
				return err
			}
			b.keep(t, sample{Scenario: fmt.Sprintf("A creates %d Deployments of 2 pods, B one of %d", deployments, smallShare),
				Began: began, Flags: s.flags, Figures: []figure{
					seconds("from the creation of B's until it is rolled out", took),
					count("Deployments of A that are then not rolled out", missing),
					seconds("until all are rolled out", time.Since(began)),
				}})
			return nil
		})
	})
}

// slowMetric is how long each external metric of tenant A takes.
const slowMetric = 2 * time.Second

// besideSlowMetrics has autoscalers of tenant A look at metrics that are slow, and one of tenant B at one that is not. It times three
// changes.
func (b *bench) besideSlowMetrics(ctx context.Context, t turn, s *session, autoscalers int) (err error) {
	metrics, err := metricsapi.Start(ctx, s.plane.config, metricsapi.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, metrics.Close()) }()
	a, err := s.plane.newNamespace(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	err = forEach(ctx, userWorkers, autoscalers, func(ctx context.Context, _, i int) error {
		metric := fmt.Sprint("slow-", i)
		metrics.External(a, metricsapi.Metric{Name: metric}, func(now time.Time) (resource.Quantity, bool) {
			_ = sleep(ctx, slowMetric) // a run that ends needs no answer
			return metricsapi.Constant("10")(now)
		})
		return s.plane.scaleByExternal(ctx, a, metric)
	})
	if err != nil {
		return err
	}
	took, err := s.followMetric(ctx, metrics)
	if err != nil {
		return err
	}
	b.keep(t, sample{Scenario: fmt.Sprintf("A has %d autoscalers whose metrics take %v each, B one", autoscalers, slowMetric), Began: began,
		Flags: s.flags, Figures: []figure{
			seconds("from a change until B is scaled, median", percentile(took, 50)),
			seconds("the longest", percentile(took, 100)),
		}})
	return nil
}

// followMetric makes an autoscaler for tenant B, and returns how long it takes until it follows each of three changes.
func (s *session) followMetric(ctx context.Context, metrics *metricsapi.Server) (took []time.Duration, err error) {
	const metric = "queue"
	ns, err := s.plane.newNamespace(ctx)
	if err != nil {
		return nil, err
	}
	metrics.External(ns, metricsapi.Metric{Name: metric}, metricsapi.Constant("10"))
	if err := s.plane.scaleByExternal(ctx, ns, metric); err != nil {
		return nil, err
	}
	if err := sleep(ctx, 2*autoscalerPeriod); err != nil { // all have been looked at, or wait for that
		return nil, err
	}
	for replicas := int32(2); replicas <= 4; replicas++ {
		changed := time.Now()
		metrics.External(ns, metricsapi.Metric{Name: metric}, metricsapi.Constant(fmt.Sprint(10*replicas)))
		err := until(ctx, "B is scaled", 20*time.Millisecond, func() (bool, error) {
			target, err := s.plane.client.CoreV1().ReplicationControllers(ns).Get(ctx, metric, metav1.GetOptions{})
			return err == nil && *target.Spec.Replicas == replicas, errors.Join(err, s.manager.running())
		})
		if err != nil {
			return nil, err
		}
		took = append(took, time.Since(changed))
		if err := s.plane.haveReplicas(ctx, ns, metric, replicas); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// scaleByExternal makes a ReplicationController, which no controller looks after, and its autoscaler, both with the name of an external
// metric.
func (p *plane) scaleByExternal(ctx context.Context, ns, metric string) error {
	if _, err := p.client.CoreV1().ReplicationControllers(ns).Create(ctx, newTarget(metric, 1, loosePod(ns, "", metric)),
		metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := p.haveReplicas(ctx, ns, metric, 1); err != nil {
		return err
	}
	h := newAutoscaler(metric)
	h.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType,
		External: &autoscalingv2.ExternalMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: metric},
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: ptr.To(resource.MustParse("10"))},
		}}}
	_, err := p.client.AutoscalingV2().HorizontalPodAutoscalers(ns).Create(ctx, h, metav1.CreateOptions{})
	return err
}

// haveReplicas sets the status of a ReplicationController as its controller would.
func (p *plane) haveReplicas(ctx context.Context, ns, name string, replicas int32) error {
	client := p.client.CoreV1().ReplicationControllers(ns)
	rc, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	rc.Status.Replicas, rc.Status.ReadyReplicas = replicas, replicas
	_, err = client.UpdateStatus(ctx, rc, metav1.UpdateOptions{})
	return err
}
