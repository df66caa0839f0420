package faults

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, link := apiserver.New(1), New(1, time.Millisecond)
		client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://memory", Transport: &apiserver.Client{Server: server, Name: "test", Network: link}, QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		maps := client.CoreV1().ConfigMaps("default")
		create := func(name string) {
			if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		seen := func() int {
			list, err := maps.List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
			if err != nil {
				t.Fatal(err)
			}
			return len(list.Items)
		}
		create("old")
		time.Sleep(time.Minute)
		link.LagBehind("configmaps", 10*time.Second)
		began := time.Now()
		create("new")
		if n := seen(); n != 1 {
			t.Errorf("a server that lags shows %d objects, expected the old one", n)
		}
		w, err := maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		<-w.ResultChan()
		if e := <-w.ResultChan(); e.Object.(*corev1.ConfigMap).Name != "new" || time.Since(began) < 10*time.Second {
			t.Errorf("%v came after %v", e, time.Since(began))
		}
		if n := seen(); n != 2 {
			t.Errorf("when it has caught up it shows %d objects", n)
		}
		create("newest")
		link.Heal(time.Millisecond)
		if n := seen(); n != 3 {
			t.Errorf("after the fault there are %d objects", n)
		}
	})
}
