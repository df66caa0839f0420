package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// program is one that localcluster can build.
type program struct {
	name   string
	module string // the folder that pins it; "kubernetes" stands for the folder of the release that was asked for
	pkg    string
}

var programs = []program{
	{"etcd", "etcd", "go.etcd.io/etcd/server/v3"},
	{"kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"},
	{"kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl"},
	{"kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"},
	{"kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"},
	{"kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"},
	{"csi-provisioner", "csi", "github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner"},
	{"csi-attacher", "csi", "github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher"},
	{"csi-resizer", "csi", "github.com/kubernetes-csi/external-resizer/v2/cmd/csi-resizer"},
	{driverProgram, driverProgram, "."},
}

// pinnedModules are the folders that pin a module each, in building order, and what they pin. They are modules of their
// own because Kubernetes shall be built with the versions of its dependencies that it was released with. The others have the same
// versions where they share a module, so that each package is compiled once.
var pinnedModules = []struct{ folder, path string }{
	{"kubernetes", "k8s.io/kubernetes"},
	{"etcd", "go.etcd.io/etcd/server/v3"},
	{"kwok", "sigs.k8s.io/kwok"},
	{"csi", "github.com/kubernetes-csi/external-provisioner/v6"},
	{driverProgram, ""}, // in this repository
}

// needed are the programs of every cluster; kubectl joins them where none is installed.
var needed = []string{"etcd", "kwok", "kube-scheduler", "kube-apiserver"}

// toolbox knows where built programs are and how they are built.
type toolbox struct {
	source  string // hack/localcluster
	state   string // the cache folder
	release string // of Kubernetes, such as "1.36"; empty for the default, which the folder "kubernetes" pins
}

func newToolbox() (*toolbox, error) {
	source, err := sourceDir()
	if err != nil {
		return nil, err
	}
	state, err := stateDir()
	if err != nil {
		return nil, err
	}
	t := &toolbox{source: source, state: state, release: os.Getenv("KUBERNETES")}
	return t, t.checkRelease()
}

// checkRelease reports a release that no folder pins. The release of the default may be named, too.
func (t *toolbox) checkRelease() error {
	if t.release == "" {
		return nil
	}
	version, _, err := t.pinned("kubernetes")
	if err != nil || !strings.HasPrefix(version, "v"+t.release+".") {
		return fmt.Errorf("KUBERNETES=%q: no such release here, see the folders %s", t.release, filepath.Join(t.source, "kubernetes*"))
	}
	return nil
}

// folder is where a module is pinned, or where it is.
func (t *toolbox) folder(module string) string {
	if module == driverProgram {
		return filepath.Join("..", "..", "test", driverProgram)
	}
	if module == "kubernetes" && t.older() {
		return module + "-" + t.release
	}
	return module
}

// older reports whether the release is not the default, but one that has a folder of its own.
func (t *toolbox) older() bool {
	return t.release != "" && fileExists(filepath.Join(t.source, "kubernetes-"+t.release, "go.mod"))
}

func runBuild(ctx context.Context, flags *flag.FlagSet, args []string) error {
	upstream := flags.Bool("with-upstream", false, "also build kube-controller-manager, to compare with")
	csi := flags.Bool("with-csi", false, "also build the CSI driver and its sidecars")
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	t, err := newToolbox()
	if err != nil {
		return err
	}
	names := t.neededHere(ctx, *csi)
	if *upstream {
		names = append(names, "kube-controller-manager")
	}
	return t.build(ctx, names)
}

func runPath(_ context.Context, flags *flag.FlagSet, args []string) error {
	if err := parse(flags, args, 1); err != nil {
		return err
	}
	t, err := newToolbox()
	if err != nil {
		return err
	}
	path, err := t.path(flags.Arg(0))
	if err != nil {
		return err
	}
	if !fileExists(path) {
		return fmt.Errorf("%s is not built", flags.Arg(0))
	}
	fmt.Println(path)
	return nil
}

// neededHere are the programs that have to be built for a cluster on this machine.
func (t *toolbox) neededHere(ctx context.Context, csi bool) []string {
	names := slices.Clone(needed)
	if t.installedKubectl(ctx) == "" {
		names = append(names, "kubectl")
	}
	if csi {
		names = append(names, withCSI()...)
	}
	return names
}

