package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// TestSameAsRealServer does the same things on the server in memory and on a real one, and compares the answers, and in
// the end what a watch tells of it all.
func TestSameAsRealServer(t *testing.T) {
	c := cluster.Start(t)
	sequences := 40
	if n, err := strconv.Atoi(os.Getenv("SIM_SEQUENCES")); err == nil {
		sequences = n
	}
	memory, real := bothSides(t, c)
	answers := 0
	for seed := range sequences {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { answers += compare(t, uint64(seed), memory, real) })
	}
	t.Logf("%d answers compared", answers)
}

// bothSides are a new server in memory and a real one.
func bothSides(t *testing.T, c *cluster.Cluster) (memory, real *side) {
	server := apiserver.New(1)
	for _, d := range customResources {
		server.Define(d)
	}
	memory = newSide(t, &rest.Config{Host: "http://memory", Transport: &apiserver.Client{Server: server, Name: "test"}, QPS: -1})
	config := rest.CopyConfig(c.RESTConfig)
	config.WarningHandler = rest.NoWarnings{}
	return memory, newSide(t, config)
}

// side is one of the two servers.
type side struct {
	client    *kubernetes.Clientset
	namespace string
	version   string               // when the namespace was made
	names     map[types.UID]string // of uids, so that they can be compared
	objects   map[string][]object  // by resource and name: all versions seen, the last one is current
}

type object = map[string]any

func newSide(t *testing.T, config *rest.Config) *side {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &side{client: client, names: map[types.UID]string{}}
}

// begin makes a namespace for a sequence.
func (s *side) begin(t *testing.T, name string) {
	body := fmt.Sprintf(`{"metadata":{"name":%q}}`, name)
	made := &corev1.Namespace{}
	if err := s.client.CoreV1().RESTClient().Post().Resource("namespaces").SetHeader("Content-Type",
		"application/json").Body([]byte(body)).Do(t.Context()).Into(made); err != nil {
		t.Fatal(err)
	}
	// The real server's admission creates no pod without it, and would add its token to each pod.
	account, err := s.client.CoreV1().ServiceAccounts(name).Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "default"}, AutomountServiceAccountToken: ptr.To(false),
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.version = account.ResourceVersion
	s.namespace, s.names, s.objects = name, map[types.UID]string{}, map[string][]object{}
}

var compared = []string{"pods", "replicasets", "deployments", "services", "endpoints", "leases"}

func (s *side) rest(resource string) rest.Interface {
	switch resource {
	case "replicasets", "deployments":
		return s.client.AppsV1().RESTClient()
	case "leases":
		return s.client.CoordinationV1().RESTClient()
	}
	return s.client.CoreV1().RESTClient()
}

func compare(t *testing.T, seed uint64, sides ...*side) (answers int) {
	random := rand.New(rand.NewPCG(seed, 3))
	name := fmt.Sprintf("same-%d-%d", os.Getpid(), seed)
	for _, s := range sides {
		s.begin(t, name)
	}
	var done []string
	for i := range 40 {
		a := randomAction(random, i)
		done = append(done, a.String())
		var results []string
		for _, s := range sides {
			results = append(results, s.do(t.Context(), a))
		}
		answers++
		if diff := cmp.Diff(results[1], results[0]); diff != "" {
			t.Fatalf("after\n%s\nthe real server (-) and the one in memory (+) differ:\n%s", strings.Join(done, "\n"), diff)
		}
	}
	for _, resource := range compared {
		end := maker{random}.valid(resource, lastOne)
		last := action{verb: "create", resource: resource, name: lastOne, body: func(*side, object) any { return end }}
		for _, initial := range []bool{false, true} {
			var told []string
			for _, s := range sides {
				if !initial {
					s.do(t.Context(), last)
				}
				told = append(told, s.watched(t, resource, initial))
			}
			if diff := cmp.Diff(told[1], told[0]); diff != "" {
				t.Fatalf("after\n%s\na watch of %s of the real server (-) and the one in memory (+) tell different things:\n%s",
					strings.Join(done, "\n"), resource, diff)
			}
		}
	}
	return answers
}

// action is something to do on both servers.
type action struct {
	verb, resource, name, sub string
	body                      func(s *side, current object) any
	contentType               string
	remark                    string
}

func (a action) String() string {
	return fmt.Sprintf("%s %s %s %s: %s", a.verb, a.resource, a.name, a.sub, a.remark)
}

// do does it and returns the answer, without what must differ.
func (s *side) do(ctx context.Context, a action) string {
	key := a.resource + "/" + a.name
	var current object
	if versions := s.objects[key]; len(versions) > 0 {
		current = versions[len(versions)-1]
	}
	c := s.rest(a.resource)
	var r *rest.Request
	switch a.verb {
	case "create":
		r = c.Post()
	case "update":
		r = c.Put()
	case "patch":
		r = c.Patch(types.PatchType(a.contentType))
	case "delete":
		r = c.Delete()
	case "get":
		r = c.Get()
	case "list":
		r = c.Get()
	}
	r = r.Namespace(s.namespace).Resource(a.resource)
	if a.verb != "create" && a.verb != "list" {
		r = r.Name(a.name)
	}
	if a.sub != "" {
		r = r.SubResource(a.sub)
	}
	if a.verb == "list" {
		r = r.Param("labelSelector", a.name)
	}
	if a.body != nil {
		text, err := json.Marshal(a.body(s, current))
		if err != nil {
			return err.Error()
		}
		r = r.Body(text)
		if a.contentType == "" {
			r = r.SetHeader("Content-Type", "application/json")
		}
	}
	code, answer, told := s.send(ctx, r.SetHeader("Accept", "application/json"))
	if code < 300 && answer["kind"] != "Status" && a.verb != "list" {
		s.objects[key] = append(s.objects[key], answer)
	}
	return told
}

