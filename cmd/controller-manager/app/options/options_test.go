package options

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// implemented are the controllers that the tests pretend to have.
func implemented() []manager.Controller {
	return slices.DeleteFunc(controllers.Registry(), func(c manager.Controller) bool {
		return c.Name != "deployment-controller" && c.Name != "replicaset-controller"
	})
}

// parse returns the options that the arguments amount to.
func parse(args ...string) (*Options, error) { return parseFor(implemented(), args...) }

func parseFor(registry []manager.Controller, args ...string) (*Options, error) {
	o := New(registry)
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, name := range o.Flags().Order {
		all.AddFlagSet(o.Flags().FlagSets[name])
	}
	all.SetNormalizeFunc(o.Flags().NormalizeNameFunc)
	return o, all.Parse(args)
}

// configure returns what comes of the arguments when the server is somewhere.
func configure(args ...string) (Config, error) { return configureFor(implemented(), args...) }

func configureFor(registry []manager.Controller, args ...string) (Config, error) {
	o, err := parseFor(registry, append([]string{"--master=http://127.0.0.1:1"}, args...)...)
	if err != nil {
		return Config{}, err
	}
	if err := o.Features.Apply(); err != nil {
		return Config{}, err
	}
	return o.Config()
}

func mustConfigure(t *testing.T, args ...string) Config {
	t.Helper()
	c, err := configure(args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return c
}

// TestFlagsAreThoseOfTheOriginal compares names, types and defaults with what the original says of itself (CLI-10..49).
func TestFlagsAreThoseOfTheOriginal(t *testing.T) {
	text, err := os.ReadFile("testdata/flags.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		want[name] = rest
	}
	delete(want, "#")
	delete(want, "help")    // of the command
	delete(want, "version") // of the command
	want["feature-gates"] = "name=true|false,..."
	for name, kind := range map[string]string{ // our own, and our own default
		"leader-elect-on-loss":                      "string exit",
		"replicaset-pod-failure-backoff":            "bool true",
		"statefulset-replace-stuck-pods":            "bool false",
		"endpoint-cleanup-when-disabled":            "bool false",
		"brake-share":                               "float 0.5",
		"brake-least":                               "int 5",
		"history-dir":                               "string",
		"history-size":                              "quantity 64Mi",
		"concurrent-disruption-syncs":               "int32 5", // the original's is 1
		"taint-eviction-respect-disruption-budgets": "bool false",
		"terminated-pod-gc-max-age":                 "duration 0s",
		"terminated-pod-gc-threshold-per-namespace": "int32 0",
	} {
		want[name] = kind
	}

	got := map[string]string{}
	for section, fs := range New(controllers.Registry()).Flags().FlagSets {
		fs.VisitAll(func(f *pflag.Flag) {
			if _, twice := got[f.Name]; twice {
				t.Errorf("--%s is also in section %q", f.Name, section)
			}
			kind, _ := pflag.UnquoteUsage(f)
			if kind == "" {
				kind = "bool"
			}
			got[f.Name] = strings.TrimSpace(kind + " " + f.DefValue)
		})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags differ (- original, + ours):\n%s", diff)
	}
}

func TestDefaults(t *testing.T) {
	got := mustConfigure(t)
	if got.Client == nil || got.Client.Host != "http://127.0.0.1:1" || got.Client.UserAgent != "" || got.Client.QPS != 0 {
		t.Errorf("client configuration: %v", got.Client)
	}
	if got.Manager.Component != "kube-controller-manager" {
		t.Errorf("CI-1: component %q", got.Manager.Component)
	}
	if got.Manager.QPS != -1 || got.Manager.Burst != 0 || got.Manager.ContentType != "application/vnd.kubernetes.protobuf" {
		t.Errorf("CLI-19..21: %v, %v, %q", got.Manager.QPS, got.Manager.Burst, got.Manager.ContentType)
	}
	if got.Manager.MinResyncPeriod != 12*time.Hour || got.Manager.StartInterval != 0 || got.Manager.ShutdownTimeout != 10*time.Second {
		t.Errorf("CLI-22..24: %v, %v, %v", got.Manager.MinResyncPeriod, got.Manager.StartInterval, got.Manager.ShutdownTimeout)
	}
	if off := mustConfigure(t, "--brake-share=0", "--brake-least=0"); got.Manager.Brake != (brake.Budget{Share: 0.5, MinObjects: 5}) ||
		off.Manager.Brake != (brake.Budget{Share: -1, MinObjects: -1}) {
		t.Errorf("brakes: %+v, and off: %+v", got.Manager.Brake, off.Manager.Brake)
	}
	if on := mustConfigure(t, "--history-dir=/var/lib/history", "--history-size=128Mi"); got.History.Dir != "" ||
		got.History.Size.Value() != 64<<20 || on.History.Dir != "/var/lib/history" || on.History.Size.Value() != 128<<20 {
		t.Errorf("history: %+v, and on: %+v", got.History, on.History)
	}
	l := got.Manager.LeaderElection
	if !got.Manager.LeaderElect || l.LeaseDuration != 15*time.Second || l.RenewDeadline != 10*time.Second ||
		l.RetryPeriod != 2*time.Second || l.Name != "kube-controller-manager" || l.Namespace != "kube-system" ||
		l.ResourceLock != "leases" || l.OnLoss != "exit" {
		t.Errorf("LE-1: %v, %+v", got.Manager.LeaderElect, l)
	}
	if len(got.WithoutEffect) > 0 {
		t.Errorf("flags without effect, though none was given: %q", got.WithoutEffect)
	}
}

func TestRateLimits(t *testing.T) {
	for _, test := range []struct {
		name  string
		args  []string
		qps   float32
		burst int
	}{
		{"CLI-19 nothing given is no limit", nil, -1, 0},
		{"CLI-19 qps given, burst has its default", []string{"--kube-api-qps=50"}, 50, 30},
		{"CLI-20 burst given, qps has its default", []string{"--kube-api-burst=7"}, 20, 7},
		{"CLI-19 the default given is a limit", []string{"--kube-api-qps=20"}, 20, 30},
		{"CLI-1 underscores", []string{"--kube_api_qps=1.5", "--kube_api_burst", "2"}, 1.5, 2},
		{"CLI-19 less than nothing is handed on", []string{"--kube-api-qps=-1"}, -1, 30},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := mustConfigure(t, test.args...)
			if c.Manager.QPS != test.qps || c.Manager.Burst != test.burst {
				t.Errorf("qps %v, burst %v", c.Manager.QPS, c.Manager.Burst)
			}
		})
	}
}