// missing returns those of the named programs that are not built yet.
func (t *toolbox) missing(names []string) ([]program, error) {
	var missing []program
	for _, name := range names {
		path, err := t.path(name)
		if err != nil {
			return nil, err
		}
		if !fileExists(path) {
			missing = append(missing, findProgram(name))
		}
	}
	return missing, nil
}

func findProgram(name string) program {
	i := slices.IndexFunc(programs, func(p program) bool { return p.name == name })
	if i < 0 {
		return program{}
	}
	return programs[i]
}

// path is where a program is, or will be once built. The folder's name changes with everything that goes into the build,
// so what lies there is never out of date.
func (t *toolbox) path(name string) (string, error) {
	p := findProgram(name)
	if p.name == "" {
		return "", fmt.Errorf("unknown program %q", name)
	}
	version, key, err := t.pinned(p.module)
	if err != nil {
		return "", err
	}
	return filepath.Join(t.state, "bin", fmt.Sprintf("%s-%s-%s", p.module, version, key), name), nil
}

// pinned reads the version that a folder pins, and a key over all that goes into a build there.
func (t *toolbox) pinned(module string) (version, key string, err error) {
	folder := filepath.Join(t.source, t.folder(module))
	files := []string{filepath.Join(folder, "go.mod"), filepath.Join(folder, "go.sum")}
	if module == driverProgram {
		if files, err = sourcesOf(folder); err != nil {
			return "", "", err
		}
	}
	var parts []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", "", err
		}
		parts = append(parts, string(data))
	}
	if module == driverProgram {
		version = "source"
	} else if version = requiredVersion(parts[0], modulePath(module)); version == "" {
		return "", "", fmt.Errorf("%s/go.mod does not require %s", module, modulePath(module))
	}
	h := sha256.New()
	for _, s := range append(parts, runtime.Version(), runtime.GOOS, runtime.GOARCH) {
		fmt.Fprintf(h, "%d %s", len(s), s)
	}
	return version, hex.EncodeToString(h.Sum(nil))[:12], nil
}

// requiredVersion is the version of a module that a go.mod requires, or nothing.
func requiredVersion(gomod, module string) string {
	match := regexp.MustCompile(`(?m)^(?:require)?\s+` + regexp.QuoteMeta(module) + `\s+(v\S+)`).FindStringSubmatch(gomod)
	if match == nil {
		return ""
	}
	return match[1]
}

func modulePath(folder string) string {
	for _, m := range pinnedModules {
		if m.folder == folder {
			return m.path
		}
	}
	return ""
}

// build builds those of the named programs that are missing. When several processes build at once, one does and the others
// wait for it.
func (t *toolbox) build(ctx context.Context, names []string, first ...batch) error {
	missing, err := t.missing(names)
	if err != nil || len(missing)+len(first) == 0 {
		return err
	}
	lock, err := lockFile(ctx, filepath.Join(t.state, "build.lock"), func() {
		fmt.Fprintln(os.Stderr, "Another process is building the control plane; waiting for it.")
	})
	if err != nil {
		return err
	}
	defer lock.Close()
	if missing, err = t.missing(names); err != nil {
		return err
	}
	all, err := t.batches(missing)
	if err != nil {
		return err
	}
	if len(missing) == 0 {
		return buildAll(ctx, first)
	}
	fmt.Fprintf(os.Stderr, "Building programs of the control plane (%s).\n", strings.Join(programNames(missing), ", "))
	fmt.Fprintf(os.Stderr, "This happens once and takes %s on 2 cores; later starts take seconds.\n", usualTime(missing))
	start := time.Now()
	if err := buildAll(ctx, append(slices.Clip(first), all...)); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "Built all in %s.\n", time.Since(start).Round(time.Second))
	return nil
}

// batch is what one "go build" builds.
type batch struct {
	what     string
	dir      string
	packages []string
	out      string // the folder that the programs go to
	as       string // the name of the only program, where that is not the last element of its package
	ldflags  string
}

