package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options"
	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/deployment"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/replicaset"
	"github.com/standalone-kcm/controller-manager/pkg/leaderelection"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// started is a program whose Start notes what it was given.
type started struct {
	Program
	configs []options.Config
	err     error
}

func newStarted() *started {
	s := &started{}
	s.Program = Program{
		Name:     "controller-manager",
		Registry: []manager.Controller{deployment.New(deployment.Options{}), replicaset.New(replicaset.Options{})},
		Start: func(ctx context.Context, c options.Config) error {
			s.configs = append(s.configs, c)
			klog.FromContext(ctx).Info("Running")
			return s.err
		},
	}
	return s
}

// buffer may be written to from several goroutines.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// execute runs the command line and undoes what that did to logging, which is global: these tests cannot be parallel.
func execute(t testing.TB, ctx context.Context, p Program, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err buffer
	code = Run(ctx, p, args, &out, &err)
	if err := logsapi.ResetForTest(nil); err != nil {
		t.Fatal(err)
	}
	return code, out.String(), err.String()
}

const server = "--master=http://127.0.0.1:1"

// see is how the line about a wrong flag ends.
const see = ` See 'controller-manager --help'\.$`

// logLine is how an error begins in the log (CLI-48).
const logLine = `^E\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ app\.go:\d+\] `

