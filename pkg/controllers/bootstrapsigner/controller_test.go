package bootstrapsigner

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cluster-bootstrap/token/jws"

	"github.com/standalone-kcm/controller-manager/internal/credentials/bootstraptoken"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// cluster is a server at which the controller works.
type cluster struct {
	*clienttest.Server
	t *testing.T
}

// inCluster runs a test in virtual time, which begins at epoch, with a cluster of these objects at which the controller has nothing
// left to do.
func inCluster(t *testing.T, before func(clienttest.Write) error, test func(c *cluster), objects ...plan.Object) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(epoch.Add(-10 * time.Minute)))
		c, entry := &cluster{clienttest.NewServer(), t}, New(Options{})
		c.put(objects...)
		c.BeforeWrite(before)
		from := managertest.Context(t, c.Server, entry, managertest.Cache{Example: &corev1.Secret{}, Selector: bootstraptoken.Selector()},
			managertest.Cache{Example: &corev1.ConfigMap{}, Selector: selector()})
		managertest.Run(t, from, entry, func() { test(c) })
	})
}

func (c *cluster) put(objects ...plan.Object) {
	for _, o := range objects {
		if _, err := c.Put(o); err != nil {
			c.t.Error(err)
		}
	}
}

func (c *cluster) delete(o plan.Object) {
	mapping := client.MappingFor[*corev1.Secret]()
	if err := c.Delete(c.t.Context(), mapping, plan.KeyOf(o), metav1.DeleteOptions{}); err != nil {
		c.t.Error(err)
	}
	wait(time.Second)
}

func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// expect waits a second and verifies the signatures as kubeadm does: of these tokens there are some, and no others.
func (c *cluster) expect(when, content string, ids ...string) {
	c.t.Helper()
	wait(time.Second)
	mapping := client.MappingFor[*corev1.ConfigMap]()
	m := &corev1.ConfigMap{}
	if err := c.Get(c.t.Context(), mapping, clusterInfo(), m); err != nil {
		c.t.Error(err)
	}
	for _, id := range ids {
		if !jws.DetachedTokenIsValid(m.Data["jws-kubeconfig-"+id], content, id, secretKey) {
			c.t.Errorf("%s: the signature of %s is %q", when, id, m.Data["jws-kubeconfig-"+id])
		}
	}
	if len(m.Data) != 1+len(ids) {
		c.t.Errorf("%s: the ConfigMap has %v", when, m.Data)
	}
}

// Signatures follow tokens and the kubeconfig within a second, each change with one write.
func TestSignaturesFollow(t *testing.T) { // BOOT-11, BOOT-15, BOOT-22
	inCluster(t, nil, func(c *cluster) {
		c.expect("at the start", kubeconfig, "aaaaaa")
		c.put(tokenSecret("bbbbbb"))
		c.expect("after a new token", kubeconfig, "aaaaaa", "bbbbbb")
		c.put(info(map[string]string{"kubeconfig": "new"}))
		c.expect("after a new kubeconfig without signatures", "new", "aaaaaa", "bbbbbb")
		c.delete(tokenSecret("aaaaaa"))
		c.expect("after a deletion", "new", "bbbbbb")
		c.put(tokenSecret("bbbbbb", "usage-bootstrap-signing", "false"))
		c.expect("after a token was taken out of use", "new")
		if n := len(c.Writes()) - c.CountWrites("delete"); n != 5 || c.CountWrites("update ConfigMap cluster-info") != 5 {
			t.Errorf("%d writes: %v", n, c.Log())
		}
	}, info(nil), tokenSecret("aaaaaa"))
}

// Signatures go when their tokens expire, also if nobody deletes these.
func TestSignaturesExpire(t *testing.T) { // BOOT-33
	inCluster(t, nil, func(c *cluster) {
		c.expect("at the start", kubeconfig, "aaaaaa", "bbbbbb", "cccccc")
		wait(89*time.Minute - time.Second)
		c.expect("before the first expires", kubeconfig, "aaaaaa", "bbbbbb", "cccccc")
		wait(time.Minute)
		c.expect("after the first has expired", kubeconfig, "bbbbbb", "cccccc")
		wait(10 * time.Minute)
		c.expect("after the second has expired", kubeconfig, "cccccc")
		if n := len(c.Writes()); n != 3 {
			t.Errorf("%d writes: %v", n, c.Log())
		}
	}, info(nil), tokenSecret("aaaaaa", "expiration", at(90*time.Minute)), tokenSecret("bbbbbb", "expiration", at(100*time.Minute)),
		tokenSecret("cccccc", "expiration", ""))
}

// What is there is taken over without a write.
func TestTakenOverWithoutAWrite(t *testing.T) { // BOOT-16
	inCluster(t, nil, func(c *cluster) {
		if log := c.Log(); len(log) > 0 {
			t.Errorf("writes: %v", log)
		}
	}, info(signed(kubeconfig, "aaaaaa")), tokenSecret("aaaaaa"), tokenSecret("bbbbbb", "token-id", "x"))
}

// A missing ConfigMap is not created, and signed when somebody creates it.
func TestAMissingConfigMap(t *testing.T) { // BOOT-11
	inCluster(t, nil, func(c *cluster) {
		if log := c.Log(); len(log) > 0 {
			t.Errorf("writes: %v", log)
		}
		c.put(info(nil))
		c.expect("after it was created", kubeconfig, "aaaaaa")
	}, tokenSecret("aaaaaa"))
}

// A write that fails is tried again, and one that meets the write of somebody else is made anew from that (BOOT-20, BOOT-30).
func TestFailuresAreRetried(t *testing.T) {
	inCluster(t, clienttest.RefuseFirst(12, apierrors.NewInternalError(errors.New("no"))), func(c *cluster) {
		wait(20 * time.Minute)
		c.expect("after failures", kubeconfig, "aaaaaa")
	}, info(nil), tokenSecret("aaaaaa", "expiration", ""))

	inCluster(t, nil, func(c *cluster) {
		c.FreezeWatches(client.KindFor[*corev1.ConfigMap]())
		c.put(info(map[string]string{"kubeconfig": "new"}))
		c.put(tokenSecret("bbbbbb", "expiration", ""))
		wait(time.Minute)
		c.ResumeWatches(client.KindFor[*corev1.ConfigMap]())
		wait(2 * time.Minute)
		c.expect("after a conflict", "new", "aaaaaa", "bbbbbb")
	}, info(nil), tokenSecret("aaaaaa", "expiration", ""))
}
