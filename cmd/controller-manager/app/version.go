package app

import (
	"fmt"
	"io"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/version"
)

// versionFlag is the value of --version: "", "true", "false", "raw", or a version to report from now on (CLI-8).
type versionFlag string

// Set implements pflag.Value.
func (f *versionFlag) Set(s string) error {
	if strings.HasPrefix(s, "v") {
		if err := version.SetDynamicVersion(s); err != nil {
			return err
		}
		*f = versionFlag(s)
		return nil
	}
	if s != "raw" {
		asked, err := strconv.ParseBool(s)
		if err != nil {
			return err
		}
		s = strconv.FormatBool(asked)
	}
	*f = versionFlag(s)
	return nil
}

// String implements pflag.Value.
func (f *versionFlag) String() string {
	if *f == "" {
		return "false"
	}
	return string(*f)
}

// Type implements pflag.Value.
func (f *versionFlag) Type() string { return "version" }

// print prints the version if it was asked for, and tells whether it was.
func (f versionFlag) print(w io.Writer) bool {
	switch f {
	case "true":
		fmt.Fprintf(w, "Kubernetes %s\n", kubernetesVersion().GitVersion)
	case "raw":
		fmt.Fprintf(w, "%#v\n", kubernetesVersion())
	default:
		return false
	}
	return true
}

// kubernetesVersion returns the version of Kubernetes that this build belongs to. The linker puts it in; where it did not,
// it follows from the libraries: v0.36.3 of those is v1.36.3.
func kubernetesVersion() apimachineryversion.Info {
	v := version.Get()
	if !strings.Contains(v.GitVersion, "$") {
		return v
	}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, library := range build.Deps {
		if minor, ok := strings.CutPrefix(library.Version, "v0."); ok && library.Path == "k8s.io/component-base" {
			v.GitVersion = "v1." + minor
			v.Major = "1"
			v.Minor, _, _ = strings.Cut(minor, ".")
		}
	}
	return v
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			v := kubernetesVersion()
			fmt.Fprintf(c.OutOrStdout(), "controller-manager %s, in place of kube-controller-manager %s\n%s %s\n",
				ownVersion(), v.GitVersion, v.GoVersion, v.Platform)
			return nil
		},
	}
}

// ownVersion returns the version of this module, and the commit it was built from where Go noted one.
func ownVersion() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown version)"
	}
	own := build.Main.Version
	if own == "" {
		own = "(devel)"
	}
	for _, setting := range build.Settings {
		if setting.Key == "vcs.revision" {
			own += " " + setting.Value
		}
	}
	return own
}
