package integration

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/rbac"
	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// observer is what deploy/observer.yaml calls the account, the Deployment and the roles.
const observer = "controller-manager-observer"

var observerManifest = filepath.Join(deploy, "observer.yaml")

// observing is an observer that runs with the rights of its manifest.
type observing struct {
	*bench
	process *cluster.Manager
	args    []string // of it
	port    int
	token   string // of an account that may ask it
	begin   int64  // of the audit log
}

// observe installs the manifest of the observer, and runs one as what that installs, because here no pod runs anything.
func (b *bench) observe(args ...string) *observing {
	b.Helper()
	if b.CertKubeconfig == "" {
		b.Skip("another manager than ours has no observer")
	}
	b.Cleanup(func() { b.removeDeployed(observer) }) // a pod that a manager has made of it would stand for the next one
	b.Kubectl(b.T, "apply", "--validate=strict", "--filename", observerManifest)
	o := &observing{bench: b, port: b.ManagerPort, begin: b.AuditEnd(b.T)}
	b.Kubectl(b.T, "--namespace", b.ns, "create", "serviceaccount", "reader")
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: b.ns + "-debug-reader"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: observer + ":debug-reader"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: b.ns, Name: "reader"}}}
	if _, err := b.Client.RbacV1().ClusterRoleBindings().Create(b.Context(), binding, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := b.Client.RbacV1().ClusterRoleBindings().Delete(context.Background(), binding.Name, metav1.DeleteOptions{}); err != nil {
			b.Error(err)
		}
	})
	o.token = strings.TrimSpace(b.Kubectl(b.T, "--namespace", b.ns, "create", "token", "reader"))
	kubeconfig := b.KubeconfigOf(b.T, rbac.Home, observer)
	o.args = append([]string{"observe", "--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", o.port)}, args...)
	o.process = b.ManagerExactly(b.T, o.args...)
	return o
}

// restart ends the observer, and begins it with the same arguments.
func (o *observing) restart() {
	o.Helper()
	if code := o.process.Stop(o.T); code != 0 {
		o.Errorf("the observer ends with %d", code)
	}
	o.process = o.ManagerExactly(o.T, o.args...)
}

// explains returns what the observer says of a key; ok is false if it says nothing yet.
func (o *observing) explains(path string) (rec explain.Record, err error) {
	return rec, o.ask("explain/"+path, &rec)
}

// ask reads a page of the observer below /debug.
func (o *observing) ask(path string, into any) error {
	transport, err := rest.TransportFor(&rest.Config{BearerToken: o.token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		return err
	}
	url := fmt.Sprintf("https://127.0.0.1:%d/debug/%s", o.port, path)
	request, err := http.NewRequestWithContext(o.Context(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s %w", answer.Status, body, err)
	}
	return json.Unmarshal(body, into)
}

// plans waits until the observer plans these steps for a key, and no others.
func (o *observing) plans(path string, want ...string) {
	o.Helper()
	o.wait(fmt.Sprintf("the observer plans %q for %s", want, path), func() error {
		rec, err := o.explains(path)
		if err == nil && (!rec.Inferred || !slices.EqualFunc(rec.Steps, want, strings.HasPrefix)) {
			err = fmt.Errorf("%+v", rec)
		}
		return err
	})
}

// stand is a pod in kube-system that stands for a manager, because here no pod runs anything.
type stand struct {
	name   string
	remove func()
}

// standsFor makes a pod with the label and the account that pods of a program have. A tunnel to it leads to whoever has the port of
// managers. No two have one name: who plays the kubelet deletes pods by name, and may mean the one before.
func (b *bench) standsFor(program string) stand {
	b.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: program + "-" + b.ns + "-" + rand.String(5),
			Labels: map[string]string{"app.kubernetes.io/name": program}},
		Spec: corev1.PodSpec{ServiceAccountName: program, AutomountServiceAccountToken: ptr.To(false),
			Containers: []corev1.Container{{Name: "program", Image: "program"}}},
	}
	pods := b.Client.CoreV1().Pods(rbac.Home)
	if _, err := pods.Create(b.Context(), pod, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	remove := sync.OnceFunc(func() {
		if err := pods.Delete(context.Background(), pod.Name, *metav1.NewDeleteOptions(0)); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(remove)
	return stand{pod.Name, remove}
}

// collects has the command collect make a bundle of the observer, through a pod that stands for it.
func (o *observing) collects() {
	o.Helper()
	pod := o.standsFor(observer)
	defer pod.remove()
	file := filepath.Join(o.TempDir(), "bundle.tar.gz")
	m := o.ManagerExactly(o.T, "collect", "--file="+file, "--kubeconfig="+o.AdminKubeconfig)
	if code := m.Wait(o.T, patience); code != 0 {
		o.Fatalf("collect ends with %d: %s", code, m.Log())
	}
	packed, err := os.Open(file)
	if err != nil {
		o.Fatal(err)
	}
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		o.Fatal(err)
	}
	missing := sets.New("version.json", "server.txt", "errors.txt", pod.name+"/pod.yaml", pod.name+"/livez.txt", pod.name+"/configz.json",
		pod.name+"/metrics.txt", pod.name+"/explain.json", pod.name+"/agreement.json")
	for r := tar.NewReader(unpacked); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			o.Fatal(err)
		}
		missing.Delete(h.Name)
	}
	if len(missing) > 0 {
		o.Errorf("the bundle lacks %v", sets.List(missing))
	}
}