// send sends a request. It returns the answer as it is, and as text without what must differ.
func (s *side) send(ctx context.Context, r *rest.Request) (code int, answer object, told string) {
	raw, _ := r.MaxRetries(0).Do(ctx).StatusCode(&code).Raw()
	if err := json.Unmarshal(raw, &answer); err != nil {
		return code, nil, fmt.Sprintf("%d %s", code, raw)
	}
	if code >= 300 {
		return code, answer, fmt.Sprintf("%d %v %v", code, answer["reason"], causes(answer))
	}
	return code, answer, fmt.Sprintf("%d %s", code, s.normal(answer))
}

// causes are the fields that were found to be invalid.
func causes(status object) (fields []string) {
	details, _ := status["details"].(object)
	list, _ := details["causes"].([]any)
	for _, c := range list {
		fields = append(fields, fmt.Sprint(c.(object)["field"]))
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// normal is an object without what must differ between two servers.
func (s *side) normal(o object) string {
	var copied object
	text, _ := json.Marshal(o)
	_ = json.Unmarshal(text, &copied)
	s.clean(copied)
	if items, ok := copied["items"].([]any); ok {
		for _, item := range items {
			s.clean(item.(object))
		}
		slices.SortFunc(items, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	text, _ = json.MarshalIndent(copied, "", " ")
	told := timestamps.ReplaceAllString(string(text), `"a time"`)
	for uid, name := range s.names {
		told = strings.ReplaceAll(told, string(uid), name) // jobs have theirs in labels
	}
	return told
}

var timestamps = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[\d:.]+Z"`)

func (s *side) clean(o object) {
	m, ok := o["metadata"].(object)
	if !ok {
		return
	}
	delete(m, "managedFields")
	if _, ok := m["resourceVersion"]; ok {
		m["resourceVersion"] = "some"
	}
	if _, ok := m["creationTimestamp"]; ok {
		m["creationTimestamp"] = "some"
	}
	if end, ok := m["deletionTimestamp"].(string); ok {
		at, _ := time.Parse(time.RFC3339, end)
		m["deletionTimestamp"] = time.Until(at).Round(10 * time.Second).String()
	}
	if prefix, ok := m["generateName"].(string); ok && prefix != "" {
		if name, _ := m["name"].(string); strings.HasPrefix(name, prefix) {
			m["name"] = prefix + fmt.Sprint(len(name)-len(prefix))
		}
	}
	s.nameUID(m)
	refs, _ := m["ownerReferences"].([]any)
	for _, ref := range refs {
		s.nameUID(ref.(object))
	}
	if details, ok := o["details"].(object); ok {
		s.nameUID(details)
	}
	if token, ok := m["continue"].(string); ok && token != "" {
		m["continue"] = "some"
	}
	if status, ok := o["status"].(object); ok && status["token"] != nil {
		status["token"] = "some"
	}
	if spec, ok := o["spec"].(object); ok {
		for _, field := range []string{"username", "groups", "extra"} { // who has signed a request
			delete(spec, field)
		}
		for _, field := range []string{"clusterIP", "clusterIPs"} {
			if _, ok := spec[field]; ok && fmt.Sprint(spec[field]) != "None" {
				spec[field] = "some"
			}
		}
	}
}

// nameUID puts a name in the place of a uid: the same one on both sides, because they are seen in the same order.
func (s *side) nameUID(o object) {
	uid, ok := o["uid"].(string)
	if !ok {
		return
	}
	if s.names[types.UID(uid)] == "" {
		s.names[types.UID(uid)] = fmt.Sprintf("uid-%d", len(s.names))
	}
	o["uid"] = s.names[types.UID(uid)]
}

// lastOne is the name of the object that is made when all has been done, so that who watches knows it.
const lastOne = "zz"

// watched is what a watch tells: of everything that has happened to a resource, or, with initial, of what there is.
func (s *side) watched(t *testing.T, resource string, initial bool) string {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := s.rest(resource).Get().Namespace(s.namespace).Resource(resource).SetHeader("Accept", "application/json").
		Param("watch", "true").Param("allowWatchBookmarks", "true")
	if initial {
		r = r.Param("sendInitialEvents", "true").Param("resourceVersionMatch", "NotOlderThan")
	} else {
		r = r.Param("resourceVersion", s.version)
	}
	stream, err := r.Stream(ctx)
	if err != nil {
		t.Fatalf("%s: %v", resource, err)
	}
	defer stream.Close()
	var told []string
	for decoder := json.NewDecoder(stream); ; {
		var e struct {
			Type   string
			Object object
		}
		if err := decoder.Decode(&e); err != nil {
			t.Fatalf("watch %s: %v, after\n%s", resource, err, strings.Join(told, "\n"))
		}
		meta := e.Object["metadata"].(object)
		if e.Type == "BOOKMARK" {
			if !initial {
				continue
			}
			slices.Sort(told)
			return strings.Join(append(told, fmt.Sprint("BOOKMARK ", e.Object["kind"], meta["annotations"])), "\n")
		}
		told = append(told, e.Type+" "+s.normal(e.Object))
		if !initial && meta["name"] == lastOne {
			return strings.Join(told, "\n")
		}
	}
}
