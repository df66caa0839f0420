package options

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
)

// kubeconfig is one that can be loaded.
const kubeconfig = `{"apiVersion": "v1", "kind": "Config", "current-context": "a", "clusters": [{"name": "a", "cluster":
{"server": "https://127.0.0.1:1"}}], "users": [{"name": "a"}], "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}]}`

// TestLaunchers: the argument lists that distributions start kube-controller-manager with are accepted (CLI-80), and switch off what
// they are meant to: each file says why. Beyond that, only what is off by default is off. TestLaunchers of test/integration
// starts the manager with each of them.
func TestLaunchers(t *testing.T) {
	const bootstrapSigner, tokenCleaner = "bootstrap-signer-controller", "token-cleaner-controller"
	offByDefault := defaultOff()
	for launcher, want := range map[string]struct {
		off           []string // but for those that are off by default; nil: none
		alsoOn        []string // of those that are off by default
		withoutEffect []string
	}{
		"k0s":    {alsoOn: []string{bootstrapSigner, tokenCleaner}, withoutEffect: []string{"--cluster-name"}},
		"k3s":    {alsoOn: []string{tokenCleaner}, withoutEffect: []string{"--configure-cloud-routes"}},
		"kamaji": {alsoOn: []string{bootstrapSigner, tokenCleaner}, withoutEffect: []string{"--cluster-name"}},
		"rke2": {alsoOn: []string{tokenCleaner},
			withoutEffect: []string{"--configure-cloud-routes", "--flex-volume-plugin-dir"}},
		"talos": {alsoOn: []string{tokenCleaner}, withoutEffect: []string{"--configure-cloud-routes"}},
		"vcluster": {off: []string{"node-ipam-controller", "node-lifecycle-controller", "persistentvolume-attach-detach-controller",
			"persistentvolume-binder-controller", "persistentvolume-expander-controller", "ttl-controller"},
			withoutEffect: []string{"--cluster-name"}},
		"karmada": {off: allBut("namespace-controller", "garbage-collector-controller", "ttl-after-finished-controller",
			"certificatesigningrequest-cleaner-controller", "certificatesigningrequest-signing-controller",
			"clusterrole-aggregation-controller"),
			alsoOn: []string{bootstrapSigner, tokenCleaner}, withoutEffect: []string{"--cluster-name"}},
	} {
		t.Run(launcher, func(t *testing.T) {
			c, err := configureFor(controllers.Registry(), launcherArgs(t, launcher)...)
			if err != nil {
				t.Fatal(err)
			}
			off := slices.Concat(want.off, slices.DeleteFunc(slices.Clone(offByDefault), func(name string) bool {
				return slices.Contains(want.alsoOn, name)
			}))
			slices.Sort(off)
			var got []string
			for name := range c.Manager.Off {
				got = append(got, name)
			}
			slices.Sort(got)
			if !slices.Equal(got, off) {
				t.Errorf("off are\n%q, not\n%q", got, off)
			}
			if !slices.Equal(c.WithoutEffect, want.withoutEffect) {
				t.Errorf("without effect are %q, not %q", c.WithoutEffect, want.withoutEffect)
			}
		})
	}
}

// launcherArgs are the arguments in a file of testdata/launchers, with a kubeconfig that exists.
func launcherArgs(t *testing.T, launcher string) (args []string) {
	t.Helper()
	exists := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(exists, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("testdata", "launchers", launcher))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "--kubeconfig="):
			args = append(args, "--kubeconfig="+exists)
		case strings.HasPrefix(line, "--"):
			args = append(args, line)
		}
	}
	return args
}

// defaultOff are the controllers that are off unless they are named.
func defaultOff() (names []string) {
	for _, c := range controllers.Registry() {
		if c.OffByDefault {
			names = append(names, c.Name)
		}
	}
	return names
}

// allBut are all controllers that are on by default, but for these. The one that a flag of its own decides about is never off.
func allBut(on ...string) (names []string) {
	on = append(on, "serviceaccount-token-controller")
	for _, c := range controllers.Registry() {
		if !c.OffByDefault && !slices.Contains(on, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}