// tellsWhy has the command why ask the observer, through a pod that stands for it, with the credentials of an administrator.
func (o *observing) tellsWhy() {
	o.Helper()
	pod := o.standsFor(observer)
	defer pod.remove()
	o.wait("why says what the observer would do", func() error {
		m := o.ManagerExactly(o.T, "why", "deployment/web", "--namespace="+o.ns, "--kubeconfig="+o.AdminKubeconfig)
		code, text := m.Wait(o.T, patience), m.Log()
		for _, want := range []string{
			"Decided:", "deployment-controller about Deployment " + o.ns + "/web,",
			"create ReplicaSet web-", "(as an observer would, which has not seen it done); looks again in ",
			"pod kube-system/" + pod.name + " was asked what controllers have decided",
		} {
			if code != 0 || !strings.Contains(text, want) {
				return fmt.Errorf("exit code %d, there is no %q in\n%s", code, want, text)
			}
		}
		return nil
	})
}

// remove ends the observer, removes what the manifest has installed, and waits until nothing of it is left. A manager has to run.
func (o *observing) remove() {
	o.Helper()
	if code := o.process.Stop(o.T); code != 0 { // without its roles it would be refused
		o.Errorf("the observer ends with %d", code)
	}
	o.Kubectl(o.T, "delete", "--timeout=60s", "--filename", observerManifest)
	if left := o.Kubectl(o.T, "get", "--ignore-not-found", "--filename", observerManifest); strings.TrimSpace(left) != "" {
		o.Errorf("there is left of the observer:\n%s", left)
	}
}

// onlyRead checks that the observer has sent nothing but reads and reviews, and that nothing of it was refused.
func (o *observing) onlyRead() {
	o.Helper()
	requests, _ := o.Requests(o.T, o.begin)
	seen := 0
	for _, r := range requests {
		if r.User.Username != "system:serviceaccount:"+rbac.Home+":"+observer {
			continue
		}
		seen++
		reviews := r.Verb == "create" && strings.HasSuffix(r.ObjectRef.Resource, "reviews")
		if !slices.Contains([]string{"get", "list", "watch"}, r.Verb) && !reviews {
			o.Errorf("the observer has sent: %s %s", r.Verb, r.RequestURI)
		}
		if r.Forbidden() {
			o.Errorf("the observer may not %s %s: %s", r.Verb, r.RequestURI, r.Annotations["authorization.k8s.io/reason"])
		}
	}
	if seen < 30 {
		o.Errorf("%d requests of the observer", seen)
	}
}

// The observer plans what nobody carries out, and writes nothing, with the rights of its manifest. When a manager works, the observer
// plans nothing more, and sees what that has done.
func TestObserver(t *testing.T) {
	b := alone(t)
	o := b.observe()
	b.create(deployment("web", 2))
	o.plans("deployment/"+b.ns+"/web", "create ReplicaSet "+b.ns+"/web-")
	cluster.Always(t, time.Second, "nothing is carried out", func() error {
		if sets := b.sets(); len(sets) > 0 {
			return fmt.Errorf("there is %s", sets[0].Name)
		}
		return nil
	})
	o.tellsWhy()
	o.collects()
	b.Manager(t)
	b.waitComplete("web")
	o.plans("deployment/" + b.ns + "/web")
	o.plans("replicaset/" + b.ns + "/" + b.sets()[0].Name)
	b.wait("the pod of the manifest is admitted and runs", func() error {
		d, err := b.Client.AppsV1().Deployments(rbac.Home).Get(b.Context(), observer, metav1.GetOptions{})
		if err == nil && d.Status.AvailableReplicas != 1 {
			err = fmt.Errorf("%+v", d.Status)
		}
		return err
	})
	o.onlyRead()
	o.remove()
}
