package simulation

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// TestCreationsThatWaitInAWebhook: the namespace takes a creation that comes before its deletion, and none that comes later.
func TestCreationsThatWaitInAWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, link := apiserver.New(1), newLink(1, 0)
		begin(t, link, "webhook 4s resource=configmaps")
		client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://simulation",
			Transport: &apiserver.Client{Server: server, Network: link}})
		if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		create := func(name string) (time.Duration, error) {
			began := time.Now()
			_, err := client.CoreV1().ConfigMaps("shop").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}},
				metav1.CreateOptions{})
			return time.Since(began), err
		}
		early := make(chan error)
		go func() {
			took, err := create("early")
			if took == 0 || took > 4*time.Second {
				err = errors.Join(err, errors.New("it has taken "+took.String()))
			}
			early <- err
		}()
		synctest.Wait()
		if err := client.CoreV1().Namespaces().Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if took, err := create("late"); took != 0 || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			t.Errorf("after %v: %v", took, err)
		}
		if err := <-early; err != nil {
			t.Error(err)
		}
	})
}

// TestNamespacesInWhichCreationsWait plays the scenarios of namespaces while the creations of the manager wait in a webhook (NS-4), and
// random scripts of tenants. S17 judges that nothing is left behind.
func TestNamespacesInWhichCreationsWait(t *testing.T) {
	judged := 0
	examine := func(name string, o Outcome) {
		judged += o.Counts["S17"].Judged
		for _, v := range o.Violations {
			t.Errorf("%s: %s", name, v)
		}
	}
	for _, e := range suite.Entries() {
		if e.Controller != "namespace-controller" {
			continue
		}
		for _, scenario := range e.Scenarios {
			s := ScenarioScript(1)
			add(t, &s, 0, "fault m0 webhook 4s for=5m")
			examine(scenario.Name, PlayScenario(t, scenario, s, controllers.Registry))
		}
		for seed := range uint64(15) {
			s := suite.MixOf(e).Random(seed)
			s.Settings["garbage"] = "0"
			add(t, &s, 0, "fault m* webhook 4s for=2m")
			examine(s.String(), Run(t, s, controllers.Registry))
		}
	}
	if t.Logf("S17 had %d namespaces to judge", judged); judged < 10 {
		t.Error("those are too few")
	}
}
