package cronjob

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
)

// yearly are schedules with zones, above all those in which a clock change matters.
var yearly = []struct{ name, text, zone string }{
	{"quarters", "*/15 1-3 * * *", "Europe/Berlin"},
	{"six-hours", "0 */6 * * *", "UTC"},
	{"gap", "30 2 * * *", "America/New_York"},
	{"twice", "30 1 * * *", "America/New_York"},
	{"berlin", "15 2,3 * * *", "Europe/Berlin"},
	{"south", "0 2 * * *", "Australia/Sydney"},
	{"half-hour", "45 1 * * *", "Australia/Lord_Howe"},
	{"midnight", "0 0 * * *", "America/Havana"},
	{"workdays", "0 9 * * mon-fri", "Asia/Kathmandu"},
	{"either", "0 12 13 * fri", "Europe/London"},
	{"leap-day", "0 0 29 2 *", "UTC"},
	{"monthly", "@monthly", "Pacific/Chatham"},
	{"every", "@every 37h", "UTC"},
}

// expected are the names of the Jobs for all times of a schedule that the library names, one after the other.
func expected(t *testing.T, name, text, zone string, began, ends time.Time) (names []string) {
	schedule, err := parse(text, in(t, zone))
	if err != nil {
		t.Fatal(err)
	}
	for at := schedule.Next(began); at.Before(ends); at = schedule.Next(at) {
		names = append(names, fmt.Sprintf("%s-%d", name, at.Unix()/60))
	}
	return names
}

// Over two years there is one Job for each time that the library names, within a second of it, and no other, although the controller
// sleeps from one time to the next. The first hundred days have a leap day and the changes of the clock in spring.
func TestCJ4CJ50TwoYears(t *testing.T) { // CJ-4, CJ-27, CJ-29, CJ-30, CJ-50, CJ-60
	for _, s := range yearly {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			ends := began.AddDate(0, 0, plantest.Tries(2*365+1, 100))
			world := see(backup(every(s.text), func(o *batchv1.CronJob) {
				o.Name, o.Spec.TimeZone, o.CreationTimestamp = s.name, ptr.To(s.zone), metav1.NewTime(began)
			}))
			var got []string
			for now := began; now.Before(ends); now = time.Now() {
				_, p := planJobs(now, world)
				if job := createdJob(carriedOut(p.Steps)); job != nil {
					got = append(got, job.Name)
					if at, _ := scheduledTime(world.CronJob, job); now.Sub(at) > time.Second {
						t.Errorf("%s is created %v after its time", job.Name, now.Sub(at))
					}
				}
				world = carry(now, world)
				for i, job := range world.Jobs { // which the kubelets have run meanwhile
					world.Jobs[i] = job.DeepCopy()
					world.Jobs[i].Status = batchv1.JobStatus{
						CompletionTime: &metav1.Time{Time: now},
						Conditions:     []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}},
					}
				}
				world = carry(now, carry(now, world))
				if len(world.Jobs) > 3 {
					t.Fatalf("%d Jobs are kept", len(world.Jobs))
				}
				time.Sleep(p.Requeue)
			}
			if diff := cmp.Diff(expected(t, s.name, s.text, s.zone, began, ends), got); diff != "" || len(got) == 0 {
				t.Errorf("%s (-want +got):\n%s", s.name, diff)
			}
		})
	}
}

// The same with the whole controller, for two days in which clocks change: it wakes up by itself.
func TestClockChanges(t *testing.T) { // CJ-4, CJ-29
	for _, from := range []string{"2000-03-25 12:00:00", "2000-04-01 20:00:00", "2000-10-28 12:00:00"} {
		date, err := time.Parse(time.DateTime, from)
		if err != nil {
			t.Fatal(err)
		}
		beginAfter(t, date.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), func(c *cluster) {
			began := time.Now().Truncate(time.Second)
			ends := began.AddDate(0, 0, 2)
			var mu sync.Mutex
			got := map[string][]string{}
			c.AfterWrite(func(w clienttest.Write) error {
				if w.Verb == "create" {
					mu.Lock()
					defer mu.Unlock()
					name := w.Key.Name[:strings.LastIndex(w.Key.Name, "-")]
					got[name] = append(got[name], w.Key.Name)
				}
				return nil
			})
			for _, s := range yearly {
				c.put(backup(every(s.text), func(o *batchv1.CronJob) {
					o.Name, o.UID, o.Spec.TimeZone, o.CreationTimestamp = s.name, "", ptr.To(s.zone), metav1.NewTime(began)
				}))
			}
			time.Sleep(time.Until(ends))
			synctest.Wait()
			for _, s := range yearly {
				if diff := cmp.Diff(expected(t, s.name, s.text, s.zone, began, ends), got[s.name]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", s.name, diff)
				}
			}
		})
	}
}
