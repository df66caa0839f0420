// Image builds the container image, with docker buildx where a docker daemon answers and else with buildah, which needs no
// daemon. -test makes of the Dockerfile what a builder would, and runs what is in it; with -builder buildah builds what is tested.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// names are those of the program in the image; kubeadm's manifest calls it by the second (CLI-75).
var names = []string{"controller-manager", "kube-controller-manager"}

// options of an image.
type options struct {
	repository string
	tag        string
	version    string // that the binary reports
	revision   string // the commit, for the labels
	date       time.Time
	ldflags    string
	platforms  []string
	from       string // BINARY_FROM of the Dockerfile
	push       bool
}

func main() {
	var o options
	flag.StringVar(&o.tag, "tag", "", "name of the image")
	flag.StringVar(&o.version, "version", "", "version that the binary reports")
	flag.StringVar(&o.revision, "revision", "", "commit that the image is made from")
	flag.StringVar(&o.ldflags, "ldflags", "", "for the linker")
	flag.StringVar(&o.from, "from", "prebuilt", "where the binary comes from: prebuilt, or build for a stage of the Dockerfile")
	flag.BoolVar(&o.push, "push", false, "push the image instead of keeping it")
	platforms := flag.String("platforms", "linux/amd64", "what to build for")
	date := flag.String("date", "", "date of the commit, in RFC 3339")
	test := flag.Bool("test", false, "test what is in the image, and run it")
	builder := flag.Bool("builder", false, "with -test: as buildah builds it")
	flag.Parse()
	o.platforms = strings.Split(*platforms, ",")
	if flag.NArg() != 1 || o.tag == "" {
		fmt.Fprintln(os.Stderr,
			"usage: image -tag T -version V -revision R -date D -ldflags L [-platforms P] [-from build] [-push|-test [-builder]] REPOSITORY")
		os.Exit(2)
	}
	o.repository = flag.Arg(0)
	if err := o.run(*date, *test, *builder); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func (o options) run(date string, test, builder bool) error {
	if date != "" { // a source that is no git repository has none
		var err error
		if o.date, err = time.Parse(time.RFC3339, date); err != nil {
			return err
		}
	}
	if test {
		return o.test(builder)
	}
	if o.from == "prebuilt" {
		if err := o.prebuild(); err != nil {
			return err
		}
	}
	switch {
	case succeeds("docker", "info") && succeeds("docker", "buildx", "version"):
		return o.withDocker()
	case succeeds("buildah", "version"):
		return o.withBuildah()
	}
	return errors.New("there is neither a docker daemon with buildx nor buildah: install one of them ('apt-get install buildah')")
}

func succeeds(program string, args ...string) bool {
	return exec.Command(program, args...).Run() == nil
}

// prebuild builds the binaries and collects the licenses that the stage "prebuilt" of the Dockerfile takes.
func (o options) prebuild() error {
	licenses := exec.Command("go", "run", "./hack/notices", "-platforms", strings.Join(o.platforms, ","),
		filepath.Join("bin", "image", "licenses"))
	licenses.Dir = o.repository
	if out, err := licenses.CombinedOutput(); err != nil {
		return fmt.Errorf("collect the licenses: %w\n%s", err, out)
	}
	for _, platform := range o.platforms {
		system, machine, _ := strings.Cut(platform, "/")
		dir := filepath.Join(o.repository, "bin", "image", system+"-"+machine)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", o.ldflags, "-o", filepath.Join(dir, names[0]),
			"./cmd/"+names[0])
		cmd.Dir = o.repository
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS="+system, "GOARCH="+machine)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build for %s: %w\n%s", platform, err, out)
		}
		if err := os.Symlink(names[0], filepath.Join(dir, names[1])); err != nil {
			return err
		}
	}
	return nil
}

func (o options) withDocker() error {
	args := []string{"buildx", "build", "--platform", strings.Join(o.platforms, ","), "--tag", o.tag,
		"--build-arg", "BINARY_FROM=" + o.from, "--build-arg", "LDFLAGS=" + o.ldflags,
		"--build-arg", "VERSION=" + o.version, "--build-arg", "REVISION=" + o.revision}
	if o.push {
		args = append(args, "--push")
	} else {
		args = append(args, "--load") // of several platforms only if docker's image store can hold them
	}
	cmd := exec.Command("docker", append(args, o.repository)...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", o.epoch()))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	fmt.Println(o.tag)
	return nil
}

func (o options) epoch() int64 { return max(0, o.date.Unix()) }

// withBuildah leaves an OCI archive, which docker, podman, skopeo and containerd load.
func (o options) withBuildah() error {
	b, err := newBuildah(filepath.Join(o.repository, "bin", "buildah"))
	if err != nil {
		return err
	}
	defer b.remove()
	if _, err := b.build(o); err != nil {
		return err
	}
	if o.push {
		return b.run("manifest", "push", "--all", o.tag, "docker://"+o.tag)
	}
	archive := filepath.Join(o.repository, "bin", "controller-manager-image.tar")
	if err := os.RemoveAll(archive); err != nil {
		return err
	}
	if err := b.run("manifest", "push", "--all", o.tag, "oci-archive:"+archive+":"+o.tag); err != nil {
		return err
	}
	fmt.Printf("%s in %s\n", o.tag, archive)
	return nil
}