var commandLines = []struct {
	name   string
	args   []string
	code   int
	stdout string // expression that it matches
	last   string // expression that the last line of stderr matches
	alone  bool   // stderr has no other line
	starts int
}{
	{name: "all is well", args: []string{server}, last: `\] "Running"$`, starts: 1},
	{name: "CLI-2 an argument", args: []string{server, "foo", "bar"}, code: 1,
		last: `^Error: "controller-manager" does not take any arguments, got \["foo" "bar"\]$`},
	{name: "CLI-2 empty arguments are ignored", args: []string{"", server, ""}, last: `"Running"$`, starts: 1},
	{name: "CLI-2 the value of a flag is no command", args: []string{server, "--cluster_name", "version"}, last: `"Running"$`, starts: 1},
	{name: "CLI-5 unknown flag", args: []string{"--x"}, code: 1, alone: true, last: `^Error: unknown flag: --x\.` + see},
	{name: "CLI-5 unknown shorthand", args: []string{"-x"}, code: 1, alone: true,
		last: `^Error: unknown shorthand flag: 'x' in -x\.` + see},
	{name: "CLI-5 bad duration", args: []string{"--min-resync-period=abc"}, code: 1, alone: true,
		last: `^Error: invalid argument "abc" for "--min-resync-period" flag: time: invalid duration "abc"\.` + see},
	{name: "CLI-5 no value", args: []string{"--kubeconfig"}, code: 1, alone: true,
		last: `^Error: flag needs an argument: --kubeconfig\.` + see},
	{name: "CLI-5 misspelt flag", args: []string{"--concurent_deployment-sync=3"}, code: 1, alone: true,
		last: `^Error: unknown flag: --concurent_deployment-sync\. Did you mean --concurrent-deployment-syncs\?` + see},
	{name: "CLI-5 the beginning of a flag", args: []string{"--leader-elect-resource-na=x"}, code: 1, alone: true,
		last: `Did you mean --leader-elect-resource-name\?` + see},
	{name: "CLI-5 one dash", args: []string{"-kubeconfig=/x"}, code: 1, alone: true,
		last: `^Error: unknown shorthand flag: 'k' in -kubeconfig=/x\. Did you mean --kubeconfig\?` + see},
	{name: "CLI-5 a line break", args: []string{"--x\ny=z"}, code: 1, alone: true, last: `^Error: unknown flag: --x y\.` + see},
	{name: "CLI-5 flag of a command", args: []string{"version", "--hepl"}, code: 1, alone: true,
		last: `^Error: unknown flag: --hepl\. Did you mean --help\? See 'controller-manager version --help'\.$`},
	{name: "CLI-6 invalid value", args: []string{server, "--concurrent-replicaset-syncs=0"}, code: 1,
		last: logLine + `"command failed" err="--concurrent-replicaset-syncs must be at least 1, not 0"$`},
	{name: "CLI-6 several", args: []string{server, "--controllers=foo", "--secure-port=-1"}, code: 1,
		last: logLine + `"command failed" err="\[\\"foo\\" is not in the list of known controllers, --secure-port must be [^"]*\]"$`},
	{name: "CLI-62 impossible timings", args: []string{server, "--leader-elect-renew-deadline=1h"}, code: 1,
		last: logLine + `"command failed" err="--leader-elect-lease-duration \(15s\) must be greater than [^"]*"$`},
	{name: "CLI-7 help", args: []string{"--help"}, stdout: `(?s)^The controller manager .*\n\nUsage:\n  controller-manager \[flags\]\n`},
	{name: "CLI-7 -h", args: []string{"-h", "--x=y"}, code: 1, alone: true, last: `^Error: unknown flag: --x\.` + see},
	{name: "CLI-8 version", args: []string{"--version"}, stdout: `^Kubernetes v\S+\n$`},
	{name: "CLI-8 version=true", args: []string{"--version=true"}, stdout: `^Kubernetes v\S+\n$`},
	{name: "CLI-8 version=raw", args: []string{"--version=raw"},
		stdout: `^version\.Info{Major:.*GitVersion:.*GoVersion:.*Compiler:.*Platform:.*}\n$`},
	{name: "CLI-8 version=false", args: []string{server, "--version=false"}, last: `"Running"$`, starts: 1},
	{name: "CLI-8 another version", args: []string{"--version=v9.9.9"}, code: 1, alone: true,
		last: `^Error: invalid argument "v9\.9\.9" for "--version" flag: version "v9\.9\.9" must match major/minor/patch of `},
	{name: "CLI-8 no version", args: []string{"--version=x"}, code: 1, alone: true,
		last: `^Error: invalid argument "x" for "--version" flag`},
	{name: "CLI-10 missing kubeconfig", args: []string{"--kubeconfig=/no/such/file"}, code: 1,
		last: logLine + `"command failed" err="--kubeconfig: stat /no/such/file: no such file or directory"$`},
	{name: "CLI-11 no configuration", code: 1, last: logLine + `"command failed" err="name a kubeconfig with --kubeconfig, or run in a pod: invalid ` +
		`configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"$`},
	{name: "CLI-28 unknown gate", args: []string{"--feature-gates=Foo=true"}, code: 1,
		last: logLine + `"command failed" err="--feature-gates: unrecognized feature gate: Foo"$`},
	{name: "CLI-28 misspelt gate", args: []string{"--feature-gates=PodDeltionCost=false"}, code: 1,
		last: `err="--feature-gates: unrecognized feature gate: PodDeltionCost, did you mean PodDeletionCost\?"$`},
	{name: "CLI-28 neither true nor false", args: []string{"--feature-gates=PodDeletionCost=maybe"}, code: 1, alone: true,
		last: `for "--feature-gates" flag: PodDeletionCost must be true or false, not "maybe"\.` + see},
	{name: "CLI-28 locked gate", args: []string{server, "--feature-gates=LogarithmicScaleDown=false"}, last: `"Running"$`, starts: 1},
	{name: "CLI-44 unknown format", args: []string{"--logging-format=xml"}, code: 1,
		last: logLine + `"command failed" err="format: Invalid value: \\"xml\\": Unsupported log format; --logging-format must be text or json"$`},
	{name: "CLI-50 a space in a list", args: []string{server, "--controllers=*, -deployment"}, code: 1,
		last: `err="\\" -deployment\\" is not in the list of known controllers, remove the space in it"$`},
	{name: "LE-1 no name of a lease", args: []string{server, "--leader-elect-resource-name=Foo Bar"}, code: 1,
		last: `err="--leader-elect-resource-name=\\"Foo Bar\\" is no name of a Lease: `},
	{name: "a flag that is long gone", args: []string{"--pod-eviction-timeout=5m"}, code: 1, alone: true,
		last: `^Error: unknown flag: --pod-eviction-timeout\. It is long gone from kube-controller-manager: since 1\.27, tolerations .*` + see},
	{name: "the name of the original as an argument", args: []string{"kube-controller-manager", "--version"}, stdout: `^Kubernetes v\S+\n$`},
	{name: "help flags of a controller", args: []string{"help", "flags", "deployment"},
		stdout: `^\nDeployment-controller flags:\n\n      --concurrent-deployment-syncs [^\n]*\n$`},
	{name: "help flags of one without flags", args: []string{"help", "flags", "podgroup-protection-controller"}, code: 1, alone: true,
		last: `^Error: podgroup-protection-controller has no flags of its own$`},
	{name: "help flags of none", args: []string{"help", "flags", "deploment"}, code: 1, alone: true,
		last: `^Error: there is no controller "deploment", did you mean "deployment"\?$`},
	{name: "help about observe", args: []string{"observe", "--help"},
		stdout: `(?s)^Observe a cluster .*\nUsage:\n  controller-manager observe \[flags of the manager\]\n.*see 'controller-manager help flags'\n$`},
	{name: "CLI-46 alpha", args: []string{"--log-json-split-stream"}, code: 1, last: `Feature LoggingAlphaOptions is disabled"$`},
	{name: "CLI-46 alpha and allowed", args: []string{server, "--log-text-split-stream", "--feature-gates=LoggingAlphaOptions=true"},
		stdout: `"Running"\n$`, starts: 1},
	{name: "observe", args: []string{"observe", server, "--leader-elect=false"}, last: `"Running"$`, starts: 1},
	{name: "observe and write", args: []string{"observe", server, "--leader-elect", "--use-service-account-credentials",
		"--cluster-signing-key-file=ca.key", "--service-account-private-key-file=sa.key"}, code: 1, alone: true,
		last: `^Error: an observer writes nothing, so it cannot have --cluster-signing-key-file=ca.key, --leader-elect=true, ` +
			`--service-account-private-key-file=sa.key, --use-service-account-credentials=true$`},
	{name: "version command", args: []string{"version"}, stdout: `^controller-manager .*, in place of kube-controller-manager v\S+\n`},
	{name: "CLI-82 handover of a list", args: []string{"handover", "--controllers=*,tokencleaner"},
		stdout: `^kube-controller-manager: --controllers=\*,tokencleaner(,-[a-z-]+)*\nthis manager: --controllers=\S*\n$`},
	{name: "CLI-82 handover of nothing", args: []string{"handover", "--controllers=nodelifecycle"}, code: 1, alone: true,
		last: `^Error: nothing would move: kube-controller-manager runs none of the controllers that may, with --controllers=nodelifecycle$`},
	{name: "CLI-82 handover as JSON", args: []string{"handover", "--controllers=deployment", "-o", "json"},
		stdout: `^{\n  "kubeControllerManager": "-deployment",\n  "thisManager": "deployment"\n}\n$`},
	{name: "CLI-82 handover of a manifest", args: []string{"handover", "--from-manifest=" + staticPod},
		stdout: `^kube-controller-manager: --controllers=\*,bootstrapsigner,tokencleaner,-deployment,-replicaset\nthis manager: --controllers=deployment,replicaset\n$`},
	{name: "CLI-82 handover of the whole", args: []string{"handover", "--from-manifest=" + staticPod, "--image=mine:1"},
		stdout: `(?s)^apiVersion: v1\nkind: Pod\n.*    - --controllers=\*,bootstrapsigner,tokencleaner\n.*    image: mine:1\n` +
			`    securityContext: \{runAsUser: 0, runAsGroup: 0, allowPrivilegeEscalation: false, capabilities: \{drop: \[ALL\]\}\}\n`},
	{name: "CLI-82 handover of the whole, whose user is not said", code: 1,
		args: []string{"handover", "--from-manifest=testdata/unprivileged.yaml", "--image=mine:1"}, alone: true,
		last: `^Error: --from-manifest: the securityContext of the container in testdata/unprivileged\.yaml has no runAsUser: ` +
			`add one that can read the keys, such as 0$`},
	{name: "handover of the whole, whose user is said", alone: true,
		args:   []string{"handover", "--from-manifest=../../../deploy/static-pod/kube-controller-manager.yaml", "--image=mine:1"},
		stdout: `(?s)    image: mine:1\n.*runAsUser: 0\n`},
	{name: "CLI-82 handover of a manifest with separate values", args: []string{"handover", "--from-manifest=testdata/separate.yaml"},
		stdout: `^kube-controller-manager: --controllers=\*,-replicaset,tokencleaner,-deployment\nthis manager: --controllers=deployment\n$`},
	{name: "CLI-82 handover of a shell", args: []string{"handover", "--from-manifest=testdata/shell.yaml"}, code: 1, alone: true,
		last: `^Error: --from-manifest: testdata/shell\.yaml runs kube-controller-manager by "sh", so give --controllers$`},
	{name: "CLI-82 handover of what is no manifest", args: []string{"handover", "--from-manifest=app.go"}, code: 1,
		last: `^Error: --from-manifest: app\.go: error `},
	{name: "CLI-82 handover of no file", args: []string{"handover", "--image=mine:1"}, code: 1, alone: true,
		last: `^Error: --image needs --from-manifest, the manifest in which it is to be$`},
	{name: "CLI-82 handover of an unknown name", args: []string{"handover", "--controllers=podcg"}, code: 1, alone: true,
		last: `^Error: --controllers: "podcg" is not in the list of known controllers, did you mean "podgc"\?$`},
	{name: "version takes nothing", args: []string{"version", "x"}, code: 1,
		last: `^Error: "controller-manager version" does not take any arguments, got \["x"\]$`},
	{name: "completion", args: []string{"completion", "bash"}, stdout: `^# bash completion`},
	{name: "completion of values", args: []string{"__complete", "--leader-elect-on-loss="}, stdout: `^exit\nstandby\n:4\n`,
		last: `^Completion ended with directive`},
	{name: "help about a command", args: []string{"help", "version"}, stdout: `^Print the version\n\nUsage:\n  controller-manager version`},
	{name: "help about nothing", args: []string{"help", "versoin"}, code: 1, alone: true,
		last: `^Error: there is no command "versoin", did you mean "version"\?$`},
	{name: "help alone", args: []string{"help"}, stdout: `^The controller manager`},
	{name: "CLI-2 a misspelled command", args: []string{"versoin"}, code: 1, alone: true,
		last: `^Error: "controller-manager" does not take any arguments, got \["versoin"\], did you mean "version"\?$`},
	{name: "CLI-5 no number", args: []string{"-v=abc"}, code: 1, alone: true,
		last: `^Error: invalid argument "abc" for "-v, --v" flag: must be a number\.` + see},
	{name: "CLI-5 too large a number", args: []string{"--concurrent-replicaset-syncs=5000000000"}, code: 1, alone: true,
		last: `flag: out of range\.` + see},
	{name: "CLI-5 neither true nor false", args: []string{"--profiling=perhaps"}, code: 1, alone: true,
		last: `flag: must be true or false\.` + see},
	{name: "completion of controllers", args: []string{"__complete", "--controllers="},
		stdout: `(?s)\ndeployment-controller\n-deployment-controller\ndeployment\n-deployment\n.*\n:4\n$`,
		last:   `^Completion ended with directive`},
	{name: "completion of what is no file", args: []string{"__complete", "--feature-gates="}, stdout: `^:4\n$`,
		last: `^Completion ended with directive`},
	{name: "completion of a file", args: []string{"__complete", "--kubeconfig="}, stdout: `^:0\n$`,
		last: `^Completion ended with directive`},
}

