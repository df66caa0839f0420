package main

import (
	"bytes"
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
		image, err = b.output("build", "--quiet", "--isolation", "chroot", "--platform", platform, "--manifest", o.tag, "--timestamp", fmt.Sprint(o.epoch()),
			// A release of buildah that does not set them by itself is in use.
			"--build-arg", "TARGETOS="+system, "--build-arg", "TARGETARCH="+machine,
			"--build-arg", "BINARY_FROM="+o.from, "--build-arg", "LDFLAGS="+o.ldflags, o.repository)
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

// unpack returns the folder of an image's files.
func (b *buildah) unpack(image string) (dir string, err error) {
	container, err := b.output("from", "--pull-never", image)
	if err != nil {
		return "", err
	}
	return b.output("mount", container)
}

// inspect reads a part of an image's description, as a Go template over buildah's own format.
func (b *buildah) inspect(image, format string) (string, error) {
	return b.output("inspect", "--type", "image", "--format", format, image)
}

var errNoTest = errors.New("to test the image takes Linux, root (it is unpacked and run in a chroot) and buildah ('apt-get install buildah')")
