package cronjob

import (
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Each story leads to a diary in testdata, which a person can read.
func TestDiaries(t *testing.T) {
	for name, tell := range map[string]func(*cluster){
		"CJ-85 a run from its time to its end": func(c *cluster) {
			c.lasting(90 * time.Second)
			c.until("00:12:30")
			c.start()
			c.until("00:18:00")
		},
		"CJ-87 Forbid skips a time and makes up for it": func(c *cluster) {
			c.lasting(7 * time.Minute)
			c.until("00:12:30")
			c.start(concurrency(batchv1.ForbidConcurrent))
			c.until("00:26:00")
		},
		"CJ-88 Replace deletes the old Job and creates the new one": func(c *cluster) {
			c.until("00:12:30")
			c.start(concurrency(batchv1.ReplaceConcurrent))
			c.until("00:21:00")
		},
		"CJ-91 a missed run is reported once": func(c *cluster) {
			c.lasting(7 * time.Minute)
			c.until("00:12:30")
			c.start(concurrency(batchv1.ForbidConcurrent), deadline(60))
			c.until("00:23:00")
			c.edit("a label, which changes nothing", func(o *batchv1.CronJob) { o.Labels = map[string]string{"a": "b"} })
			c.until("00:24:00")
		},
		"CJ-33 suspended, and resumed after several times": func(c *cluster) {
			c.lasting(30 * time.Second)
			c.until("00:12:30")
			c.start()
			c.until("00:17:00")
			c.edit("suspend", suspended)
			c.until("00:33:00")
			c.edit("resume", func(o *batchv1.CronJob) { o.Spec.Suspend = ptr.To(false) })
			c.until("00:36:00")
		},
		"CJ-60 the history limits": func(c *cluster) {
			c.lasting(30 * time.Second)
			c.fail = func(name string) bool { return strings.HasSuffix(name, "5") }
			c.until("00:12:30")
			c.start(limits(ptr.To[int32](1), ptr.To[int32](0)), every("* * * * *"))
			c.until("00:16:40")
		},
		"CJ-2 CJ-94 a new schedule counts from its change": func(c *cluster) {
			c.lasting(30 * time.Second)
			c.until("00:12:30")
			c.start(every("0 12 * * *"))
			c.until("00:14:00")
			c.edit("a schedule of which 00:13 would have been missed", every("13,17 * * * *"))
			c.until("00:18:00")
		},
		"CJ-16 a running Job is deleted by hand": func(c *cluster) {
			c.until("00:12:30")
			c.start()
			c.until("00:15:30")
			c.note("(user: delete the Job)")
			jobs := client.MappingFor[*batchv1.Job]()
			if err := c.Delete(c.Context(), jobs, plan.Key{Namespace: "shop", Name: c.Names(client.KindFor[*batchv1.Job]())[0]},
				metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}); err != nil {
				c.Error(err)
			}
			c.until("00:16:00")
		},
		"CJ-54 a Job that cannot be created": func(c *cluster) {
			c.until("00:12:30")
			c.start()
			var refused atomic.Int64
			c.BeforeWrite(func(w clienttest.Write) error {
				if w.Verb == "create" {
					if n := refused.Add(1); n <= 3 {
						return apierrors.NewForbidden(batchv1.Resource("jobs"), w.Key.Name, errors.New("exceeded quota"))
					}
				}
				return nil
			})
			c.until("00:16:00")
		},
	} {
		t.Run(name, func(t *testing.T) {
			begin(t, func(c *cluster) {
				tell(c)
				c.mu.Lock()
				defer c.mu.Unlock()
				got := strings.Join(c.diary, "\n") + "\n"
				plantest.Golden(t, filepath.Join("testdata", strings.ReplaceAll(name, " ", "_")+".txt"), got)
			})
		})
	}
}