// staticPod is a manifest as kubeadm has it.
const staticPod = "testdata/kube-controller-manager.yaml"

func TestExitCodesAndMessages(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // not in a pod
	for _, test := range commandLines {
		t.Run(test.name, func(t *testing.T) {
			p := newStarted()
			code, stdout, stderr := execute(t, t.Context(), p.Program, test.args...)
			if code != test.code {
				t.Errorf("exit code %d", code)
			}
			if !regexp.MustCompile(test.stdout).MatchString(stdout) || test.stdout == "" && stdout != "" {
				t.Errorf("stdout: %s", stdout)
			}
			lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
			if last := lines[len(lines)-1]; !regexp.MustCompile(test.last).MatchString(last) || test.last == "" && last != "" {
				t.Errorf("last line of stderr: %s\nwant                 %s", last, test.last)
			}
			if strings.Contains(stderr, "Usage:") || test.alone && len(lines) != 1 {
				t.Errorf("more than the error on stderr: %s", stderr)
			}
			if strings.Contains(stderr, "goroutine ") {
				t.Errorf("stack trace: %s", stderr)
			}
			if len(p.configs) != test.starts {
				t.Errorf("started %d times", len(p.configs))
			}
		})
	}
}

func TestEnd(t *testing.T) {
	broken := errors.New("something broke")
	for _, test := range []struct {
		name      string
		err       error
		cancelled bool
		code      int
		message   string
	}{
		{name: "CLI-63 told to end", cancelled: true},
		{name: "CLI-63 a context that has ended is no failure", cancelled: true, err: fmt.Errorf("waiting: %w", context.Canceled)},
		{name: "an error is one, even when told to end", cancelled: true, err: broken, code: 1,
			message: `"command failed" err="something broke"`},
		{name: "CLI-6 an error", err: broken, code: 1, message: `"command failed" err="something broke"`},
		{name: "a context that has not ended is a failure", err: context.Canceled, code: 1,
			message: `"command failed" err="context canceled"`},
		{name: "CLI-61 lost leadership", err: fmt.Errorf("controllers: %w", leaderelection.ErrLost), code: 1,
			message: `"leaderelection lost/stopped"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newStarted()
			p.err = test.err
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.cancelled {
				cancel()
			}
			code, _, stderr := execute(t, ctx, p.Program, server)
			if code != test.code {
				t.Errorf("exit code %d", code)
			}
			if !strings.HasSuffix(stderr, test.message+"\n") && test.message != "" {
				t.Errorf("stderr: %s", stderr)
			}
		})
	}
}

// TestFlagLines checks that the effective values are logged in order of their names (CLI-9).
func TestFlagLines(t *testing.T) {
	names := func(args ...string) (names []string) {
		p := newStarted().Program
		p.Registry = controllers.Registry()
		_, _, stderr := execute(t, t.Context(), p, append(args, server)...)
		for _, m := range regexp.MustCompile(`\] FLAG: --([a-z0-9-]+)="(.*)"\n`).FindAllStringSubmatch(stderr, -1) {
			names = append(names, m[1])
			if m[1] == "concurrent-deployment-syncs" && m[2] != "7" {
				t.Errorf("effective value: %s", m[2])
			}
		}
		return names
	}
	if got := names(); len(got) > 0 {
		t.Errorf("flags are logged without being asked for: %q", got)
	}
	got := names("-v=1", "--concurrent_deployment_syncs=7")
	if len(got) != 164 { // those of the original in five minor releases and eleven of ours
		t.Errorf("%d flags are logged", len(got))
	}
	for i := range len(got) - 1 {
		if got[i] >= got[i+1] {
			t.Errorf("--%s is logged before --%s", got[i], got[i+1])
		}
	}
}

// TestLoggedOnce checks what is said about flags and controllers that this build does not have (CLI-49, CLI-55).
func TestLoggedOnce(t *testing.T) {
	_, _, stderr := execute(t, t.Context(), newStarted().Program, server, "--controllers=job,deployment,ttl", "--cluster-name=x",
		"--cluster-cidr=10.0.0.0/8", "--bind-address=127.0.0.1", "--concurrent-service-syncs=2", "--controllers=service",
		"--feature-gates=JobSuccessPolicy=true")
	for _, want := range []string{
		`"Flags without effect in this build" flags=["--cluster-cidr","--cluster-name"]`,
		`"Flag without effect" flag="--concurrent-service-syncs" because="removed in 1.37; it set the workers for load balancers of ` +
			`clouds, which are the work of a cloud-controller-manager; leave it out"`,
		`"Controller never runs here" controller="service-lb-controller" ` +
			`because="load balancers of Services are the work of a cloud-controller-manager"`,
		`"Feature gate without effect" gate="JobSuccessPolicy=true" because="it is always on since 1.33, and removed in 1.37" ` +
			`itMeans="Jobs may succeed by spec.successPolicy before all indexes have." advice="leave it out"`,
		`"Controllers not available in this build" controllers=["job-controller","ttl-controller"]`,
	} {
		if strings.Count(stderr, want) != 1 {
			t.Errorf("want once: %s\ngot: %s", want, stderr)
		}
	}
	_, _, stderr = execute(t, t.Context(), newStarted().Program, server, "--controllers=deployment")
	if strings.Contains(stderr, "in this build") {
		t.Errorf("nothing was to be said: %s", stderr)
	}
}

