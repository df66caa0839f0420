package app

import (
	"encoding/json"
	"os"
	"reflect"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"
)

func TestThisBuild(t *testing.T) {
	stamped := apimachineryversion.Info{GitVersion: "v1.37.2+standalone", GitCommit: "c0ffee", GitTreeState: "clean",
		BuildDate: "2026-01-02T03:04:05Z",
		GoVersion: "go1.26", Platform: "linux/amd64"}
	bare := apimachineryversion.Info{GitVersion: "v1.37.2", GitCommit: "$Format:%H$", BuildDate: "1970-01-01T00:00:00Z",
		GoVersion: "go1.26", Platform: "linux/amd64"}
	none := apimachineryversion.Info{GitVersion: "v1.37.2+standalone", GoVersion: "go1.26", Platform: "linux/amd64"} // no git repository
	tagged := &debug.BuildInfo{Main: debug.Module{Version: "v0.2.0"}}
	checkout := &debug.BuildInfo{Main: debug.Module{Version: "v0.2.1-0.20260102030405-c0ffee+dirty"}, Settings: []debug.BuildSetting{
		{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "c0ffee"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
		{Key: "vcs.modified", Value: "true"}}}
	for _, test := range []struct {
		name, release string
		kubernetes    apimachineryversion.Info
		noted         *debug.BuildInfo
		want          build
		text          string
	}{
		{"make", "v0.2.0-3-gc0ffee", stamped, &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}},
			build{"v0.2.0-3-gc0ffee", "c0ffee", "clean", "2026-01-02T03:04:05Z", "v1.37.2+standalone", "go1.26", "linux/amd64"},
			"controller-manager v0.2.0-3-gc0ffee (commit c0ffee clean), in place of kube-controller-manager v1.37.2\ngo1.26 linux/amd64\n"},
		{"make without a repository", "", none, &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}},
			build{Version: "(devel)", Kubernetes: "v1.37.2+standalone", GoVersion: "go1.26", Platform: "linux/amd64"},
			"controller-manager (devel), in place of kube-controller-manager v1.37.2\ngo1.26 linux/amd64\n"},
		{"go install of a tag", "", bare, tagged,
			build{Version: "v0.2.0", Kubernetes: "v1.37.2", GoVersion: "go1.26", Platform: "linux/amd64"},
			"controller-manager v0.2.0, in place of kube-controller-manager v1.37.2\ngo1.26 linux/amd64\n"},
		{"go build in a checkout", "", bare, checkout,
			build{"v0.2.1-0.20260102030405-c0ffee+dirty", "c0ffee", "dirty", "2026-01-02T03:04:05Z", "v1.37.2", "go1.26", "linux/amd64"},
			"controller-manager v0.2.1-0.20260102030405-c0ffee+dirty (commit c0ffee dirty), in place of kube-controller-manager " +
				"v1.37.2\ngo1.26 linux/amd64\n"},
		{"Go has noted nothing", "", bare, nil,
			build{Version: "(devel)", Kubernetes: "v1.37.2", GoVersion: "go1.26", Platform: "linux/amd64"},
			"controller-manager (devel), in place of kube-controller-manager v1.37.2\ngo1.26 linux/amd64\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := describe(test.release, test.kubernetes, test.noted)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("- want, + got:\n%s", diff)
			}
			if got.String() != test.text {
				t.Errorf("got  %s\nwant %s", got, test.text)
			}
		})
	}
}

func TestVersionCommand(t *testing.T) {
	release = "v0.2.0"
	t.Cleanup(func() { release = "" })
	for format, decode := range map[string]func([]byte, *build) error{
		"json": func(b []byte, into *build) error { return json.Unmarshal(b, into) },
		"yaml": func(b []byte, into *build) error { return yaml.UnmarshalStrict(b, into) },
	} {
		for _, args := range [][]string{{"version", "-o", format}, {"version", "--output=" + format}} {
			code, stdout, stderr := execute(t, t.Context(), newStarted().Program, args...)
			var got build
			if err := decode([]byte(stdout), &got); err != nil || code != 0 || stderr != "" {
				t.Errorf("%q: %d, %v, %s%s", args, code, err, stdout, stderr)
			}
			if diff := cmp.Diff(thisBuild(), got); diff != "" || got.Version != "v0.2.0" {
				t.Errorf("%q, - want, + got:\n%s", args, diff)
			}
		}
	}
	if _, stdout, _ := execute(t, t.Context(), newStarted().Program, "version"); !strings.HasPrefix(stdout, "controller-manager v0.2.0") {
		t.Error(stdout)
	}
	code, stdout, stderr := execute(t, t.Context(), newStarted().Program, "version", "-o", "xml")
	if code != 1 || stdout != "" || stderr != "Error: --output must be 'json' or 'yaml', not \"xml\"\n" {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
}

// TestTheMakefileStampsTheRelease: the linker ignores a variable that does not exist.
func TestTheMakefileStampsTheRelease(t *testing.T) {
	makefile, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if want := "-X " + reflect.TypeFor[build]().PkgPath() + ".release=$(RELEASE)"; !strings.Contains(string(makefile), want) {
		t.Errorf("the Makefile does not have %s", want)
	}
}
