package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/agreement"
	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// agreementWork has a bit of all that users make.
const agreementWork = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {work: agreement}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: web}]}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, labels: {work: agreement}}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: db}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: report, labels: {work: agreement}}
spec:
  completions: 3
  parallelism: 2
  template: {metadata: {labels: {app: report}}, spec: {restartPolicy: Never, containers: [{name: c, image: report}]}}
---
apiVersion: v1
kind: Service
metadata: {name: web, labels: {work: agreement}}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, labels: {work: agreement}}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: all, labels: {work: agreement}}
spec: {hard: {pods: "8"}}
`

// An observer beside our own manager agrees with it, with the rights of its manifest, and says so to people.
func TestObserverAgreesWithOurManager(t *testing.T) {
	b := alone(t)
	o := b.observe("--leader-elect-resource-name=" + b.ns) // other tests leave their lease behind
	o.standsFor(observer)
	b.Manager(t)
	b.Apply(t, b.ns, agreementWork)
	b.waitComplete("web")
	for round := range 3 {
		b.Kubectl(t, "-n", b.ns, "scale", "deployment/web", fmt.Sprintf("--replicas=%d", 2+round))
		b.Kubectl(t, "-n", b.ns, "set", "env", "deployment/web", fmt.Sprintf("ROUND=%d", round))
		b.waitComplete("web")
	}
	b.Kubectl(t, "-n", b.ns, "delete", "--wait=false", "deployment,job,service,poddisruptionbudget,statefulset", "--selector=work=agreement")
	var r agreement.Report
	b.wait("the observer has compared its plans, and none is pending", func() error {
		if err := o.ask("agreement", &r); err != nil {
			return err
		}
		agreed, pending := 0, 0
		for _, one := range r.Controllers {
			agreed += one.Verdicts[agreement.Agreed]
			// No cache shows what these delete, and namespaces of other tests may take their time.
			if one.Controller != "garbage-collector-controller" && one.Controller != "namespace-controller" {
				pending += one.Pending
			}
		}
		if agreed < 40 || pending > 0 {
			return fmt.Errorf("%d agreed, %d pending: %+v %+v", agreed, pending, r.Controllers, r.Disagreements)
		}
		return nil
	})
	if len(r.Disagreements) > 0 {
		t.Errorf("our manager does otherwise: %+v", r.Disagreements)
	}
	text := o.summary(0)
	for _, want := range []string{"CONTROLLER", "replicaset-controller", "unexplained"} {
		if !strings.Contains(text, want) {
			t.Errorf("the summary has no %q:\n%s", want, text)
		}
	}
	if err := json.Unmarshal([]byte(o.summary(0, "--output=json")), &r); err != nil {
		t.Error(err)
	}
	o.onlyRead()
	o.remove()
}

// Where nobody does what is planned, the observer notices, and the summary ends with an error.
func TestObserverNoticesWhatIsNotDone(t *testing.T) {
	b := alone(t)
	o := b.observe("--leader-elect-resource-name=" + b.ns) // other tests leave their lease behind
	o.standsFor(observer)
	b.Manager(t, "--controllers=*,-job-controller")
	b.Apply(t, b.ns, agreementWork)
	cluster.Eventually(t, 2*time.Minute, "that a Job has no pods is noticed", func() error {
		var r agreement.Report
		err := o.ask("agreement", &r)
		ofJob := func(d agreement.Disagreement) bool { return d.Controller == "job-controller" }
		if err == nil && (!slices.ContainsFunc(r.Disagreements, ofJob) || r.Unexplained() == 0) {
			planned, failed := o.explains("job/" + b.ns + "/report")
			err = fmt.Errorf("%+v; of the Job: %+v, %v", r, planned, failed)
		}
		return err
	})
	if text := o.summary(1); !strings.Contains(text, "not done") {
		t.Errorf("the summary says\n%s", text)
	}
	o.remove()
}

// summary has the command ask the observer, with the credentials of an administrator.
func (o *observing) summary(code int, more ...string) string {
	o.Helper()
	m := o.ManagerExactly(o.T, append([]string{"observe", "--summary", "--kubeconfig=" + o.AdminKubeconfig}, more...)...)
	if got := m.Wait(o.T, patience); got != code {
		o.Errorf("the exit code is %d, want %d", got, code)
	}
	return m.Log()
}