// TestItemsThatAreOverruled: of items that contradict each other the log names those without effect (CLI-50).
func TestItemsThatAreOverruled(t *testing.T) {
	for items, want := range map[string]string{
		"*,deployment,-deployment":             `items=["-deployment-controller"]`,
		"*,-job,-job,job-controller,daemonset": `items=["job-controller"]`,
		"-job,*,daemonset,daemonset":           "",
	} {
		_, _, stderr := execute(t, t.Context(), newStarted().Program, server, "--controllers="+items)
		if said := strings.Contains(stderr, "Items of --controllers without effect"); said != (want != "") ||
			!strings.Contains(stderr, want) {
			t.Errorf("CLI-50 %s: want %q, got %s", items, want, stderr)
		}
	}
}

// TestGateWarnings checks that what is said about gates that are set goes to the log, in its format.
func TestGateWarnings(t *testing.T) {
	_, _, stderr := execute(t, t.Context(), newStarted().Program, server, "--logging-format=json",
		"--feature-gates=LogarithmicScaleDown=true,PodDeletionCost=true")
	if want := `"msg":"Feature gate without effect","v":0,"gate":"LogarithmicScaleDown=true"`; strings.Count(stderr, want) != 1 {
		t.Errorf("want once: %s\ngot: %s", want, stderr)
	}
}

