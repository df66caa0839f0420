package integration

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/standalone-kcm/controller-manager/pkg/api"
	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// Objects that should not exist make nothing panic, keep nobody waiting, and cost little.
func TestMalformedObjectsHarmNobody(t *testing.T) {
	c := cluster.Start(t)
	proxy, kubeconfig := c.CountingProxy(t, c.AdminKubeconfig)
	m := c.Manager(t, suite.ControllersFlag(), "--kubeconfig="+kubeconfig, "--use-service-account-credentials=false")
	b := &bench{t, c, c.Namespace(t)}
	// A manager that starts deletes Endpoints that have no Service. It is done with that when it has served one.
	b.service("early", func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "nobody"} })
	b.waitEndpoints("early")
	stored, pods := 0, 0
	for _, e := range suite.Entries() {
		for key, object := range e.Malformed {
			b.store(key, object)
			stored++
			if strings.HasPrefix(key, "pods/") {
				pods++
			}
		}
	}
	client, err := dynamic.NewForConfig(c.RESTConfig)
	if err != nil {
		t.Fatal(err)
	}
	b.wait("the server shows them", func() error {
		var errs []error
		for _, e := range suite.Entries() {
			for key, object := range e.Malformed {
				_, err := client.Resource(resourceOf(t, object)).Namespace(b.namespaceOf(object)).Get(t.Context(), path.Base(key), metav1.GetOptions{})
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	})
	b.create(deployment("web", 3))
	b.waitComplete("web")
	b.setImage("web", "web:2")
	b.waitComplete("web")

	// What the server refuses is tried again, with pauses that double: a few times in this span, not many.
	b.wait("the manager pauses", func() error {
		before := proxy.Requests().Total
		time.Sleep(5 * time.Second)
		if n := proxy.Requests().Total - before; n > 5*stored {
			return fmt.Errorf("%d requests in 5 s:\n%s", n, proxy.Requests())
		}
		return nil
	})
	if log := m.Log(); strings.Contains(log, "panicked") {
		t.Error("a controller panicked")
	}
	list, err := c.Client.CoreV1().Pods(b.ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 3+pods { // those of web, and those that are malformed
		t.Errorf("%d pods, want %d: %v", len(list.Items), 3+pods, err)
	}
	m.Kill(t) // and a manager that finds them when it starts
	m = c.Manager(t, suite.ControllersFlag())
	b.setImage("web", "web:3")
	b.waitComplete("web")
	if log := m.Log(); strings.Contains(log, "panicked") {
		t.Error("a controller panicked after a restart")
	}
}

// resourceOf returns the resource of an object as suite.Entry has it.
func resourceOf(t *testing.T, object string) schema.GroupVersionResource {
	t.Helper()
	var kind metav1.TypeMeta
	if err := json.Unmarshal([]byte(filled(object, "")), &kind); err != nil {
		t.Fatal(err)
	}
	resource, _ := meta.UnsafeGuessKindToResource(kind.GroupVersionKind())
	return resource
}

// namespaceOf returns the namespace of an object as suite.Entry has it; empty if objects of its kind have none.
func (b *bench) namespaceOf(object string) string {
	b.Helper()
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(filled(object, "")), &o); err != nil {
		b.Fatal(err)
	}
	if m, ok := api.BuiltIn(o.GroupVersionKind()); ok && !m.Namespaced {
		return ""
	}
	return cmp.Or(o.Namespace, b.ns)
}

// filled returns the object with its metadata.
func filled(object, metadata string) string {
	object = strings.ReplaceAll(object, `"metadata":${META}`, `"metadata":{`+metadata+`}`)
	if metadata == "" {
		object = strings.ReplaceAll(object, `,${META}`, "")
	}
	return strings.ReplaceAll(object, `${META}`, metadata)
}

// store puts an object where the API server keeps it, past the server. See suite.Entry for its key.
func (b *bench) store(key, object string) {
	b.Helper()
	parts := strings.Split(key, "/")
	name, resource := parts[len(parts)-1], strings.Join(parts[:len(parts)-1], "/")
	namespace := b.namespaceOf(object)
	metadata := fmt.Sprintf(`"namespace":%q,"name":%q,"uid":%q,"generation":1`, namespace, name, key)
	object = filled(object, metadata)
	if !json.Valid([]byte(object)) {
		b.Fatalf("%s is not JSON: %s", key, object)
	}
	body, err := json.Marshal(map[string][]byte{"key": []byte(path.Join("/registry", resource, namespace, name)), "value": []byte(object)})
	if err != nil {
		b.Fatal(err)
	}
	b.askEtcd("put", body)
	if namespace != b.ns { // nobody deletes it with its namespace
		b.Cleanup(func() { b.askEtcd("deleterange", body) })
	}
}

// askEtcd changes what the API server keeps.
func (b *bench) askEtcd(verb string, body []byte) {
	b.Helper()
	resp, err := http.Post(b.etcd()+"/v3/kv/"+verb, "application/json", bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b.Fatalf("%s %s: %s", verb, body, resp.Status)
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
