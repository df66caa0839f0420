//go:build unix

package growth

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// hangs begins the names of namespaces in which no deletion is answered.
const hangs = "hangs-"

// A tenant deletes many namespaces whose webhook does not answer. The namespace of another one goes when each of them was tried once for a
// few seconds, and later ones go at once.
func TestNamespacesThatHangKeepNoOtherWaiting(t *testing.T) {
	const hang, usual, triesFirst = 60, 10 * time.Second, 36 * time.Second
	alone := slices.DeleteFunc(registry(t), func(c manager.Controller) bool { return c.Name != "namespace-controller" })
	inWorld(t, manager.Options{Controllers: alone}, func(w *world) {
		for i := range hang {
			w.leave(fmt.Sprint(hangs, i))
		}
		time.Sleep(time.Second)
		w.leave("other")
		if took := w.untilGone("other"); took > triesFirst+usual {
			t.Errorf("the namespace of another tenant was there for %v more", took)
		}
		time.Sleep(time.Minute)
		for i := range 3 {
			name := fmt.Sprint("later-", i)
			if w.leave(name); w.untilGone(name) > usual {
				t.Errorf("%s was still there after %v", name, usual)
			}
		}
		if left := len(apiserver.All[*corev1.Namespace](w.server)); left < hang {
			t.Errorf("only %d namespaces are left, although nothing in them could be deleted", left)
		}
	})
}

// leave makes a namespace with something in it, and has it deleted.
func (w *world) leave(name string) {
	w.Helper()
	for _, do := range []apiserver.Write{
		{Verb: apiserver.Create, Object: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}},
		{Verb: apiserver.Create, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: name}}},
		{Verb: apiserver.Delete, Resource: "namespaces", Name: name},
	} {
		do.By = "user"
		if _, err := w.server.Do(do); err != nil {
			w.Fatal(err)
		}
	}
}

// untilGone returns how long it takes until a namespace is gone, at most five minutes.
func (w *world) untilGone(name string) time.Duration {
	began := time.Now()
	for time.Since(began) < 5*time.Minute {
		if _, err := w.server.Get("namespaces", "", name); err != nil {
			break
		}
		time.Sleep(time.Second / 10)
	}
	return time.Since(began)
}
