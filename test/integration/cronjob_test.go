package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// createCronJob creates a CronJob that is due in a second, and then once a minute, in which its Job has the same name.
func (b *bench) createCronJob(name string, edits ...func(*batchv1.CronJob)) {
	b.Helper()
	c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.Schedule = "@every 1s"
	c.Spec.JobTemplate.Labels, c.Spec.JobTemplate.Spec = map[string]string{"app": name}, suite.JobSpec("good:1")
	for _, edit := range edits {
		edit(c)
	}
	if _, err := b.Client.BatchV1().CronJobs(b.ns).Create(b.Context(), c, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// jobsOf are the Jobs that were made from the template of a CronJob.
func (b *bench) jobsOf(name string) []batchv1.Job {
	b.Helper()
	list, err := b.Client.BatchV1().Jobs(b.ns).List(b.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		b.Fatal(err)
	}
	return list.Items
}

// firstJob waits for the first Job of a CronJob, and for the status to name it.
func (b *bench) firstJob(name string) *batchv1.Job {
	b.Helper()
	b.wait(name+" has an active Job", func() error {
		if s := b.cronJob(name).Status; len(s.Active) == 0 || s.LastScheduleTime == nil {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	return &b.jobsOf(name)[0]
}

func (b *bench) cronJob(name string) *batchv1.CronJob {
	b.Helper()
	c, err := b.Client.BatchV1().CronJobs(b.ns).Get(b.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func (b *bench) suspend(name string) {
	b.Helper()
	_, err := b.Client.BatchV1().CronJobs(b.ns).Patch(b.Context(), name, types.MergePatchType, []byte(`{"spec":{"suspend":true}}`),
		metav1.PatchOptions{})
	if err != nil {
		b.Fatal(err)
	}
}

// finish lets a Job complete.
func (b *bench) finish(job *batchv1.Job) {
	b.Helper()
	actors.FinishJob(&job.Status, false, metav1.Now().Rfc3339Copy())
	if _, err := b.Client.BatchV1().Jobs(b.ns).UpdateStatus(b.Context(), job, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// jobGoes waits until a Job is gone. Its CronJob may have made another one, if a minute has begun meanwhile.
func (b *bench) jobGoes(job *batchv1.Job, why string) {
	b.Helper()
	b.wait(why, func() error {
		_, err := b.Client.BatchV1().Jobs(b.ns).Get(b.Context(), job.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there (%v)", err)
	})
}

func TestCronJob(t *testing.T) {
	b := share(t)
	b.createCronJob("backup", func(c *batchv1.CronJob) { c.Spec.TimeZone = ptr.To("Asia/Kathmandu") })
	job := b.firstJob("backup")
	b.suspend("backup")
	c := b.cronJob("backup")
	at, err := time.Parse(time.RFC3339, job.Annotations[batchv1.CronJobScheduledTimestampAnnotation])
	// CJ-50, CJ-51
	if err != nil || job.Name != fmt.Sprintf("backup-%d", at.Unix()/60) || !strings.HasSuffix(at.Format(time.RFC3339), "+05:45") {
		t.Errorf("%s is for %v (%v)", job.Name, at, err)
	}
	if late := job.CreationTimestamp.Sub(at); late < 0 { // CJ-4, as does TestTwoYears, which says how late it may be
		t.Errorf("CJ-4: created %v late", late)
	}
	if !metav1.IsControlledBy(job, c) || !c.Status.LastScheduleTime.Time.Equal(at) || c.Status.Active[0].UID != job.UID ||
		c.Status.Active[0].ResourceVersion == "" {
		t.Errorf("CJ-52: %+v", c.Status)
	}

	b.Kubectl(t, "-n", b.ns, "create", "job", "by-hand", "--from=cronjob/backup")
	b.finish(job)
	b.wait("CJ-14: the end of the Job is known", func() error {
		if s := b.cronJob("backup").Status; len(s.Active) > 0 || s.LastSuccessfulTime == nil {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	b.wait("CJ-72: there are events", func() error {
		list, err := b.Client.CoreV1().Events(b.ns).List(b.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.kind=CronJob,involvedObject.name=backup,source=cronjob-controller"})
		if err != nil {
			return err
		}
		seen := map[string]int{}
		for _, e := range list.Items {
			seen[e.Type+" "+e.Reason+" "+e.Message] += int(e.Count)
		}
		want := map[string]int{
			"Normal SuccessfulCreate Created job " + job.Name:                                       1,
			"Normal SawCompletedJob Saw completed job: " + job.Name + ", condition: Complete":       1,
			"Warning UnexpectedJob Saw a job that the controller did not create or forgot: by-hand": 1,
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			return fmt.Errorf("-want +got: %s", diff)
		}
		return nil
	})
}

// The server accepts the policies of deletions: pods go with the Jobs, and nothing waits for a finalizer.
func TestFinishedJobsGo(t *testing.T) { // CJ-60, CJ-61, TTL-26, TTL-27
	b := share(t)
	b.createCronJob("short", func(c *batchv1.CronJob) {
		c.Spec.SuccessfulJobsHistoryLimit, c.Spec.ConcurrencyPolicy = ptr.To[int32](0), batchv1.ForbidConcurrent
	})
	b.createCronJob("ttl", func(c *batchv1.CronJob) { c.Spec.JobTemplate.Spec.TTLSecondsAfterFinished = ptr.To[int32](2) })
	short, ttl := b.firstJob("short"), b.firstJob("ttl")
	b.suspend("short")
	b.suspend("ttl")
	b.finish(short)
	b.finish(ttl)
	ended := time.Now()
	b.jobGoes(short, "CJ-60: the history limit has deleted the Job")
	b.jobGoes(ttl, "TTL-27: the time to live has deleted the Job")
	if took := time.Since(ended); took < time.Second {
		t.Errorf("TTL-24: the Job lived for %v", took)
	}
}

// workOfCronJobs uses each right of the controllers of CronJobs and of finished Jobs: one Job is deleted by hand, one by the history limit,
// one by its time to live, and one cannot be created, again and again, so that its event is counted.
func (b *bench) workOfCronJobs() {
	b.Helper()
	b.createCronJob("missing")
	job := b.firstJob("missing")
	b.suspend("missing")
	if err := b.Client.BatchV1().Jobs(b.ns).Delete(b.Context(), job.Name,
		metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}); err != nil {
		b.Fatal(err)
	}
	b.createCronJob("short", func(c *batchv1.CronJob) { c.Spec.SuccessfulJobsHistoryLimit = ptr.To[int32](0) })
	b.createCronJob("ttl", func(c *batchv1.CronJob) { c.Spec.JobTemplate.Spec.TTLSecondsAfterFinished = ptr.To[int32](0) })
	for _, name := range []string{"short", "ttl"} {
		job := b.firstJob(name)
		b.suspend(name)
		b.finish(job)
		b.jobGoes(job, "the Job of "+name+" is gone")
	}
	b.quotaOf("count/jobs.batch", 0)
	b.createCronJob("refused")
	b.wait("the event of a Job that cannot be created is counted", func() error {
		list, err := b.Client.CoreV1().Events(b.ns).List(b.Context(),
			metav1.ListOptions{FieldSelector: "involvedObject.name=refused,reason=FailedCreate"})
		if err != nil || len(list.Items) == 0 || list.Items[0].Count < 2 {
			return fmt.Errorf("%d events (%v)", len(list.Items), err)
		}
		return nil
	})
	b.suspend("refused")
}
