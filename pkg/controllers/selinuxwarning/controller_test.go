package selinuxwarning

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// bench is a server on which the controller works in virtual time.
type bench struct {
	*testing.T
	*clienttest.Server
	events   *record.FakeRecorder
	registry metrics.KubeRegistry
}

func run(t *testing.T, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t, clienttest.NewServer(), record.NewFakeRecorder(1000), metrics.NewKubeRegistry()}
		entry := New(Options{})
		c := managertest.Context(t, b.Server, entry, managertest.Cache{Example: &corev1.Pod{}},
			managertest.Cache{Example: &corev1.PersistentVolumeClaim{}}, managertest.Cache{Example: &corev1.PersistentVolume{}},
			managertest.Cache{Example: &storagev1.CSIDriver{}})
		c.Access.Events = b.events
		c.RegisterMetrics = func(all ...metrics.Registerable) { b.registry.MustRegister(all...) }
		managertest.Run(t, c, entry, func() { test(b) })
	})
}

func (b *bench) put(objects ...plan.Object) {
	b.Helper()
	for _, o := range objects {
		if _, err := b.Put(o); err != nil {
			b.Fatal(err)
		}
	}
	time.Sleep(time.Second)
	synctest.Wait()
}

func (b *bench) remove(o plan.Object, m client.Mapping) {
	b.Helper()
	if err := b.Delete(b.Context(), m, plan.KeyOf(o), metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	time.Sleep(time.Second)
	synctest.Wait()
}

// told returns how many events there were since it was last called.
func (b *bench) told() int {
	n := len(b.events.Events)
	for range n {
		<-b.events.Events
	}
	return n
}

// series returns the conflicts that the metrics show: the pods and their values.
func (b *bench) series() (all []string) {
	b.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			all = append(all, fmt.Sprintf("%s %s %s/%s=%s %s/%s=%s %g", f.GetName(), labels["property"], labels["pod1_namespace"],
				labels["pod1_name"], labels["pod1_value"], labels["pod2_namespace"], labels["pod2_name"], labels["pod2_value"],
				m.GetGauge().GetValue()))
		}
	}
	slices.Sort(all)
	return all
}

func (b *bench) want(what string, events, conflicts int) {
	b.Helper()
	if told, series := b.told(), b.series(); told != events || len(series) != conflicts {
		b.Errorf("%s: %d events, and the conflicts %s", what, told, strings.Join(series, ", "))
	}
}

// Conflicts come and go with pods, with the binding of their claims, and with what the driver of the volume can do.
func TestLifeOfAConflict(t *testing.T) { // ST-60, ST-65
	pods := client.MappingFor[*corev1.Pod]()
	run(t, func(b *bench) {
		one, two := newPod("a", claiming("disk"), labelled("s0:c1")), newPod("b", claiming("disk"), labelled("s0:c2"))
		claim := newClaim("disk")
		claim.Status.Phase = corev1.ClaimPending
		b.put(one, two, claim, newVolume("disk", csi("disk")))
		b.want("the claim is not bound", 0, 0)
		b.put(newClaim("disk"))
		b.want("the driver is not known", 0, 0)
		b.put(newDriver(ptr.To(true)))
		b.want("the driver mounts with labels", 2, 2)
		name := "selinux_warning_controller_selinux_volume_conflict SELinuxLabel "
		if diff := cmp.Diff([]string{name + "shop/a=:::s0:c1 shop/b=:::s0:c2 1", name + "shop/b=:::s0:c2 shop/a=:::s0:c1 1"},
			b.series()); diff != "" {
			b.Error(diff)
		}
		b.put(newDriver(ptr.To(true)), one)
		b.want("nothing happens", 0, 2)
		b.put(newDriver(ptr.To(false)))
		b.want("the driver does not any more", 0, 0)
		b.put(newDriver(ptr.To(true)))
		b.want("it does again", 2, 2)
		b.put(newPod("c", claiming("disk"), labelled("s0:c2")))
		b.want("a third pod comes", 2, 4)
		b.remove(two, pods)
		b.want("a pod goes", 0, 2)
		b.put(newPod("a", claiming("disk"), labelled("s0:c1"), phase(corev1.PodSucceeded)))
		b.want("a pod ends", 0, 0)
		b.remove(newPod("c"), pods)
		b.want("the last pod goes", 0, 0)
		if log := b.CountWrites(""); log != 2 { // the deletions of the test
			b.Error(b.Log())
		}
	})
}

// A debug container with another label is noticed.
func TestDebugContainers(t *testing.T) { // ST-61
	run(t, func(b *bench) {
		p := newPod("a", claiming("disk"), labelled("s0:c1"))
		b.put(append(storage(), p)...)
		b.want("there is no conflict", 0, 0)
		p = p.DeepCopy()
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "debug", VolumeMounts: []corev1.VolumeMount{{Name: "data"}},
			SecurityContext: &corev1.SecurityContext{SELinuxOptions: options("", "", "", "s0:c9")},
		}}}
		b.put(p)
		b.want("a debug container has another label", 1, 0)
	})
}

// When the PersistentVolume of a claim becomes another volume, its conflicts are those of that one.
func TestVolumeThatIsAnotherOne(t *testing.T) { // ST-60
	run(t, func(b *bench) {
		b.put(append(storage(), newPod("a", claiming("disk"), labelled("s0:c1")), newPod("b", claiming("disk"), labelled("s0:c2")))...)
		b.want("there is a conflict", 2, 2)
		b.remove(newVolume("disk", csi("disk")), client.MappingFor[*corev1.PersistentVolume]())
		b.want("the PersistentVolume is gone", 0, 0)
		b.put(newVolume("disk", csi("another")))
		b.want("another one has its name", 2, 2)
	})
}

func TestEntry(t *testing.T) { // ST-66, CLI-53
	c := New(Options{})
	if c.Name != "selinux-warning-controller" || c.Alias != "" || c.Account != c.Name || c.EventSource != "selinux_warning" ||
		!c.OffByDefault {
		t.Errorf("%+v", c)
	}
}
