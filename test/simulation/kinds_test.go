package simulation

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// example is an object of a kind, and what may be changed of it.
type example struct {
	Resource, Group        string
	Object, Change, Status object
}

// examples reads testdata/kinds.yaml.
func examples(t *testing.T, namespace string) (all []example) {
	text, err := os.ReadFile("testdata/kinds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(suite.RootCAFile())
	if err != nil {
		t.Fatal(err)
	}
	der := signingRequest(t)
	encode := base64.StdEncoding.EncodeToString
	replaced := strings.NewReplacer("NAMESPACE", namespace, "AUTHORITY", strconv.Quote(string(authority)), "STUB_REQUEST", encode(der),
		"SIGNING_REQUEST", encode(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))).Replace(string(text))
	if err := yaml.UnmarshalStrict([]byte(replaced), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// signingRequest is one for a certificate.
func signingRequest(t *testing.T) []byte {
	key, err := rsa.GenerateKey(rand.Reader, 3072) // those of pods may not be shorter
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "x"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// TestEveryKindSameAsRealServer does the same with an object of each kind on both servers.
func TestEveryKindSameAsRealServer(t *testing.T) {
	c := cluster.Start(t)
	memory, real := bothSides(t, c)
	namespace := fmt.Sprintf("kinds-%d", os.Getpid())
	memory.begin(t, namespace)
	real.begin(t, namespace)
	for _, e := range examples(t, namespace) {
		t.Run(e.Resource, func(t *testing.T) {
			r := memory.resource(t, e)
			if diff := cmp.Diff(real.resource(t, e), r); diff != "" {
				t.Fatalf("discovery of the real server (-) and the one in memory (+) differs:\n%s", diff)
			}
			for _, step := range e.steps(r, namespace) {
				told := memory.step(t, step)
				if diff := cmp.Diff(real.step(t, step), told); diff != "" {
					t.Errorf("%s\nthe real server (-) and the one in memory (+) differ:\n%s", step, diff)
				}
			}
		})
	}
}

// resource is what discovery says of the resource of an example, with what controllers need to know.
func (s *side) resource(t *testing.T, e example) (found metav1.APIResource) {
	lists, err := s.client.Discovery().ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		for _, r := range list.APIResources {
			group, version, grouped := strings.Cut(list.GroupVersion, "/")
			if !grouped {
				group, version = "", list.GroupVersion
			}
			if r.Name == e.Resource && group == e.Group {
				slices.Sort(r.Verbs)
				return metav1.APIResource{Name: r.Name, Kind: r.Kind, Namespaced: r.Namespaced, SingularName: r.SingularName, Group: group,
					Version: version, Verbs: r.Verbs}
			}
		}
	}
	t.Fatalf("there is no resource %s", e.Resource)
	return found
}

// step is a request for both servers.
type step struct {
	verb, path, contentType string
	body                    object
	stale                   string // what is done to the version of the object that is read before, and sent with the body
	remark                  string
}

func (s step) String() string { return fmt.Sprint(s.verb, " ", s.path, " ", s.remark, " ", s.body) }

const (
	plainJSON  = "application/json"
	mergePatch = "application/merge-patch+json"
)

// steps are what is done with an example.
func (e example) steps(r metav1.APIResource, namespace string) []step {
	all := "/api/" + r.Version
	if r.Group != "" {
		all = "/apis/" + r.Group + "/" + r.Version
	}
	if r.Namespaced {
		all += "/namespaces/" + namespace
	}
	all += "/" + r.Name
	name := namespace + "-x"
	one := all + "/" + name
	made := clone(e.Object)
	made["metadata"] = object{"name": name, "labels": object{"test": namespace}}
	if e.Resource == "replicationcontrollers" || e.Resource == "jobs" {
		delete(made["metadata"].(object), "labels") // they get some by default
	}
	patch := func(path, remark string, body object) step {
		return step{verb: http.MethodPatch, path: path, contentType: mergePatch, body: body, remark: remark}
	}
	background := object{"propagationPolicy": "Background"}
	steps := []step{
		{verb: http.MethodPut, path: one, contentType: plainJSON, body: made, remark: "that is not there"},
		{verb: http.MethodDelete, path: one, contentType: plainJSON, body: background, remark: "in case it was created"},
		{verb: http.MethodPost, path: all, contentType: plainJSON, body: made},
		{verb: http.MethodPost, path: all, contentType: plainJSON, body: made, remark: "again"},
		patch(one, "annotations", object{"metadata": object{"annotations": object{"a": "b"}}}),
		patch(one, "labels", object{"metadata": object{"labels": object{"a": "b", "test": namespace}}}),
		patch(one, "its content", e.Change),
	}
	if e.Status != nil {
		steps = append(steps,
			patch(one, "the status, by the wrong path", object{"status": e.Status}),
			patch(one+"/status", "the status",
				object{"status": e.Status, "metadata": object{"labels": object{"c": "d"}, "annotations": object{"c": "d"}}}))
	}
	return append(steps,
		step{verb: http.MethodPut, path: one, contentType: plainJSON, stale: "unset", remark: "without a version"},
		step{verb: http.MethodPut, path: one, contentType: plainJSON, stale: "1", remark: "with an old version"},
		step{verb: http.MethodGet, path: all + "?fieldSelector=spec.nothing%3Dx"},
		step{verb: http.MethodGet, path: all + "?fieldSelector=metadata.name%3D" + name},
		step{verb: http.MethodDelete, path: one + "?dryRun=All"},
		step{verb: http.MethodDelete, path: one},
		step{verb: http.MethodGet, path: one},
		step{verb: http.MethodDelete, path: one, contentType: plainJSON, body: background},
		step{verb: http.MethodGet, path: one},
	)
}

// step sends a request and returns the answer.
func (s *side) step(t *testing.T, what step) string {
	t.Helper()
	path, query, _ := strings.Cut(what.path, "?")
	body := what.body
	if what.stale != "" {
		_, current, _ := s.send(t.Context(), s.client.CoreV1().RESTClient().Get().AbsPath(path))
		meta, _ := current["metadata"].(object)
		delete(meta, "managedFields")
		if delete(meta, "resourceVersion"); what.stale != "unset" && meta != nil {
			meta["resourceVersion"] = what.stale
		}
		body = current
	}
	r := s.client.CoreV1().RESTClient().Verb(what.verb).AbsPath(path).SetHeader("Accept", plainJSON)
	for _, pair := range strings.Split(query, "&") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			r = r.Param(key, strings.ReplaceAll(value, "%3D", "="))
		}
	}
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		r = r.Body(text).SetHeader("Content-Type", what.contentType)
	}
	_, _, told := s.send(t.Context(), r)
	return told
}
