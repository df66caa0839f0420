package persistentvolumebinder

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func TestVolumesOfReplacedClaimsAreHeld(t *testing.T) {
	begin := func(c *cluster) {
		c.BeforeWrite(func(clienttest.Write) error { return context.DeadlineExceeded }) // the leader before sees them one after the other
		for i := range 8 {
			name := fmt.Sprint("c-", i)
			c.put(volume(fmt.Sprint("v-", i), "phase=Bound of="+name), claim(name, "uid=restored-"+name))
		}
	}
	all := func(phase string) string {
		var said []string
		for i := range 8 {
			said = append(said, fmt.Sprintf("v-%d %s", i, phase))
		}
		return strings.Join(said, ", ")
	}
	for name, free := range map[string]func(*cluster){
		"by an operator": func(c *cluster) {
			c.context.Brake.SetReleased(true)
			time.Sleep(time.Minute)
		},
		"by time": func(*cluster) { time.Sleep(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, Options{}, begin, func(c *cluster) {
				c.BeforeWrite(nil)
				time.Sleep(10 * time.Minute)
				c.phases(all("Bound"))
				if held := c.context.Brake.Holds(time.Now()); len(held) != 1 || held[0].What != heldVolumes {
					t.Errorf("held: %+v", held)
				}
				free(c)
				c.phases(all("Released"))
				if held := c.context.Brake.Holds(time.Now()); len(held) != 0 {
					t.Errorf("still held: %+v", held)
				}
			})
		})
	}
}

func TestWhatIsHeldStaysHeld(t *testing.T) {
	restored := func(c *cluster) {
		for i := range 8 {
			name := fmt.Sprint("c-", i)
			c.put(volume(fmt.Sprint("v-", i), "phase=Bound policy=Delete by=d of="+name), claim(name, "uid=restored-"+name))
		}
	}
	held := func(c *cluster, first int, when string) {
		c.Helper()
		for i := first; i < 8; i++ {
			if v := c.volume(fmt.Sprint("v-", i)); v.Status.Phase != corev1.VolumeBound {
				c.Errorf("%s: %s is %s", when, v.Name, v.Status.Phase)
			}
		}
	}
	run(t, Options{}, func(c *cluster) {
		c.BeforeWrite(func(clienttest.Write) error { return context.DeadlineExceeded })
		restored(c)
	}, func(c *cluster) {
		c.BeforeWrite(nil)
		time.Sleep(time.Minute)
		held(c, 0, "at first")
		for i := range 20 {
			c.put(volume(fmt.Sprint("other-", i), fmt.Sprint("phase=Bound of=other-", i)),
				claim(fmt.Sprint("other-", i), fmt.Sprintf("volume=other-%d complete phase=Bound", i)))
		}
		time.Sleep(time.Minute)
		held(c, 0, "many volumes more")
		for i := range 4 {
			v := c.volume(fmt.Sprint("v-", i))
			v.Spec.ClaimRef.UID = ""
			c.put(v)
		}
		time.Sleep(time.Minute)
		held(c, 4, "half of them are repaired")
		c.remove("c-4")
		time.Sleep(time.Minute)
		held(c, 4, "a new claim has gone")
	}, func(c *cluster) {
		time.Sleep(time.Minute)
		held(c, 4, "another process leads")
		if holds := c.context.Brake.Holds(time.Now()); len(holds) != 1 || time.Since(holds[0].Since) < 5*time.Minute {
			t.Errorf("held: %+v", holds)
		}
		c.put(claim("seen", "volume=w complete phase=Bound"), volume("w", "phase=Bound policy=Delete by=d of=seen"))
		clienttest.Settle()
		c.remove("seen") // and that is seen
		time.Sleep(time.Minute)
		if v := c.volume("w"); v.Status.Phase != corev1.VolumeReleased {
			t.Errorf("a volume whose claim was seen to go is %s", v.Status.Phase)
		}
		time.Sleep(20 * time.Minute)
		held(c, 4, "the hour is not over")
	}, func(c *cluster) {
		time.Sleep(15 * time.Minute)
		for i := 4; i < 8; i++ {
			if v := c.volume(fmt.Sprint("v-", i)); v.Status.Phase != corev1.VolumeReleased {
				t.Errorf("after an hour: %s is %s", v.Name, v.Status.Phase)
			}
		}
	})
}

