package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/version"
	"sigs.k8s.io/yaml"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options"
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

// print prints the version if it was asked for, and reports whether it was.
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

// kubernetesVersion returns the version of Kubernetes that this build belongs to. The linker puts it in; where it did
// not, it follows from the libraries: v0.37.2 of those is v1.37.2.
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

// release is the version of this project that was built, as `git describe` has it. The linker puts it in (see
// Makefile).
var release string

// build is what there is to know about this build.
type build struct {
	Version    string `json:"version"`             // of this project
	Commit     string `json:"commit,omitempty"`    // empty where nobody noted it
	TreeState  string `json:"treeState,omitempty"` // "clean" or "dirty": whether it is that commit
	CommitDate string `json:"commitDate,omitempty"`
	Kubernetes string `json:"kubernetesVersion"` // whose controller manager it takes the place of
	GoVersion  string `json:"goVersion"`
	Platform   string `json:"platform"`
}

// thisBuild returns what the linker was given, and else what Go has noted: the tag, when a module was installed, or the
// commit, when a checkout was built.
func thisBuild() build {
	noted, _ := debug.ReadBuildInfo()
	return describe(release, kubernetesVersion(), noted)
}

// describe puts together what the linker was given and what Go has noted, which may be nil.
func describe(release string, k apimachineryversion.Info, noted *debug.BuildInfo) build {
	b := build{Version: release, Kubernetes: k.GitVersion, GoVersion: k.GoVersion, Platform: k.Platform}
	if !strings.Contains(k.GitCommit, "$") { // else a placeholder that no linker has replaced
		b.Commit, b.TreeState, b.CommitDate = k.GitCommit, k.GitTreeState, k.BuildDate
	}
	if noted == nil {
		noted = &debug.BuildInfo{}
	}
	b.Version = cmp.Or(b.Version, noted.Main.Version, "(devel)")
	if b.Commit != "" {
		return b
	}
	b.TreeState, b.CommitDate = "", ""
	for _, setting := range noted.Settings {
		switch {
		case setting.Key == "vcs.revision":
			b.Commit = setting.Value
		case setting.Key == "vcs.time":
			b.CommitDate = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			b.TreeState = "dirty"
		case setting.Key == "vcs.modified":
			b.TreeState = "clean"
		}
	}
	return b
}

// String is for people.
func (b build) String() string {
	commit := ""
	if b.Commit != "" {
		commit = fmt.Sprintf(" (commit %s)", strings.TrimSpace(b.Commit+" "+b.TreeState))
	}
	original, _, _ := strings.Cut(b.Kubernetes, "+") // what follows the + is ours
	return fmt.Sprintf("controller-manager %s%s, in place of kube-controller-manager %s\n%s %s\n",
		b.Version, commit, original, b.GoVersion, b.Platform)
}

// newVersionCommand returns the command "version".
func newVersionCommand(o *options.Options) *cobra.Command {
	var format string
	var checkServer bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := printBuild(c.OutOrStdout(), thisBuild(), format); err != nil || !checkServer {
				return err
			}
			config, err := o.APIServer.ClientConfig()
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			if format != "" {
				out = io.Discard // what a program reads has one document
			}
			return printServerVersion(c.Context(), out, config)
		},
	}
	c.Flags().BoolVar(&checkServer, "check-server", false,
		"Also ask the API server for its version, and end with 1 if this build does not go with it.")
	for _, name := range []string{"kubeconfig", "master"} {
		c.Flags().AddFlag(o.Lookup(name))
	}
	c.Flags().StringVarP(&format, "output", "o", "", "How to print it: 'json', 'yaml', or nothing for people.")
	return c
}

// printBuild prints what this program was built of, in words, JSON or YAML.
func printBuild(w io.Writer, b build, format string) error {
	var text []byte
	var err error
	switch format {
	case "":
		text = []byte(b.String())
	case "json":
		text, err = json.MarshalIndent(b, "", "  ")
		text = append(text, '\n')
	case "yaml":
		text, err = yaml.Marshal(b)
	default:
		return fmt.Errorf("--output must be 'json' or 'yaml', not %q", format)
	}
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}
