package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// buildah runs buildah with a storage of its own, which does without a daemon, and without what a container may not do.
type buildah struct{ dir string }

func newBuildah(dir string) (*buildah, error) {
	b := &buildah{dir}
	b.remove()
	return b, os.MkdirAll(dir, 0o700)
}

func (b *buildah) remove() { _ = os.RemoveAll(b.dir) }

func (b *buildah) command(args ...string) *exec.Cmd {
	all := []string{"--storage-driver", "vfs", "--root", filepath.Join(b.dir, "root"), "--runroot", filepath.Join(b.dir, "run")}
	return exec.Command("buildah", append(all, args...)...)
}

func (b *buildah) run(args ...string) error {
	_, err := b.output(args...)
	return err
}

func (b *buildah) output(args ...string) (string, error) {
	cmd := b.command(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("buildah %s: %w\n%s", args[0], err, stderr.Bytes())
	}
	return strings.TrimSpace(stdout.String()), nil
}

// build makes an image for each platform and a list of them that has the tag. The same binaries give the same images. It
// returns the last image.
func (b *buildah) build(o options) (image string, err error) {
	for _, platform := range o.platforms {
		system, machine, ok := strings.Cut(platform, "/")
		if !ok {
			return "", fmt.Errorf("platform %q: want system/machine", platform)
		}
		image, err = b.output("build", "--quiet", "--isolation", "chroot", "--platform", platform, "--manifest", o.tag, "--timestamp",
			fmt.Sprint(o.epoch()),
			// A release of buildah that does not set them by itself is in use.
			"--build-arg", "TARGETOS="+system, "--build-arg", "TARGETARCH="+machine,
			"--build-arg", "BINARY_FROM="+o.from, "--build-arg", "LDFLAGS="+o.ldflags,
			"--build-arg", "VERSION="+o.version, "--build-arg", "REVISION="+o.revision, o.repository)
		if err != nil {
			return "", err
		}
	}
	lines := strings.Fields(image)
	if len(lines) == 0 {
		return "", errors.New("buildah does not say which image it has made")
	}
	return lines[len(lines)-1], nil
}

// buildImage builds the image with buildah, below dir, and unpacks it.
func (o options) buildImage(dir, platform string) (*image, error) {
	b, err := newBuildah(dir)
	if err != nil {
		return nil, err
	}
	id, err := b.build(o)
	if err != nil {
		return nil, err
	}
	container, err := b.output("from", "--pull-never", id)
	if err != nil {
		return nil, err
	}
	i := &image{}
	if i.root, err = b.output("mount", container); err != nil {
		return nil, err
	}
	labels, err := b.output("inspect", "--type", "image", "--format", `{{ json .OCIv1.Config.Labels }}`, id)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(labels), &i.labels); err != nil {
		return nil, err
	}
	const format = `{{ .OCIv1.OS }}/{{ .OCIv1.Architecture }} {{ .OCIv1.Config.User }} {{ range .OCIv1.Config.Env }}{{ . }}{{ end }} {{ range .OCIv1.Config.Entrypoint }}{{ . }} {{ end }}`
	text, err := b.output("inspect", "--type", "image", "--format", format, id)
	if err != nil {
		return nil, err
	}
	words := strings.Fields(text)
	if len(words) < 4 || words[0] != platform {
		return nil, fmt.Errorf("it is described as %q", text)
	}
	i.user, i.path, i.entrypoint = words[1], strings.TrimPrefix(words[2], "PATH="), words[3:]
	return i, nil
}

var errNoTest = errors.New(
	"to test the image takes Linux and root (it is run in a chroot), and with -builder buildah ('apt-get install buildah')")
