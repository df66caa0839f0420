package chart

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const root = "../../.."

// program returns a program that "make chart" names.
func program(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatalf("%s names no program: run \"make chart\"", variable)
	}
	return path
}

// output runs a program in the root of the repository.
func output(t *testing.T, name string, args ...string) (stdout string, err error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = root
	var problem bytes.Buffer
	c.Stderr = &problem
	text, err := c.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, problem.String())
	}
	return string(text), err
}

func render(t *testing.T, values ...string) (string, error) {
	t.Helper()
	args := []string{"template", "release", "deploy/chart", "--namespace", "kube-system", "--kube-version", "v1.37.2"}
	for _, v := range values {
		args = append(args, "--set-json", v)
	}
	return output(t, program(t, "HELM"), args...)
}

// objects returns the objects in a stream of YAML, by kind, namespace and name, without the labels that only tell who has installed them.
func objects(t *testing.T, stream string) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for document := range strings.SplitSeq("\n"+stream, "\n---") {
		var o map[string]any
		if err := yaml.UnmarshalStrict([]byte(document), &o); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if o == nil {
			continue
		}
		metadata := o["metadata"].(map[string]any)
		if labels, ok := metadata["labels"].(map[string]any); ok {
			maps.DeleteFunc(labels, func(name string, _ any) bool {
				return strings.HasPrefix(name, "app.kubernetes.io/") || strings.HasPrefix(name, "helm.sh/")
			})
			if len(labels) == 0 {
				delete(metadata, "labels")
			}
		}
		name := fmt.Sprintf("%v %v/%v", o["kind"], metadata["namespace"], metadata["name"])
		if all[name] != nil {
			t.Errorf("%s is there twice", name)
		}
		all[name] = o
	}
	return all
}

// The chart gives the objects that the other manifests give, in each mode.
func TestSameObjects(t *testing.T) {
	overlay := func(name string) string {
		text, err := output(t, program(t, "KUBECTL"), "kustomize", "deploy/kustomize/overlays/"+name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	observer, err := os.ReadFile(filepath.Join(root, "deploy", "observer.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for mode, manifests := range map[string]string{
		"beside": overlay("beside-upstream"), "standalone": overlay("standalone"), "observer": string(observer),
	} {
		// Only the manifest of the observer keeps a history.
		text, err := render(t, fmt.Sprintf("mode=%q", mode), fmt.Sprintf("history=%t", mode == "observer"))
		if err != nil {
			t.Fatal(err)
		}
		// The Lease that keeps pods from leading too soon is made once, as by "kubectl create".
		text, lease, _ := strings.Cut(text, "# Source: controller-manager/templates/lease.yaml\n")
		if hook := strings.Contains(lease, "helm.sh/hook: pre-install"); hook != (mode == "beside") {
			t.Errorf("%s: the Lease of the hand-over: %q", mode, lease)
		}
		want, got := objects(t, manifests), objects(t, text)
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if !reflect.DeepEqual(want[name], got[name]) {
				t.Errorf("%s: %s is\n%s\nin the chart, and elsewhere\n%s", mode, name, asText(t, got[name]), asText(t, want[name]))
			}
			delete(got, name)
		}
		if len(got) > 0 {
			t.Errorf("%s: only the chart has %q", mode, slices.Sorted(maps.Keys(got)))
		}
		if len(want) < 6 {
			t.Errorf("%s: only %d objects", mode, len(want))
		}
	}
}

func asText(t *testing.T, o any) string {
	t.Helper()
	text, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What can be set is obeyed, and what makes no sense is refused in a line that says so.
func TestValues(t *testing.T) {
	for _, test := range []struct{ values, says string }{
		{`image={"repository":"example.com/cm","digest":"sha256:` + strings.Repeat("0", 64) + `"}`, "image: \"example.com/cm@sha256:0000"},
		{`mode="standalone"`, "- --history-dir=/var/lib/history\n"},
		{`mode="beside";controllers="deployment,replicaset"`, "- --controllers=deployment,replicaset\n"},
		{`mode="standalone";extraVolumes=[{"name":"keys","secret":{"secretName":"keys"}}]`, "secretName: keys\n"},
		{`mode="standalone";history=false;extraVolumeMounts=[{"name":"keys","mountPath":"/keys"}]`, "mountPath: /keys\n"},
		{`mode="standalone";extraArgs=["--cluster-cidr=10.0.0.0/16"];roles="all"`, "- \"--cluster-cidr=10.0.0.0/16\""},
		{`mode="standalone";monitoring={"serviceMonitor":{"enabled":true,"labels":{"release":"prometheus"}}}`, "release: prometheus"},
		{`mode="standalone";monitoring={"serviceMonitor":{"enabled":true}}`, "name: controller-manager:metrics-reader"},
		{`mode="beside";monitoring={"prometheusRule":{"enabled":true}}`, `job="standalone-controller-manager"`},
		{`mode="standalone";monitoring={"dashboard":{"enabled":true}}`, "controller-manager.json: |"},
		{`mode="observer";monitoring={"serviceMonitor":{"enabled":true}}`, "job: controller-manager-observer"},
		{`mode="observer";tolerations=[{"operator":"Exists"}];nodeSelector={"a":"b"}`, "tolerations:\n      - operator: Exists\n"},
		{`mode="standalone";tolerations=[{"key":"etcd"}];nodeSelector={"a":"b"}`, "kubernetes.io/os: linux\n        a: b\n"},
	} {
		text, err := render(t, strings.Split(test.values, ";")...)
		if err != nil || !strings.Contains(text, test.says) {
			t.Errorf("%s: %v, without %s", test.values, err, test.says)
			continue
		}
		objects(t, text)
	}
	for _, test := range []struct{ values, says string }{
		{`mode="fast"`, "/mode"},
		{`replicas=0`, "/replicas"},
		{`replica=3`, "replica"},
		{`extraArgs=["cluster-cidr"]`, "/extraArgs/0"},
		{`mode="observer";roles="all"`, "roles: all does not go with mode: observer"},
		{`mode="observer";monitoring={"dashboard":{"enabled":true}}`, "do not go with mode: observer"},
	} {
		if _, err := render(t, strings.Split(test.values, ";")...); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %s", test.values, err, test.says)
		}
	}
	if text, err := render(t, `mode="beside"`, `handoverLease=false`); err != nil || strings.Contains(text, "kind: Lease") {
		t.Errorf("the Lease of the hand-over is there, or: %v", err)
	}
	_, err := output(t, program(t, "HELM"), "template", "release", "deploy/chart", "--namespace", "default")
	if err == nil || !strings.Contains(err.Error(), "install the chart with --namespace kube-system") {
		t.Errorf("another namespace: %v", err)
	}
}

func TestLint(t *testing.T) {
	if _, err := output(t, program(t, "HELM"), "lint", "--strict", "--namespace", "kube-system", "deploy/chart"); err != nil {
		t.Error(err)
	}
}
