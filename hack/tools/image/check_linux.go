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

// test looks whether the image is what it should be, as the Dockerfile says it or, with a builder, as buildah builds it.
func (o options) test(builder bool) error {
	if os.Getuid() != 0 || builder && !succeeds("buildah", "version") {
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
	for _, platform := range o.platforms {
		one := o
		one.platforms, one.tag = []string{platform}, "localhost/test-"+strings.ReplaceAll(platform, "/", "-")
		if err := one.testOne(filepath.Join(dir, strings.ReplaceAll(platform, "/", "-")), builder); err != nil {
			return fmt.Errorf("image for %s: %w", platform, err)
		}
		fmt.Printf("The image for %s is good.\n", platform)
	}
	return nil
}

func (o options) testOne(dir string, builder bool) error {
	build := o.readImage
	if builder {
		build = o.buildImage
	}
	i, err := build(dir, o.platforms[0])
	if err != nil {
		return err
	}
	if i.user != user || i.path != "/usr/local/bin" || !slices.Equal(i.entrypoint, names[:1]) {
		return fmt.Errorf("it runs %q in %q as %q", i.entrypoint, i.path, i.user)
	}
	return errors.Join(o.checkLabels(i), checkFiles(i.root), checkMachine(i.root, o.platforms[0]), o.checkRuns(i))
}

// checkLabels: the labels say what the image was made from.
func (o options) checkLabels(i *image) error {
	for key, want := range map[string]string{
		"title": names[0], "source": "https://github.com/standalone-kcm/controller-manager", "licenses": "Apache-2.0", "version": o.version,
		"revision": o.revision,
	} {
		if got := i.labels["org.opencontainers.image."+key]; got != want {
			return fmt.Errorf("its label %s is %q, want %q", key, got, want)
		}
	}
	return nil
}

// checkFiles: nothing but the two names and the licenses are in the image, and its user may change none of them.
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
	want := append([]string{"LICENSE", "THIRD_PARTY_NOTICES"}, names...)
	if err == nil && !slices.Equal(found, want) {
		err = fmt.Errorf("it has the files %v, want %v", found, want)
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
func (o options) checkRuns(i *image) error {
	here, err := exec.Command("go", "env", "GOHOSTOS", "GOHOSTARCH").Output()
	if err != nil {
		return err
	}
	if strings.Join(strings.Fields(string(here)), "/") != o.platforms[0] {
		return nil
	}
	for _, name := range names {
		cmd := exec.Command(filepath.Join("/", i.path, name), "--version")
		cmd.Dir, cmd.Env = "/", []string{"PATH=" + i.path}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: i.root, Credential: &syscall.Credential{Uid: userID, Gid: userID}}
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != "Kubernetes "+o.version {
			return fmt.Errorf("%s --version prints %q (%v), want Kubernetes %s", name, got, err, o.version)
		}
	}
	return nil
}