// TestJSON checks that the log is one object a line (CLI-44, CLI-48).
func TestJSON(t *testing.T) {
	_, _, stderr := execute(t, t.Context(), newStarted().Program, "--kubeconfig=/no/such/file", "--logging-format=json", "-v=1")
	var last map[string]any
	for line := range strings.Lines(stderr) {
		last = map[string]any{}
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if _, ok := last["ts"].(float64); !ok || last["caller"] == "" || last["msg"] == "" {
			t.Errorf("incomplete: %s", line)
		}
	}
	if last["msg"] != "command failed" || last["err"] != "--kubeconfig: stat /no/such/file: no such file or directory" {
		t.Errorf("last line: %v", last)
	}
}

// TestHelpNamesEveryFlag checks that each flag is in one section, and the hidden ones in none (CLI-7).
func TestHelpNamesEveryFlag(t *testing.T) {
	_, help, _ := execute(t, t.Context(), newStarted().Program, "help", "flags")
	NewCommand(newStarted().Program).Flags().VisitAll(func(f *pflag.Flag) {
		want := 1
		if f.Hidden {
			want = 0
		}
		lines := regexp.MustCompile(`(?m)^  (-\w, |    )--`+f.Name+`\b[^-]`).FindAllString(help, -1)
		if len(lines) != want {
			t.Errorf("--%s: %q", f.Name, lines)
		}
	})
	for _, want := range []string{
		"\nAPI server flags:\n", "\nLeader election flags:\n", "\nDeployment-controller flags:\n", "\nGlobal flags:\n",
		"\nWithout effect in this build: other controllers' flags:\n",
		"\n                              In this build: deployment-controller, replicaset-controller.\n",
	} {
		if !strings.Contains(help, want) {
			t.Errorf("missing: %q", want)
		}
	}
}

