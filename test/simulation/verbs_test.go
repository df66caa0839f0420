package simulation

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// customResources are those of testdata/verbs.txt.
var customResources = []apiserver.Custom{
	{GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, Resource: "widgets", Status: true},
	{GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}, Resource: "gadgets", Cluster: true},
}

// define defines a custom resource on a real server, and waits until it is served.
func (s *side) define(t *testing.T, c apiserver.Custom) {
	scope, subresources := "Namespaced", ""
	if c.Cluster {
		scope = "Cluster"
	}
	if c.Status {
		subresources = `,"subresources":{"status":{}}`
	}
	body := fmt.Sprintf(`{"metadata":{"name":"%[1]s.%[2]s"},"spec":{"group":%[2]q,"scope":%[3]q,"names":{"plural":%[1]q,"singular":%[4]q,"kind":%[5]q},
		"versions":[{"name":%[6]q,"served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}%[7]s}]}}`,
		c.Resource, c.Group, scope, strings.ToLower(c.Kind), c.Kind, c.Version, subresources)
	r := s.client.CoreV1().RESTClient().Post().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").
		SetHeader("Content-Type", plainJSON).Body([]byte(body))
	if code, _, told := s.send(t.Context(), r); code != http.StatusCreated && code != http.StatusConflict {
		t.Fatal(told)
	}
	path := fmt.Sprintf("/apis/%s/%s/%s", c.Group, c.Version, c.Resource)
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		code, _, _ := s.send(ctx, s.client.CoreV1().RESTClient().Get().AbsPath(path))
		return code == http.StatusOK, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestVerbsSameAsRealServer sends the requests of testdata/verbs.txt to both servers.
func TestVerbsSameAsRealServer(t *testing.T) {
	memory, real := bothSides(t, cluster.Start(t))
	namespace := fmt.Sprintf("verbs-%d", os.Getpid())
	for _, c := range customResources {
		real.define(t, c)
	}
	memory.begin(t, namespace) // from here on uids are counted, so the definitions come first: only one side makes them
	real.begin(t, namespace)
	text, err := os.ReadFile("testdata/verbs.txt")
	if err != nil {
		t.Fatal(err)
	}
	noted := [2]map[string]string{{"NS": namespace}, {"NS": namespace}}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		told := memory.line(t, line, noted[0])
		if diff := cmp.Diff(real.line(t, line, noted[1]), told); diff != "" {
			t.Errorf("%s\nthe real server (-) and the one in memory (+) differ:\n%s", line, diff)
		}
	}
}

// contentTypes are what the third words of lines mean.
var contentTypes = map[string]string{
	"json": plainJSON, "merge": mergePatch, "strategic": "application/strategic-merge-patch+json",
	"patch": "application/json-patch+json", "apply": "application/apply-patch+yaml",
}

// line sends the request of a line: METHOD PATH, and TYPE BODY or "as KIND". Words in it that begin with $ are what was
// noted before: the version and the token for the next page of the last answer that had one; with "mark" in its query, the
// version stays as $MARK.
func (s *side) line(t *testing.T, line string, noted map[string]string) string {
	t.Helper()
	for name, value := range noted {
		line = strings.ReplaceAll(line, "$"+name, value)
	}
	words := strings.SplitN(line, " ", 4)
	target, err := url.Parse(words[1])
	if err != nil {
		t.Fatal(err)
	}
	r := s.client.CoreV1().RESTClient().Verb(words[0]).AbsPath(target.Path).SetHeader("Accept", plainJSON)
	query := target.Query()
	mark := query.Has("mark")
	query.Del("mark")
	for key := range query {
		r = r.Param(key, query.Get(key))
	}
	switch {
	case len(words) < 4:
	case words[2] == "as":
		r = r.SetHeader("Accept", "application/json;as="+words[3]+";g=meta.k8s.io;v=v1")
	default:
		r = r.SetHeader("Content-Type", contentTypes[words[2]]).Body([]byte(words[3]))
	}
	_, answer, told := s.send(t.Context(), r)
	if meta, ok := answer["metadata"].(object); ok {
		note(noted, "RV", meta["resourceVersion"])
		note(noted, "CONTINUE", meta["continue"])
		if mark {
			note(noted, "MARK", meta["resourceVersion"])
		}
	}
	return told
}

func note(noted map[string]string, name string, value any) {
	if text, ok := value.(string); ok && text != "" {
		noted[name] = text
	}
}
