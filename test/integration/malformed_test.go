package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// malformed are objects that no server accepts today. An old version, or somebody with access to etcd, may have stored them
// all the same, and then every watch brings them. ${META} stands for namespace, name and uid.
var malformed = map[string]string{
	"deployments/no-selector": `{"apiVersion":"apps/v1","kind":"Deployment","metadata":${META},
		"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web"}]}}}}`,
	"deployments/empty":            `{"apiVersion":"apps/v1","kind":"Deployment","metadata":${META}}`,
	"deployments/unknown-operator": `{"apiVersion":"apps/v1","kind":"Deployment","metadata":${META},"spec":{"selector":{"matchExpressions":[{"key":"a","operator":"Like"}]}}}`,
	"deployments/selects-others":   `{"apiVersion":"apps/v1","kind":"Deployment","metadata":${META},"spec":{"selector":{"matchLabels":{"app":"other"}},"template":{"metadata":{"labels":{"app":"this"}}}}}`,
	"deployments/absurd": `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"deployment.kubernetes.io/revision":"92233720368547758079",
			"deprecated.deployment.rollback.to":"-7"},${META}},
		"spec":{"replicas":-3,"minReadySeconds":-1,"revisionHistoryLimit":-1,"progressDeadlineSeconds":-5,
			"selector":{"matchLabels":{"app":"absurd"}},
			"strategy":{"type":"Sideways","rollingUpdate":{"maxSurge":"abc%","maxUnavailable":"-50%"}},
			"template":{"metadata":{"labels":{"app":"absurd"},"annotations":{"deployment.kubernetes.io/revision":"x"}},"spec":{"containers":[{"name":"web"}]}}},
		"status":{"observedGeneration":99,"replicas":-1,"availableReplicas":7,"collisionCount":-2147483648,
			"conditions":[{"type":"Progressing"},{"type":"Progressing","status":"Perhaps"}]}}`,
	"replicasets/no-selector": `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":${META}}`,
	"replicasets/negative": `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"annotations":{"deployment.kubernetes.io/revision":"-1",
			"deployment.kubernetes.io/desired-replicas":"1e9","deployment.kubernetes.io/max-replicas":"-2147483649",
			"deployment.kubernetes.io/revision-history":",,x,"},${META}},
		"spec":{"replicas":-5,"selector":{"matchLabels":{"app":"negative"}},"template":{"metadata":{"labels":{"app":"negative"}}}},
		"status":{"replicas":-2,"observedGeneration":-1}}`,
	"services/specs/bare": `{"apiVersion":"v1","kind":"Service","metadata":${META}}`,
	"services/specs/odd": `{"apiVersion":"v1","kind":"Service","metadata":${META},
		"spec":{"selector":{"":"","app":"absurd"},"ports":[{"port":0},{"port":-1,"targetPort":""},{"port":-1,"protocol":"X"}],"ipFamilies":["IPv9"]}}`,
	"pods/two-controllers": `{"apiVersion":"v1","kind":"Pod","metadata":{"ownerReferences":[
		{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"no-selector","uid":"replicasets/no-selector","controller":true},
		{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"negative","uid":"replicasets/negative","controller":true}],"labels":{"app":"negative"},${META}},
		"spec":{"nodeName":"nowhere","containers":[{"name":"web"}]}}`,
	"pods/timeless": `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"absurd"},${META}},"spec":{"nodeName":"nowhere"},
		"status":{"phase":"Finished","podIP":"nonsense","podIPs":[{"ip":""},{"ip":"1.2.3.4.5"}],"startTime":"0001-01-01T00:00:00Z",
			"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"9999-12-31T23:59:59Z"},{"type":"Ready","status":"False"}]}}`,
}

// Objects that should not exist make nothing panic, keep nobody waiting, and cost little.
func TestMalformedObjectsHarmNobody(t *testing.T) {
	c := cluster.Start(t)
	proxy, kubeconfig := c.CountingProxy(t, c.AdminKubeconfig)
	m := c.Manager(t, "--controllers=deployment,replicaset,endpoint,podgc", "--kubeconfig="+kubeconfig, "--use-service-account-credentials=false")
	b := &bench{t, c, c.Namespace(t)}
	for path, object := range malformed {
		b.store(path, object)
	}
	b.wait("the server shows them", func() error {
		list, err := c.Client.AppsV1().Deployments(b.ns).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) < 5 {
			err = fmt.Errorf("%d Deployments", len(list.Items))
		}
		return err
	})
	b.create(deployment("web", 3))
	b.waitComplete("web")
	b.setImage("web", "web:2")
	b.waitComplete("web")

	// What the server refuses is tried again, with pauses that double: a few times in this span, not many.
	b.wait("the manager pauses", func() error {
		before := proxy.Requests().Total
		time.Sleep(5 * time.Second)
		if n := proxy.Requests().Total - before; n > 5*len(malformed) {
			return fmt.Errorf("%d requests in 5 s:\n%s", n, proxy.Requests())
		}
		return nil
	})
	if log := m.Log(); strings.Contains(log, "panicked") {
		t.Error("a controller panicked")
	}
	if n := len(b.pods()); n != 3+2 { // those of web, and the two that are malformed
		t.Errorf("%d pods, want 5", n)
	}
	m.Kill(t) // and a manager that finds them when it starts
	m = c.Manager(t, "--controllers=deployment,replicaset,endpoint,podgc")
	b.setImage("web", "web:3")
	b.waitComplete("web")
	if log := m.Log(); strings.Contains(log, "panicked") {
		t.Error("a controller panicked after a restart")
	}
}

// store puts an object where the API server keeps it, past the server. A path is, for example, deployments/web.
func (b *bench) store(path, object string) {
	b.Helper()
	parts := strings.Split(path, "/")
	name, resource := parts[len(parts)-1], strings.Join(parts[:len(parts)-1], "/")
	meta := fmt.Sprintf(`"namespace":%q,"name":%q,"uid":%q,"generation":1`, b.ns, name, path)
	object = strings.ReplaceAll(object, `"metadata":${META}`, `"metadata":{`+meta+`}`)
	object = strings.ReplaceAll(object, `${META}`, meta)
	if !json.Valid([]byte(object)) {
		b.Fatalf("%s is not JSON: %s", path, object)
	}
	body, err := json.Marshal(map[string][]byte{"key": []byte("/registry/" + resource + "/" + b.ns + "/" + name), "value": []byte(object)})
	if err != nil {
		b.Fatal(err)
	}
	resp, err := http.Post(b.etcd()+"/v3/kv/put", "application/json", bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b.Fatalf("store %s: %s", path, resp.Status)
	}
}

// etcd is the address of the control plane's etcd.
func (b *bench) etcd() string {
	b.Helper()
	config, err := os.ReadFile(filepath.Join(b.Dir, "kwok.yaml"))
	if err != nil {
		b.Fatal(err)
	}
	found := regexp.MustCompile(`--etcd-servers=(\S+)`).FindSubmatch(config)
	if found == nil {
		b.Fatal(errors.New("kwok.yaml does not say where etcd is"))
	}
	return string(found[1])
}
