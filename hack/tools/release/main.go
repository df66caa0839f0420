// Release builds the binaries of a release for all platforms, with a software bill of materials for each, the licenses of what is in
// them, the manifests of each mode of the chart, and checksums. The same source gives the same bytes, wherever it lies and whenever it is built; -verify proves that: it
// builds two copies of the source, which lie in different folders, and compares. With -strict the second has a build cache of its own,
// so that each package is compiled twice.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const program = "controller-manager"

// options of a release.
type options struct {
	repository string
	version    string
	date       string // of the commit
	ldflags    string
	platforms  []string
	cache      string // Go's build cache; empty for the one that go uses by itself
	helm       string // the program that makes manifests of the chart; empty to make none
	image      string // that the manifests name, as REPOSITORY@DIGEST; empty for a placeholder
}

func main() {
	var o options
	flag.StringVar(&o.version, "version", "", "version of the release")
	flag.StringVar(&o.date, "date", "", "date of the commit, in RFC 3339")
	flag.StringVar(&o.ldflags, "ldflags", "", "for the linker")
	platforms := flag.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64",
		"what to build for")
	out := flag.String("out", "", "where to write the release")
	flag.StringVar(&o.helm, "helm", "", "the program helm, to make the manifests of the chart")
	flag.StringVar(&o.image, "image", "", "what the manifests name, as REPOSITORY@DIGEST; a placeholder if it is empty")
	verify := flag.Bool("verify", false, "build twice, in different folders, and compare")
	strict := flag.Bool("strict", false, "with -verify: the second time from an empty build cache")
	flag.Parse()
	o.platforms = strings.Split(*platforms, ",")
	if flag.NArg() != 1 || o.version == "" || *verify == (*out != "") {
		fmt.Fprintln(os.Stderr, "usage: release -version V -date D -ldflags L [-platforms P] -out DIR|-verify [-strict] REPOSITORY")
		os.Exit(2)
	}
	o.repository = flag.Arg(0)
	err := error(nil)
	if *verify {
		err = verifyTwice(o, *strict)
	} else {
		err = o.release(*out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release writes binaries, bills of materials, licenses and checksums to a folder, of which nothing else is kept.
func (o options) release(out string) error {
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, platform := range o.platforms {
		env := []string{"CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off"}
		if o.cache != "" {
			env = append(env, "GOCACHE="+o.cache)
		}
		path := filepath.Join(out, o.fileName(platform))
		fmt.Println(path)
		if err := o.build(platform, path, env); err != nil {
			return err
		}
		if err := writeBill(path, o.version, o.date); err != nil {
			return fmt.Errorf("bill of materials of %s: %w", path, err)
		}
	}
	if err := errors.Join(o.writeNotices(out), o.writeManifests(out)); err != nil {
		return err
	}
	return writeChecksums(out)
}

// besideFirst is what is to be done before the manifest of the mode beside is applied, whose pods lead at once otherwise.
const besideFirst = `# STOP: first "kubectl create --filename handover-lease.yaml", or two controller managers are active.
# See "Beside a kube-controller-manager" in deploy/README.md.
`

// writeManifests writes what the chart installs in each of its modes, for who does without Helm, and the Lease of the hand-over.
func (o options) writeManifests(out string) error {
	if o.helm == "" {
		return nil
	}
	args := []string{"template", program, "deploy/chart", "--namespace=kube-system", "--set=handoverLease=false"}
	if repository, digest, ok := strings.Cut(o.image, "@"); ok {
		args = append(args, "--set=image.repository="+repository+",image.digest="+digest)
	}
	for _, mode := range []string{"observer", "beside", "standalone"} {
		cmd := exec.Command(o.helm, append(args, "--set=mode="+mode)...)
		cmd.Dir, cmd.Stderr = o.repository, os.Stderr
		text, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("manifests of the mode %s: %w", mode, err)
		}
		if mode == "beside" {
			text = append([]byte(besideFirst), text...)
		}
		if err := os.WriteFile(filepath.Join(out, "install-"+mode+".yaml"), text, 0o644); err != nil {
			return err
		}
	}
	lease, err := os.ReadFile(filepath.Join(o.repository, "deploy", "kustomize", "overlays", "beside-upstream", "handover-lease.yaml"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "handover-lease.yaml"), lease, 0o644)
}

// writeNotices writes the licenses of the project and of all that is in the binaries.
func (o options) writeNotices(out string) error {
	folder, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "run", "./hack/notices", "-platforms", strings.Join(o.platforms, ","), folder)
	cmd.Dir = o.repository
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("collect the licenses: %w\n%s", err, text)
	}
	return nil
}

// fileName is without "+", which many places that files are put to do not take as it is.
func (o options) fileName(platform string) string {
	name := strings.Join([]string{program, strings.ReplaceAll(o.version, "+", "-"), strings.ReplaceAll(platform, "/", "-")}, "-")
	if strings.HasPrefix(platform, "windows/") {
		name += ".exe"
	}
	return name
}

func (o options) build(platform, path string, env []string) error {
	system, machine, ok := strings.Cut(platform, "/")
	if !ok {
		return fmt.Errorf("platform %q: want system/machine", platform)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", o.ldflags, "-o", path, "./cmd/"+program)
	cmd.Dir = o.repository
	cmd.Env = append(append(os.Environ(), env...), "GOOS="+system, "GOARCH="+machine)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build for %s: %w\n%s", platform, err, out)
	}
	return nil
}

// writeChecksums writes SHA256SUMS for "sha256sum --check".
func writeChecksums(dir string) error {
	names, err := list(dir)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, name := range names {
		sum, err := checksum(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", sum, name)
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

func checksum(path string) (string, error) {
	data, err := os.ReadFile(path)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), err
}

// list returns the names of the files in a folder, sorted.
func list(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names, err
}

// verifyTwice makes the release from two copies of the source, in folders with names of different lengths, and compares.
func verifyTwice(o options, strict bool) error {
	work, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	results := []string{filepath.Join(work, "out-1"), filepath.Join(work, "out-2")}
	for i, folder := range []string{"a", "another-folder"} {
		once := o
		once.repository = filepath.Join(work, folder, "source")
		if err := copySource(o.repository, once.repository); err != nil {
			return err
		}
		if i == 1 && strict {
			once.cache = filepath.Join(work, "empty-cache")
		}
		if err := once.release(results[i]); err != nil {
			return err
		}
	}
	return compare(results[0], results[1])
}

// copySource copies what git knows or would add.
func copySource(from, to string) error {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "go.mod", "go.sum", "LICENSE", "cmd",
		"pkg", "internal", "hack/notices")
	cmd.Dir = from
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("list the source: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and git has not been told
		}
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compare reports the files of two folders that are not the same to the byte.
func compare(a, b string) error {
	namesA, errA := list(a)
	namesB, errB := list(b)
	if err := errors.Join(errA, errB); err != nil {
		return err
	}
	if !slices.Equal(namesA, namesB) {
		return fmt.Errorf("two builds made different files: %v and %v", namesA, namesB)
	}
	var differ []string
	for _, name := range namesA {
		sumA, errA := checksum(filepath.Join(a, name))
		sumB, errB := checksum(filepath.Join(b, name))
		if err := errors.Join(errA, errB); err != nil {
			return err
		}
		if sumA != sumB {
			differ = append(differ, name)
		}
	}
	if len(differ) > 0 {
		return fmt.Errorf("two builds differ in %s", strings.Join(differ, ", "))
	}
	fmt.Printf("Two builds gave the same %d files.\n", len(namesA))
	return nil
}