func TestRestoredOfAFew(t *testing.T) {
	few := map[string]func(i int) (plan.Object, plan.Object){
		"a namespace": func(i int) (plan.Object, plan.Object) {
			v, c := volume(fmt.Sprint("v-", i), fmt.Sprint("phase=Bound of=c-", i)),
				claim(fmt.Sprint("c-", i), fmt.Sprint("uid=restored-", i))
			v.Spec.ClaimRef.Namespace, c.Namespace = "tenant", "tenant"
			return v, c
		},
		"a class": func(i int) (plan.Object, plan.Object) {
			return volume(fmt.Sprint("v-", i), fmt.Sprint("class=local phase=Bound of=c-", i)),
				claim(fmt.Sprint("c-", i), fmt.Sprint("class=local uid=restored-", i))
		},
	}
	for name, restored := range few {
		t.Run(name, func(t *testing.T) {
			run(t, Options{}, func(c *cluster) {
				c.BeforeWrite(func(clienttest.Write) error { return context.DeadlineExceeded })
				for i := range 30 {
					c.put(volume(fmt.Sprint("o-", i), fmt.Sprint("phase=Bound of=o-", i)),
						claim(fmt.Sprint("o-", i), fmt.Sprintf("volume=o-%d complete phase=Bound", i)))
				}
				for i := range 6 {
					v, of := restored(i)
					c.put(v, of)
				}
			}, func(c *cluster) {
				c.BeforeWrite(nil)
				time.Sleep(10 * time.Minute)
				for i := range 6 {
					if v := c.volume(fmt.Sprint("v-", i)); v.Status.Phase != corev1.VolumeBound {
						t.Errorf("%s is %s", v.Name, v.Status.Phase)
					}
				}
			})
		})
	}
}

func TestRestoredOneAfterTheOther(t *testing.T) {
	run(t, Options{}, func(c *cluster) {
		for i := range 8 {
			c.put(claim(fmt.Sprint("c-", i), fmt.Sprintf("class=manual uid=restored-%d", i)))
		}
		for i := range 8 {
			v := volume(fmt.Sprint("v-", i), fmt.Sprintf("class=manual phase= policy=Delete by=d of=c-%d", i))
			v.CreationTimestamp = metav1.Now()
			c.put(v)
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		for i := range 8 {
			if v := c.volume(fmt.Sprint("v-", i)); v.Status.Phase == corev1.VolumeReleased {
				t.Errorf("%s is Released", v.Name)
			}
		}
	})
	run(t, Options{}, func(c *cluster) {
		v := volume("v", "phase= policy=Delete by=d of=data")
		v.CreationTimestamp = metav1.Now()
		c.put(claim("data", "uid=new class=manual"), v)
		time.Sleep(restoredTogether + time.Second)
		c.phases("v Released")
	})
}

func TestReplacementsThatWereSeen(t *testing.T) {
	run(t, Options{}, func(c *cluster) {
		for i := range 8 {
			name := fmt.Sprint("c-", i)
			c.put(volume(fmt.Sprint("v-", i), "for="+name), claim(name, ""))
		}
		clienttest.Settle()
		for i := range 8 {
			c.remove(fmt.Sprint("c-", i))
			c.put(claim(fmt.Sprint("c-", i), "uid=new"))
		}
		clienttest.Settle()
		for i := range 8 {
			if v := c.volume(fmt.Sprint("v-", i)); v.Status.Phase != corev1.VolumeReleased {
				t.Errorf("%s is %s", v.Name, v.Status.Phase)
			}
		}
	})
}