// The help fits a window, and says where there is more.
func TestHelpIsShort(t *testing.T) {
	program := NewProgram("controller-manager", controllers.Registry())
	_, help, _ := execute(t, t.Context(), program, "--help")
	lines := strings.Split(strings.TrimSuffix(help, "\n"), "\n")
	if len(lines) > 60 {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines {
		if len(line) > 160 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	for _, want := range append(slices.Clone(oftenSet), "help flags", "controller-manager controllers", "\n  version ", "\n  completion ") {
		if !strings.Contains(help, want) {
			t.Errorf("missing: %q", want)
		}
	}
}

func TestUntilSignalled(t *testing.T) {
	patient := func(ctx context.Context) int { <-ctx.Done(); return 0 }
	stuck := func(context.Context) int { select {} }
	for _, test := range []struct {
		name    string
		signals []os.Signal
		program func(context.Context) int
		code    int
	}{
		{"the program ends by itself", nil, func(context.Context) int { return 1 }, 1},
		{"CLI-63 a signal ends it in good order", []os.Signal{syscall.SIGTERM}, patient, 0},
		{"CLI-63 another one too", []os.Signal{os.Interrupt}, patient, 0},
		{"CLI-63 a second signal ends it at once", []os.Signal{syscall.SIGTERM, os.Interrupt}, stuck, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			signals := make(chan os.Signal, 2)
			for _, s := range test.signals {
				signals <- s
			}
			code := make(chan int)
			go func() { code <- UntilSignalled(signals, test.program) }()
			select {
			case got := <-code:
				if got != test.code {
					t.Errorf("exit code %d", got)
				}
			case <-time.After(10 * time.Second):
				t.Error("it goes on")
			}
		})
	}
}

// An observer has a name of its own, and takes part in no election.
func TestObserverConfig(t *testing.T) {
	p := newStarted()
	code, _, stderr := execute(t, t.Context(), p.Program, "observe", server, "--controllers=deployment")
	if code != 0 || len(p.configs) != 1 {
		t.Fatal(code, stderr)
	}
	got := p.configs[0]
	if m := got.Manager; !m.ReadOnly || m.LeaderElect || m.ServiceAccounts || m.Component != "controller-manager-observer" ||
		m.Off["replicaset-controller"] == "" || got.Flags["leader-elect"] != "false" {
		t.Errorf("%+v", m)
	}
}

// TestManagerConfig checks that what the flags say reaches the manager.
func TestManagerConfig(t *testing.T) {
	var got options.Config
	without := slices.DeleteFunc(controllers.Registry(), func(c manager.Controller) bool { return c.Alias == "attachdetach" })
	p := NewProgram("controller-manager", without)
	p.Start = func(_ context.Context, c options.Config) error { got = c; return nil }
	code, _, stderr := execute(t, t.Context(), p, server, "--controllers=*,-replicaset", "--kube-api-qps=7",
		"--kube-api-content-type=application/json",
		"--use-service-account-credentials", "--concurrent-deployment-syncs=3", "--concurrent-replicaset-syncs=4", "--min-resync-period=1h",
		"--controller-start-interval=2s", "--controller-shutdown-timeout=0s", "--leader-elect-on-loss=standby",
		"--leader-elect-resource-name=x", "--feature-gates=PodDeletionCost=false")
	if code != 0 {
		t.Fatal(stderr)
	}
	m := got.Manager
	if m.Off["deployment-controller"] != "" || m.Off["replicaset-controller"] != "--controllers leaves it off" ||
		len(m.Controllers) != len(p.Registry) {
		t.Errorf("CLI-50: %v", m.Off)
	}
	if m.Off["token-cleaner-controller"] != "it is off by default, and --controllers does not name it" {
		t.Errorf("REG-101: %v", m.Off)
	}
	if !slices.Equal(m.Lacking, []string{"attaching volumes to nodes"}) {
		t.Errorf("lacking: %q", m.Lacking)
	}
	if m.Component != "kube-controller-manager" || m.QPS != 7 || m.Burst != 30 || !m.ServiceAccounts ||
		m.ContentType != "application/json" || got.Client.Host != "http://127.0.0.1:1" {
		t.Errorf("CI-1..5, CLI-19..25: %+v", m)
	}
	for _, entry := range p.Registry {
		switch o := entry.Flags.(type) {
		case *deployment.Options:
			if o.Workers != 3 {
				t.Errorf("CLI-13: %+v", o)
			}
		case *replicaset.Options:
			if o.Workers != 4 {
				t.Errorf("CLI-14: %+v", o)
			}
		}
	}
	if m.FeatureGates["PodDeletionCost"] || !m.FeatureGates["DeploymentReplicaSetTerminatingReplicas"] {
		t.Error("CLI-65, CLI-66: not what the flag says")
	}
	if m.MinResyncPeriod != time.Hour || m.StartInterval != 2*time.Second || m.ShutdownTimeout >= 0 {
		t.Errorf("CLI-22..24: %v, %v, %v", m.MinResyncPeriod, m.StartInterval, m.ShutdownTimeout)
	}
	l := m.LeaderElection
	if !m.LeaderElect || l.OnLoss != leaderelection.Standby || l.Name != "x" || len(l.Validate()) > 0 {
		t.Errorf("LE-1: %+v", l)
	}
}

// FuzzArguments makes sure that no command line gets more than exit code 1 out of it.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		"", "--help", "version", "completion zsh", "help completion bash", "--min-resync-period=1h2x", "--v=999999999999",
		"--controllers=a --controllers=*", "--version=v0.0.0-x", "--feature-gates=a:b", "--emulated-version=kube=1.0", "__complete --v",
		"--leader-elect-lease-duration=-9223372036854775808ns", "--tls-sni-cert-key=a,b:c,d", "--allow-metric-labels=a,b=c",
		"--log-text-info-buffer-size=1Ki", "--min-compatibility-version=1.2.3", "--show-hidden-metrics-for-version=..", "-vvv", "-- x",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		p := newStarted()
		p.Start = func(context.Context, options.Config) error { return nil }
		code := Run(t.Context(), p.Program, append(strings.Fields(line), server), io.Discard, io.Discard)
		if code != 0 && code != 1 {
			t.Errorf("exit code %d", code)
		}
		if err := logsapi.ResetForTest(nil); err != nil {
			t.Fatal(err)
		}
	})
}
