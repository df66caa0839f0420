package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	user   = "65532:65532"
	userID = 65532
)

// buildAndTest builds the image with buildah, unpacks it and looks whether it is what it should be.
func (o options) buildAndTest() error {
	if os.Getuid() != 0 || !succeeds("buildah", "version") {
		return errNoTest
	}
	if err := o.prebuild(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b, err := newBuildah(filepath.Join(dir, "storage"))
	if err != nil {
		return err
	}
	for _, platform := range o.platforms {
		one := o
		one.platforms, one.tag = []string{platform}, "localhost/test-"+strings.ReplaceAll(platform, "/", "-")
		if err := one.testOne(b); err != nil {
			return fmt.Errorf("image for %s: %w", platform, err)
		}
		fmt.Printf("The image for %s is good.\n", platform)
	}
	return nil
}

func (o options) testOne(b *buildah) error {
	image, err := b.build(o)
	if err != nil {
		return err
	}
	root, err := b.unpack(image)
	if err != nil {
		return err
	}
	for _, check := range []func() error{
		func() error { return b.checkConfig(image, o.platforms[0]) },
		func() error { return checkFiles(root) },
		func() error { return checkMachine(root, o.platforms[0]) },
		func() error { return o.checkRuns(b, image, root) },
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkConfig looks at what the image says about itself.
func (b *buildah) checkConfig(image, platform string) error {
	for _, want := range [][2]string{
		{"{{ .OCIv1.Config.User }}", user},
		{"{{ .OCIv1.Config.Entrypoint }}", "[controller-manager]"},
		{"{{ .OCIv1.Config.Env }}", "[PATH=/usr/local/bin]"},
		{"{{ .OCIv1.OS }}/{{ .OCIv1.Architecture }}", platform},
	} {
		got, err := b.inspect(image, want[0])
		if err != nil {
			return err
		}
		if got != want[1] {
			return fmt.Errorf("%s is %s, want %s", want[0], got, want[1])
		}
	}
	return nil
}

// checkFiles: nothing but the two names is in the image, and its user may change neither.
func checkFiles(root string) error {
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		found = append(found, filepath.Base(path))
		info, err := d.Info()
		if err == nil && d.Type().IsRegular() && (info.Mode().Perm()&0o022 != 0 || info.Sys().(*syscall.Stat_t).Uid != 0) {
			err = fmt.Errorf("%s can be changed by others than root", path)
		}
		return err
	})
	if err == nil && !slices.Equal(found, names) {
		err = fmt.Errorf("it has the files %v, want %v", found, names)
	}
	return err
}

// checkMachine: the binary is for the platform, and needs no dynamic linker.
func checkMachine(root, platform string) error {
	file, err := elf.Open(filepath.Join(root, "usr/local/bin", names[0]))
	if err != nil {
		return err
	}
	defer file.Close()
	machine := map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64}[platform]
	if file.Machine != machine {
		return fmt.Errorf("the binary is for %v, want %v", file.Machine, machine)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("the binary is not static")
		}
	}
	return nil
}

// checkRuns runs both names among the image's files alone, as its user, where its PATH has them; if this machine can.
func (o options) checkRuns(b *buildah, image, root string) error {
	here, err := exec.Command("go", "env", "GOHOSTOS", "GOHOSTARCH").Output()
	if err != nil {
		return err
	}
	if strings.Join(strings.Fields(string(here)), "/") != o.platforms[0] {
		return nil
	}
	env, err := b.inspect(image, "{{ range .OCIv1.Config.Env }}{{ . }}\n{{ end }}")
	if err != nil {
		return err
	}
	path := strings.TrimPrefix(strings.TrimSpace(env), "PATH=")
	for _, name := range names {
		cmd := exec.Command(filepath.Join("/", path, name), "--version")
		cmd.Dir, cmd.Env = "/", []string{"PATH=" + path}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: userID, Gid: userID}}
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != "Kubernetes "+o.version {
			return fmt.Errorf("%s --version prints %q (%v), want Kubernetes %s", name, got, err, o.version)
		}
	}
	return nil
}