func TestBadFlags(t *testing.T) {
	for _, test := range []struct {
		name string
		args string
		want string
	}{
		{"CLI-5 unknown flag", "--x", "unknown flag: --x"},
		{"CLI-5 bad duration", "--min-resync-period=abc",
			`invalid argument "abc" for "--min-resync-period" flag: time: invalid duration "abc"`},
		{"CLI-3 no configuration file", "--config=x", "unknown flag: --config"},
		{"CLI-49 an ignored flag has a type", "--concurrent-service-syncs=many",
			`invalid argument "many" for "--concurrent-service-syncs" flag: strconv.ParseInt: parsing "many": invalid syntax`},
		{"CLI-31 bad address", "--bind-address=x", `invalid argument "x" for "--bind-address" flag: failed to parse IP: "x"`},
		{"CLI-43 bad vmodule", "--vmodule=x", `invalid argument "x" for "--vmodule" flag: "x" does not have the pattern=N format`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := parse(strings.Fields(test.args)...); err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestInvalidValues(t *testing.T) {
	for _, test := range []struct {
		name string
		args string
		want string // part of the error
	}{
		{"CLI-13 no deployment workers", "--concurrent-deployment-syncs=0", "--concurrent-deployment-syncs must be at least 1, not 0"},
		{"CLI-14 no replicaset workers", "--concurrent-replicaset-syncs=-1", "--concurrent-replicaset-syncs must be at least 1, not -1"},
		{"CLI-15 no endpoints workers", "--concurrent-endpoint-syncs=0", "--concurrent-endpoint-syncs must be at least 1, not 0"},
		{"CLI-16 negative batch period", "--endpoint-updates-batch-period=-1s",
			"--endpoint-updates-batch-period must not be negative: -1s"},
		{"CLI-19 qps is no number", "--kube-api-qps=NaN", "--kube-api-qps must be a number, not NaN"},
		{"no encoding", "--kube-api-content-type=foo", "--kube-api-content-type must be one of application/vnd.kubernetes.protobuf, " +
			"application/json, application/cbor, not \"foo\""},
		{"more workers than help", "--concurrent-endpoint-syncs=5000000", "--concurrent-endpoint-syncs must be at most 10000, not 5000000"},
		{"CLI-22 negative resync", "--min-resync-period=-1h", "--min-resync-period must not be negative: -1h0m0s"},
		{"more than all", "--brake-share=1.5", "--brake-share must be from 0 to 1, not 1.5"},
		{"no number", "--brake-share=NaN", "--brake-share must be from 0 to 1, not NaN"},
		{"a small history", "--history-size=1023Ki", "--history-size must be at least 1Mi, not 1023Ki"},
		{"a size that is none", "--history-size=much", "--history-size"},
		{"fewer than none", "--brake-least=-1", "--brake-least must not be negative: -1"},
		{"CLI-23 negative start interval", "--controller-start-interval=-1s", "--controller-start-interval must not be negative"},
		{"CLI-24 negative shutdown timeout", "--controller-shutdown-timeout=-1s", "--controller-shutdown-timeout must not be negative"},
		{"CLI-49 no worker for budgets", "--concurrent-disruption-syncs=0", "--concurrent-disruption-syncs"},
		{"CLI-29 version too old", "--emulated-version=kube=1.20", "emulation version 1.20 is not between [1.34, 1.37.0]"},
		{"CLI-30 no such port", "--secure-port=65536", "--secure-port must be between 0 and 65535, not 65536"},
		{"CLI-34 no such TLS version", "--tls-min-version=3", `--tls-min-version: unknown tls version "3"`},
		{"CLI-34 TLS 1.0", "--tls-min-version=VersionTLS10", "--tls-min-version must be VersionTLS12 or VersionTLS13, not VersionTLS10"},
		{"CLI-34 TLS 1.1", "--tls-min-version=VersionTLS11", "--tls-min-version must be VersionTLS12 or VersionTLS13, not VersionTLS11"},
		{"CLI-34 no such cipher", "--tls-cipher-suites=ROT13", "--tls-cipher-suites: Cipher suite ROT13 not supported"},
		{"CLI-34 no such curve", "--tls-curve-preferences=0", "--tls-curve-preferences: curve preference 0 is out of range"},
		{"CLI-32 a certificate without a key", "--tls-cert-file=/x", "--tls-cert-file and --tls-private-key-file must be given together"},
		{"CLI-32 a key without a certificate", "--tls-private-key-file=/x", "must be given together"},
		{"CLI-34 negative streams", "--http2-max-streams-per-connection=-1", "--http2-max-streams-per-connection must not be negative"},
		{"CLI-37 negative TTL", "--authentication-token-webhook-cache-ttl=-1s", "must not be negative"},
		{"CLI-39 no name of a proxy", "--requestheader-allowed-names=,",
			`--requestheader-allowed-names must not have empty items: ["" ""]`},
		{"CLI-39 one name of a proxy is empty", "--requestheader-allowed-names=a,",
			`--requestheader-allowed-names must not have empty items: ["a" ""]`},
		{"CLI-39 no header for users", "--requestheader-username-headers=,", "--requestheader-username-headers must not have empty items"},
		{"CLI-39 no header for uids", "--requestheader-uid-headers=,a", "--requestheader-uid-headers must not have empty items"},
		{"CLI-39 no header for groups", "--requestheader-group-headers=,", "--requestheader-group-headers must not have empty items"},
		{"CLI-39 no prefix", "--requestheader-extra-headers-prefix=,", "--requestheader-extra-headers-prefix must not have empty items"},
		{"CLI-47 hidden metrics of an old version", "--show-hidden-metrics-for-version=1.20", `must be "1.36" or empty`},
		{"CLI-47 hidden metrics of no version", "--show-hidden-metrics-for-version=abc", `must be "1.36" or empty`},
		{"CLI-47 no manifest", "--allow-metric-labels-manifest=/nope",
			"--allow-metric-labels-manifest: open /nope: no such file or directory"},
		{"CLI-47 no label named", "--allow-metric-labels=x=y", "metrics.allowListMapping: Invalid value"},
		{"CLI-49 cloud provider", "--cloud-provider=aws", `--cloud-provider="aws": must be "external" or empty`},
		{"LE-1e another lock", "--leader-elect-resource-lock=endpoints", `resourceLock value must be "leases"`},
		{"LE-4 lease no longer than the deadline", "--leader-elect-lease-duration=10s",
			"--leader-elect-lease-duration (10s) must be greater than"},
		{"LE-4 deadline too near to the period", "--leader-elect-retry-period=9s",
			"--leader-elect-renew-deadline (10s) must be greater than"},
		{"LE-4 no period", "--leader-elect-retry-period=0s", "--leader-elect-retry-period must be greater than"},
		{"no such thing to do on loss", "--leader-elect-on-loss=panic", `must be "exit" or "standby"`},
		{"CLI-6 all problems", "--concurrent-deployment-syncs=0 --controllers=foo,-bar --secure-port=-1",
			`["foo" is not in the list of known controllers, "bar" is not in the list of known controllers, ` +
				`--concurrent-deployment-syncs must be at least 1, not 0, --secure-port must be between 0 and 65535, not -1]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := configureFor(controllers.Registry(), strings.Fields(test.args)...); err == nil ||
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestLegalValues(t *testing.T) {
	for _, test := range []struct{ name, args string }{
		{"CLI-17 no threshold", "--terminated-pod-gc-threshold=0"},
		{"CLI-17 negative threshold", "--terminated-pod-gc-threshold=-1"},
		{"CLI-20 no burst", "--kube-api-burst=0"},
		{"CLI-24 no limit", "--controller-shutdown-timeout=0s"},
		{"CLI-27 leader migration", "--enable-leader-migration --leader-migration-config=/x"},
		{"CLI-29 an older version", "--emulated-version=kube=1.35 --min-compatibility-version=1.34"},
		{"CLI-30 no serving", "--secure-port=0"},
		{"CLI-34 serving", "--tls-min-version=VersionTLS13 --tls-cipher-suites=TLS_AES_128_GCM_SHA256 " +
			"--tls-curve-preferences=29,23 --tls-sni-cert-key=a,b:*.example.com"},
		{"CLI-34 TLS 1.2", "--tls-min-version=VersionTLS12"},
		{"CLI-47 the previous version", "--show-hidden-metrics-for-version=1.36 --allow-metric-labels=m,l=v"},
		{"CLI-49 the one cloud provider", "--cloud-provider=external"},
		{"CLI-49 hidden flags", "--allow-untagged-cloud --node-sync-period=1s"},
		{"LE-1e the lock is not checked without election", "--leader-elect=false --leader-elect-resource-lock=endpoints"},
		{"LE-4 timings are not checked without election", "--leader-elect=false --leader-elect-retry-period=1h"},
	} {
		t.Run(test.name, func(t *testing.T) { mustConfigure(t, strings.Fields(test.args)...) })
	}
}

func TestLists(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		want []string
	}{
		{"CLI-4 the default", nil, []string{"/healthz", "/readyz", "/livez"}},
		{"CLI-4 the first use replaces the default", []string{"--authorization-always-allow-paths=/a,/b"}, []string{"/a", "/b"}},
		{"CLI-4 later uses append", []string{"--authorization-always-allow-paths=/a", "--authorization-always-allow-paths", "/b,/c"},
			[]string{"/a", "/b", "/c"}},
		{"CLI-4 nothing replaces the default too", []string{"--authorization-always-allow-paths="}, []string{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, err := parse(test.args...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, o.Authorization.AlwaysAllowPaths); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestCommandLinesOfOthers parses the lists that other programs give to a kube-controller-manager.
func TestCommandLinesOfOthers(t *testing.T) {
	for _, test := range []struct {
		name, args string
		effect     []string // flags that are obeyed
	}{
		{"CLI-76 kubeadm", `--authentication-kubeconfig=/etc/kubernetes/controller-manager.conf
			--authorization-kubeconfig=/etc/kubernetes/controller-manager.conf --bind-address=127.0.0.1
			--client-ca-file=/etc/kubernetes/pki/ca.crt --cluster-signing-cert-file=/etc/kubernetes/pki/ca.crt
			--cluster-signing-key-file=/etc/kubernetes/pki/ca.key --controllers=*,bootstrapsigner,tokencleaner
			--leader-elect=true --requestheader-client-ca-file=/etc/kubernetes/pki/front-proxy-ca.crt
			--root-ca-file=/etc/kubernetes/pki/ca.crt --service-account-private-key-file=/etc/kubernetes/pki/sa.key
			--use-service-account-credentials=true`,
			[]string{"--authentication-kubeconfig", "--authorization-kubeconfig", "--bind-address", "--client-ca-file", "--controllers",
				"--leader-elect", "--requestheader-client-ca-file", "--root-ca-file", "--use-service-account-credentials"}},
		{"CLI-76 kubeadm with a pod subnet and an external CA", `--allocate-node-cidrs=true --cluster-cidr=10.244.0.0/16
			--cluster-name=c1 --cluster-signing-cert-file= --cluster-signing-key-file= --service-cluster-ip-range=10.96.0.0/12`, nil},
		{"kwokctl", `--bind-address=127.0.0.1 --secure-port=10257
			--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics --root-ca-file=/x/ca.crt
			--service-account-private-key-file=/x/admin.key --node-monitor-period=25s --node-monitor-grace-period=3m20s
			--kube-api-qps=5000 --kube-api-burst=10000 --feature-gates=WatchListClient=true --v=4`,
			[]string{"--authorization-always-allow-paths", "--bind-address", "--feature-gates", "--kube-api-burst", "--kube-api-qps",
				"--root-ca-file", "--secure-port", "--v"}},
		{"vcluster", `--service-cluster-ip-range=10.96.0.0/12 --bind-address=127.0.0.1 --client-ca-file=/x --cluster-name=kubernetes
			--cluster-signing-cert-file=/x --cluster-signing-key-file=/x --horizontal-pod-autoscaler-sync-period=60s
			--authentication-kubeconfig=/x --authorization-kubeconfig=/x --node-monitor-grace-period=180s
			--node-monitor-period=30s --pvclaimbinder-sync-period=60s --requestheader-client-ca-file=/x --root-ca-file=/x
			--service-account-private-key-file=/x --use-service-account-credentials=true --leader-elect=false
			--controllers=*,-nodeipam,-nodelifecycle,-persistentvolume-binder,-attachdetach,-persistentvolume-expander,-cloud-node-lifecycle,-ttl`,
			[]string{"--authentication-kubeconfig", "--authorization-kubeconfig", "--bind-address", "--client-ca-file", "--controllers",
				"--leader-elect", "--requestheader-client-ca-file", "--root-ca-file", "--use-service-account-credentials"}},
		{"karmada", `--cluster-signing-duration=8760h --leader-elect=true --leader-elect-resource-namespace=karmada-system
			--controllers=namespace,garbagecollector,serviceaccount-token,ttl-after-finished,bootstrapsigner,tokencleaner,csrcleaner,csrsigning,clusterrole-aggregation`,
			[]string{"--controllers", "--leader-elect", "--leader-elect-resource-namespace"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := strings.Fields(test.args)
			c := mustConfigure(t, args...)
			var without []string
			for _, arg := range args {
				if name, _, _ := strings.Cut(arg, "="); !slices.Contains(test.effect, name) {
					without = append(without, name)
				}
			}
			slices.Sort(without)
			if diff := cmp.Diff(without, c.WithoutEffect); diff != "" {
				t.Errorf("flags without effect (- want, + got):\n%s", diff)
			}
		})
	}
}

// TestWithoutEffect follows the registry: flags of a controller that this build does not have are among those.
func TestWithoutEffect(t *testing.T) {
	c := mustConfigure(t, "--concurrent-endpoint-syncs=3", "--concurrent-replicaset-syncs=3", "--cluster-name=x", "--profiling=false")
	if diff := cmp.Diff([]string{"--cluster-name", "--concurrent-endpoint-syncs"}, c.WithoutEffect); diff != "" {
		t.Error(diff)
	}
}

func TestClientConfig(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // not in a pod
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good", `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x}}],
		clusters: [{name: x, cluster: {server: "http://127.0.0.1:8080"}}]}`)
	broken := write("broken", "apiVersion: v1\nkind: [\n")
	empty := write("empty", "")
	for _, test := range []struct {
		name, kubeconfig, master string
		host, err                string
	}{
		{name: "CLI-10 kubeconfig", kubeconfig: good, host: "http://127.0.0.1:8080"},
		{name: "CLI-10 missing file", kubeconfig: "/does/not/exist", err: "--kubeconfig: stat /does/not/exist: no such file or directory"},
		{name: "CLI-10 broken file", kubeconfig: broken, err: "--kubeconfig: error loading config file"},
		{name: "CLI-10 empty file", kubeconfig: empty, err: "names no cluster in its current context"},
		{name: "CLI-11 master alone", master: "https://10.0.0.1", host: "https://10.0.0.1"},
		{name: "CLI-11 master beats the kubeconfig", kubeconfig: good, master: "http://10.0.0.1", host: "http://10.0.0.1"},
		{name: "CLI-11 no URL", master: "://", err: `address of the API server "://"`},
		{name: "CLI-11 neither", err: "name a kubeconfig with --kubeconfig, or run in a pod: " +
			"invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := APIServer{Kubeconfig: test.kubeconfig, Master: test.master}
			c, err := o.ClientConfig()
			switch {
			case test.err != "":
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got  %v\nwant %s", err, test.err)
				}
			case err != nil:
				t.Error(err)
			case c.Host != test.host:
				t.Errorf("host %q", c.Host)
			}
		})
	}
}

// TestBrokenPod checks that it is said what a pod lacks (CLI-11).
func TestBrokenPod(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	if _, err := os.Stat("/var/run/secrets/kubernetes.io/serviceaccount/token"); err == nil {
		t.Skip("this is a pod, and it has a token")
	}
	_, err := (&APIServer{}).ClientConfig()
	if err == nil || !strings.Contains(err.Error(), "no configuration has been provided") ||
		!strings.Contains(err.Error(), "serviceaccount/token") {
		t.Errorf("got %v", err)
	}
	_, err = (&Authentication{}).ClientConfig()
	if !errors.Is(err, ErrNobodyToAsk) || !strings.Contains(err.Error(), "the configuration of the pod is broken: open /var/run/secrets/") {
		t.Errorf("CLI-35: got %v", err)
	}
}

// TestMetricsManifest checks what comes of a file of labels, whatever is in it (CLI-47).
func TestMetricsManifest(t *testing.T) {
	for _, test := range []struct{ name, text, err string }{
		{"labels", "workqueue_adds_total,name: deployment,replicaset", ""},
		{"no label named", "workqueue_adds_total: deployment", "metrics.allowListMapping: Invalid value"},
		{"no map", "- a", "--allow-metric-labels-manifest: "},
		{"empty", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "labels.yaml")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := configure("--allow-metric-labels-manifest=" + path)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got  %v\nwant %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c.Metrics.Apply()
		})
	}
}

// TestReviewConfig checks which API server is asked about clients (CLI-35).
func TestReviewConfig(t *testing.T) {
	for _, load := range []func(string) (*rest.Config, error){
		func(path string) (*rest.Config, error) { return (&Authentication{Kubeconfig: path}).ClientConfig() },
		func(path string) (*rest.Config, error) { return (&Authorization{Kubeconfig: path}).ClientConfig() },
	} {
		t.Setenv("KUBERNETES_SERVICE_HOST", "") // not in a pod
		if c, err := load(""); c != nil || !errors.Is(err, ErrNobodyToAsk) || !strings.HasSuffix(err.Error(), "this is not a pod") {
			t.Errorf("CLI-35 without a name, and not in a pod: %v, %v", c, err)
		}
		if _, err := load("/nope"); err == nil || !strings.HasSuffix(err.Error(), "-kubeconfig: stat /nope: no such file or directory") {
			t.Errorf("a missing file: %v", err)
		}
		path := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := load(path); err == nil {
			t.Error("an empty file: no error")
		}
	}
}

// FuzzTimings makes sure that timings are either refused or possible (LE-4), whatever is written for them.
func FuzzTimings(f *testing.F) {
	f.Add("15s", "10s", "2s", "10s")
	f.Add("1s", "1ms", "1us", "-0")
	f.Add("2562047h47m16.854775807s", "2562047h47m16.854775806s", "-1ns", "0")
	f.Add("1.5h", ".5m", "1e3s", "1h-1m")
	f.Fuzz(func(t *testing.T, lease, renew, retry, timeout string) {
		c, err := configure("--leader-elect-lease-duration="+lease, "--leader-elect-renew-deadline="+renew,
			"--leader-elect-retry-period="+retry, "--controller-shutdown-timeout="+timeout)
		if err != nil {
			return
		}
		l := c.Manager.LeaderElection
		if l.RetryPeriod <= 0 || l.RenewDeadline <= l.RetryPeriod || l.LeaseDuration <= l.RenewDeadline || c.Manager.ShutdownTimeout == 0 {
			t.Errorf("accepted: %+v, shutdown in %v", l, c.Manager.ShutdownTimeout)
		}
	})
}

// TestFlagsOfMissingControllers: a build without some controllers still takes their flags, and says that they do nothing.
func TestFlagsOfMissingControllers(t *testing.T) {
	c, err := configureFor(nil, "--concurrent-deployment-syncs=7", "--terminated-pod-gc-threshold=1")
	if want := []string{"--concurrent-deployment-syncs", "--terminated-pod-gc-threshold"}; err != nil ||
		!slices.Equal(c.WithoutEffect, want) {
		t.Errorf("%v, %q", err, c.WithoutEffect)
	}
}

// TestDefaultsOfControllers compares the defaults of the controllers' flags with those of the original.
func TestDefaultsOfControllers(t *testing.T) {
	o := New(controllers.Registry())
	for flag, want := range map[string]string{
		"concurrent-deployment-syncs": "5", "concurrent-replicaset-syncs": "5", "concurrent-endpoint-syncs": "5", // CLI-13..15
		"endpoint-updates-batch-period": "0s", "terminated-pod-gc-threshold": "12500", // CLI-16, CLI-17
		"concurrent-rc-syncs": "5", // RC-2
	} {
		if got := o.Lookup(flag).DefValue; got != want {
			t.Errorf("--%s is %s by default, want %s", flag, got, want)
		}
	}
}
