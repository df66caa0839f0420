package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDefaultTag: the tag of the image changes with the commit, and tells whether the tree had changes beside it.
func TestDefaultTag(t *testing.T) {
	dir := t.TempDir()
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "Makefile"), string(makefile))
	prefix := "registry.invalid/controller-manager:" + releaseTag(t) + "-"

	git(t, dir, "init", "--quiet")
	first := commit(t, dir)
	if got, want := imageName(t, dir), prefix+first[:12]; got != want {
		t.Errorf("a clean tree: got %s, want %s", got, want)
	}
	git(t, dir, "tag", "--annotate", "--message=x", "v1.2.3")
	second := commit(t, dir)
	if got, want := imageName(t, dir), prefix+second[:12]; got != want || first == second {
		t.Errorf("after a tag and another commit: got %s, want %s", got, want)
	}
	write(t, filepath.Join(dir, "new"), "not yet committed")
	dirty := imageName(t, dir)
	if want := regexp.MustCompile("^" + regexp.QuoteMeta(prefix+second[:12]) + "-dirty-[0-9a-f]{8}$"); !want.MatchString(dirty) {
		t.Errorf("a dirty tree: got %s, want %s", dirty, want)
	}
	write(t, filepath.Join(dir, "new"), "changed once more")
	if again := imageName(t, dir); again == dirty {
		t.Errorf("another change has the same name: %s", again)
	}
	if got, want := imageName(t, dir, "IMAGE=example.com/mine:1"), "example.com/mine:1"; got != want {
		t.Errorf("with a name given: got %s, want %s", got, want)
	}
}

// TestDefaultTagWithoutGit: a source archive has no commit, and its image has the name that the manifests give.
func TestDefaultTagWithoutGit(t *testing.T) {
	dir := t.TempDir()
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "Makefile"), string(makefile))
	if got, want := imageName(t, dir, "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)), "registry.invalid/controller-manager:"+releaseTag(t); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestManifestsNameTheRelease: the manifests name the image of the release that the Makefile builds.
func TestManifestsNameTheRelease(t *testing.T) {
	tag := releaseTag(t)
	for path, want := range map[string]string{
		"deploy/kustomize/base/kustomization.yaml":                         "newTag: " + tag,
		"deploy/static-pod/kube-controller-manager.yaml":                   "image: registry.invalid/controller-manager:" + tag,
		"deploy/static-pod/patches/kube-controller-manager+strategic.yaml": "image: registry.invalid/controller-manager:" + tag,
		"deploy/observer.yaml":                                             "image: registry.invalid/controller-manager:" + tag,
	} {
		data, err := os.ReadFile(filepath.Join(repository, path))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), want+"\n") {
			t.Errorf("%s does not say %q", path, want)
		}
	}
}

// TestReleaseIsInTheChangelog: the release that a build says it is, while there is no tag, is the newest in the changelog.
func TestReleaseIsInTheChangelog(t *testing.T) {
	var texts [2]string
	for i, name := range []string{"Makefile", "CHANGELOG.md"} {
		data, err := os.ReadFile(filepath.Join(repository, name))
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(data)
	}
	number := regexp.MustCompile(`(?m)^NUMBER := (v\d+\.\d+\.\d+)$`).FindStringSubmatch(texts[0])
	newest := regexp.MustCompile(`(?m)^## (v\S+)$`).FindStringSubmatch(texts[1])
	if number == nil || newest == nil || number[1] != newest[1] {
		t.Errorf("the Makefile has %q, the changelog begins with %q", number, newest)
	}
}

const repository = "../../.."

// releaseTag returns the version in the Makefile, in the form that a tag can have, with the number of our release for it.
func releaseTag(t *testing.T) string {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^VERSION := (\S+)$`).FindSubmatch(makefile)
	release := regexp.MustCompile(`(?m)^IMAGE_RELEASE := (\d+)$`).FindSubmatch(makefile)
	if version == nil || release == nil {
		t.Fatal("the Makefile has no VERSION, or no IMAGE_RELEASE")
	}
	return strings.ReplaceAll(string(version[1]), "+", "-") + "." + string(release[1])
}

// imageName asks the Makefile in a folder, with some more environment variables.
func imageName(t *testing.T, dir string, variables ...string) string {
	t.Helper()
	cmd := exec.Command("make", "--silent", "--no-print-directory", "image-name")
	cmd.Dir = dir
	cmd.Env = append(environment(), variables...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("make image-name: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// environment is that of the test without what make and git hand to the programs that they start.
func environment() (env []string) {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); !strings.HasPrefix(name, "GIT_") && !strings.HasPrefix(name, "MAKE") &&
			name != "MFLAGS" && name != "IMAGE" {
			env = append(env, variable)
		}
	}
	return env
}

func commit(t *testing.T, dir string) string {
	t.Helper()
	git(t, dir, "add", "--all")
	git(t, dir, "commit", "--quiet", "--allow-empty", "--message=x")
	return git(t, dir, "rev-parse", "HEAD")
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...)
	cmd.Dir = dir
	cmd.Env = environment()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", args[0], err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