// batches are what is built of each module, in the order of the modules.
func (t *toolbox) batches(missing []program) (all []batch, err error) {
	for _, module := range pinnedModules {
		b := batch{dir: filepath.Join(t.source, t.folder(module.folder))}
		var names []string
		for _, p := range missing {
			if p.module != module.folder {
				continue
			}
			names = append(names, p.name)
			b.packages = append(b.packages, p.pkg)
		}
		if len(names) == 0 {
			continue
		}
		version, _, err := t.pinned(module.folder)
		if err != nil {
			return nil, err
		}
		path, err := t.path(names[0])
		if err != nil {
			return nil, err
		}
		b.what, b.out, b.ldflags = strings.Join(names, ", "), filepath.Dir(path), ldflags(module.folder, version)
		if module.folder == "etcd" {
			b.as = "etcd" // go build would call it "server"
		}
		all = append(all, b)
	}
	return all, nil
}

// buildAll builds one batch after the other. While one is compiled, the modules of the next are downloaded.
func buildAll(ctx context.Context, all []batch) error {
	p := newProgress()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listed := make(chan error, len(all))
	go func() {
		for _, b := range all {
			listed <- p.list(ctx, b)
		}
		p.complete()
	}()
	for _, b := range all {
		if err := <-listed; err != nil {
			return err
		}
		if err := b.build(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// environment is that of the go command. The compiler collects its garbage less often than by default, which saves a sixth of the time,
// unless that takes too much memory.
func (b batch) environment() []string {
	env := append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		env = append(env, "GOGC=300", "GOMEMLIMIT=1500MiB")
	}
	return env
}

// build builds next to the final place, and moves the programs there once complete.
func (b batch) build(ctx context.Context, p *progress) error {
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return err
	}
	unfinished, err := os.MkdirTemp(b.out, ".unfinished-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(unfinished)

	out := unfinished + string(filepath.Separator) + b.as
	args := []string{"build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", b.ldflags, "-o", out}
	cmd := exec.CommandContext(ctx, "go", append(args, b.packages...)...)
	cmd.Dir, cmd.Env = b.dir, b.environment()
	if err := p.run(cmd, b.what); err != nil {
		return err
	}
	built, err := os.ReadDir(unfinished)
	if err != nil {
		return err
	}
	for _, file := range built {
		if err := os.Rename(filepath.Join(unfinished, file.Name()), filepath.Join(b.out, file.Name())); err != nil {
			return err
		}
	}
	return nil
}

// usualTime is how long it takes to build programs.
func usualTime(missing []program) string {
	all := programNames(missing)
	switch {
	case slices.Equal(all, []string{"kubectl"}):
		return "half a minute"
	case slices.ContainsFunc(all, func(name string) bool { return !slices.Contains(withCSI(), name) }):
		return "5 to 8 minutes"
	default:
		return "1 to 3 minutes"
	}
}

func programNames(ps []program) []string {
	var names []string
	for _, p := range ps {
		names = append(names, p.name)
	}
	return names
}

// ldflags strips debug information and, for Kubernetes, sets the version that its programs report.
func ldflags(module, version string) string {
	flags := "-s -w"
	if module != "kubernetes" {
		return flags
	}
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags += fmt.Sprintf(" -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s -X %[1]s.gitTreeState=clean",
			pkg, version, parts[0], parts[1])
	}
	return flags
}

// kubectl is the installed kubectl or else the built one.
func (t *toolbox) kubectl(ctx context.Context) (string, error) {
	if path := t.installedKubectl(ctx); path != "" {
		return path, nil
	}
	return t.path("kubectl")
}

// installedKubectl returns the kubectl in the PATH if it runs and is of a release that works with the API server: 1.36 to
// 1.38 with 1.37.
func (t *toolbox) installedKubectl(ctx context.Context) string {
	path, err := exec.LookPath("kubectl")
	if errors.Is(err, exec.ErrDot) || path == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "version", "--client", "--output=json").Output()
	if err != nil {
		return ""
	}
	var v struct {
		ClientVersion struct{ GitVersion string }
	}
	if json.Unmarshal(out, &v) != nil {
		return ""
	}
	if server, _, err := t.pinned("kubernetes"); err != nil || !worksWith(v.ClientVersion.GitVersion, server) {
		return ""
	}
	return path
}

// worksWith reports whether the minor releases of a client and a server, such as v1.36.3, are at most one apart.
func worksWith(client, server string) bool {
	var minors [2]int
	for i, version := range []string{client, server} {
		if _, err := fmt.Sscanf(version, "v1.%d.", &minors[i]); err != nil {
			return false
		}
	}
	return max(minors[0], minors[1])-min(minors[0], minors[1]) <= 1
}
