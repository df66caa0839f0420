package cronjob

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	cronJobs informers.Store[*batchv1.CronJob]
	jobs     informers.OwnedStore[*batchv1.Job]
	named    informers.IndexedStore[*batchv1.Job] // by the CronJob whose Jobs have such names, see namedFor
	zones    sync.Map                             // time zones by their names, which are files or compiled in
}

// observe finds the CronJob, its Jobs, its time zone, and other Jobs that have names like its own.
func (k *caches) observe(ctx context.Context, r reconcile.Request[memory]) (o reconcile.Observation[snapshot, memory],
	err error) {
	c := k.cronJobs.Get(r.Key.Namespace, r.Key.Name)
	if c == nil {
		return o, nil
	}
	s := snapshot{CronJob: c, Jobs: k.jobs.OwnedBy(c.Namespace, c.UID), Memory: ptr.Deref(r.Memory, memory{})}
	if err := k.findActive(ctx, r.Reader, &s); err != nil {
		return o, err
	}
	if s.Zone, err = k.zone(c); err != nil {
		s.ZoneError = err.Error()
	}
	s.Others = slices.DeleteFunc(k.named.By(plan.KeyOf(c).String()),
		func(job *batchv1.Job) bool { return metav1.IsControlledBy(job, c) })
	o.Exists, o.Snapshot = true, s
	return o, nil
}

// findActive reads live the active Jobs that the cache lacks (CJ-16).
func (k *caches) findActive(ctx context.Context, reader client.Reader, s *snapshot) error {
	cached := make(map[types.UID]bool, len(s.Jobs))
	for _, job := range s.Jobs {
		cached[job.UID] = true
	}
	for _, ref := range s.CronJob.Status.Active {
		if cached[ref.UID] {
			continue
		}
		job, err := readJob(ctx, reader, s.CronJob.Namespace, ref.Name)
		switch {
		case err != nil:
			return fmt.Errorf("read the active Job %s: %w", ref.Name, err)
		case job != nil && job.UID == ref.UID && metav1.IsControlledBy(job, s.CronJob):
			s.Jobs = append(s.Jobs, job)
			cached[job.UID] = true
		default:
			s.Missing = append(s.Missing, corev1.ObjectReference{Name: ref.Name, UID: ref.UID})
		}
	}
	return nil
}

// namedFor returns the key of the CronJob whose Jobs have names like that of a Job, if there is such a CronJob.
func namedFor(job *batchv1.Job) []string {
	name, _, ok := cutMinutes(job.Name)
	if !ok {
		return nil
	}
	return []string{plan.Key{Namespace: job.Namespace, Name: name}.String()}
}

// readJob reads a Job live. It returns nil if there is none.
func readJob(ctx context.Context, reader client.Reader, namespace, name string) (*batchv1.Job, error) {
	if name == "" {
		return nil, nil
	}
	m := client.MappingFor[*batchv1.Job]()
	job := &batchv1.Job{}
	err := reader.Get(ctx, m, plan.Key{Namespace: namespace, Name: name}, job)
	if client.IsAbsent(err) {
		return nil, nil
	}
	return job, err
}

// zone returns the time zone in which the schedule is meant (CJ-28).
func (k *caches) zone(c *batchv1.CronJob) (zone, error) {
	if c.Spec.TimeZone == nil || namesZone(c.Spec.Schedule) {
		return zone{time.Local}, nil
	}
	name := *c.Spec.TimeZone
	if known, ok := k.zones.Load(name); ok {
		return zone{known.(*time.Location)}, nil
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return zone{}, err
	}
	k.zones.Store(name, location)
	return zone{location}, nil
}
