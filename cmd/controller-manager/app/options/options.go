// Package options is the command line of the controller manager: a file for each group of flags, each with its
// defaults, what its values must be like, and what becomes of them in [Config]. It takes every flag of
// kube-controller-manager 1.34 to 1.38, with the same defaults, because manifests carry them (CLI-49, CLI-76); those
// that nothing here obeys yet are listed in [Config.WithoutEffect].
package options

import (
	"slices"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options/ignored"
	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options/selection"
	"github.com/standalone-kcm/controller-manager/pkg/leaderelection"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// Options is what the command line said, a field for each group of flags.
type Options struct {
	APIServer      APIServer
	Generic        Generic
	Controllers    selection.Controllers
	LeaderElection LeaderElection
	Features       Features
	Logging        Logging
	Serving        Serving
	Authentication Authentication
	Authorization  Authorization
	Metrics        Metrics
	History        History
	Ignored        *ignored.Flags

	registry []manager.Controller
	flags    cliflag.NamedFlagSets
}

// group is the flags of one section of the help. A group that something obeys also has apply(*Config).
type group interface {
	addFlags(fs *pflag.FlagSet)
	validate() []error
}

// section is a group of flags, under the title that the help has for it.
type section struct {
	title string
	group group
	idle  bool // nothing obeys these flags in this build
}

// ofPackage are the flags that another package has, such as that of a controller.
type ofPackage struct {
	flags interface {
		AddFlags(fs *pflag.FlagSet)
		Validate() []error
	}
}

func (o ofPackage) addFlags(fs *pflag.FlagSet) { o.flags.AddFlags(fs) }
func (o ofPackage) validate() []error          { return o.flags.Validate() }

// sections are in the order of the help, which puts those without effect last.
func (o *Options) sections() []section {
	all := []section{
		{title: "API server", group: &o.APIServer},
		{title: "controllers", group: ofPackage{&o.Controllers}},
		{title: "generic", group: &o.Generic},
		{title: "leader election", group: &o.LeaderElection},
	}
	for _, c := range o.registry {
		if c.Flags != nil {
			all = append(all, section{title: c.Name, group: ofPackage{c.Flags}})
		}
	}
	return append(all,
		section{title: "feature gate", group: &o.Features},
		section{title: "logging", group: &o.Logging},
		section{title: "secure serving", group: &o.Serving},
		section{title: "authentication", group: &o.Authentication},
		section{title: "authorization", group: &o.Authorization},
		section{title: "metrics", group: &o.Metrics},
		section{title: "history", group: &o.History},
		section{title: "other controllers'", group: ofPackage{o.Ignored}, idle: true},
	)
}

// New returns the options with their defaults, those of the registry's controllers among them. Flags of controllers
// that the registry does not have are accepted, and obeyed by nothing.
func New(registry []manager.Controller) *Options {
	o := &Options{
		APIServer:      newAPIServer(),
		Generic:        newGeneric(),
		Controllers:    selection.New(registry),
		LeaderElection: newLeaderElection(),
		Features:       newFeatures(),
		Logging:        newLogging(),
		Serving:        newServing(),
		Authentication: newAuthentication(),
		Authorization:  newAuthorization(),
		Metrics:        newMetrics(),
		History:        newHistory(),
		registry:       registry,
		flags:          cliflag.NamedFlagSets{NormalizeNameFunc: cliflag.WordSepNormalizeFunc}, // "_" for "-" (CLI-1)
	}
	o.Ignored = ignored.New(func(name string) bool { return o.Lookup(name) != nil })
	for _, s := range o.sections() {
		s.group.addFlags(o.flags.FlagSet(o.heading(s)))
	}
	return o
}

// heading is the name of the section in the help, which adds " flags:".
func (o *Options) heading(s section) string {
	if s.idle {
		return "without effect in this build: " + s.title
	}
	return s.title
}

// Flags returns the flags by section of the help. Parsing any flag set that shares them fills the options.
func (o *Options) Flags() cliflag.NamedFlagSets { return o.flags }

// Config returns what the flags amount to, or all that is wrong with them (CLI-6). The flags have been parsed, and
// [Features.Apply] has been called.
func (o *Options) Config() (Config, error) {
	var errs []error
	for _, s := range o.sections() {
		errs = append(errs, s.group.validate()...)
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return Config{}, err
	}
	client, err := o.APIServer.ClientConfig()
	if err != nil {
		return Config{}, err
	}
	c := Config{Manager: manager.Options{Component: Component, Controllers: o.registry}, Client: client}
	for _, s := range o.sections() {
		if obeyed, ok := s.group.(interface{ apply(*Config) }); ok {
			obeyed.apply(&c)
		}
		if s.idle {
			c.WithoutEffect, c.Removed = ignored.Removed(set(o.flags.FlagSet(o.heading(s))))
		}
	}
	c.Flags = o.values()
	c.Selection = o.Controllers.Resolve(o.given)
	c.Manager.Lacking, c.Manager.Missing, c.Manager.Off = c.Selection.Lacking, c.Selection.Missing, c.Selection.Off
	slices.Sort(c.WithoutEffect)
	return c, nil
}

// Select returns which controllers the flags select, and which feature gates they switch. It needs no API server.
func (o *Options) Select() (s selection.Selection, gates manager.Options, err error) {
	errs := append(o.Controllers.Validate(), o.Features.validate()...)
	if err := utilerrors.NewAggregate(errs); err != nil {
		return s, gates, err
	}
	var c Config
	o.Features.apply(&c)
	return o.Controllers.Resolve(o.given), c.Manager, nil
}

// values returns the values of all flags, by name (MH-11).
func (o *Options) values() map[string]string {
	values := map[string]string{}
	for _, fs := range o.flags.FlagSets {
		fs.VisitAll(func(f *pflag.Flag) { values[f.Name] = f.Value.String() })
	}
	return values
}

// Lookup returns the flag of that name, nil if there is none.
func (o *Options) Lookup(name string) *pflag.Flag {
	for _, fs := range o.flags.FlagSets {
		if f := fs.Lookup(name); f != nil {
			return f
		}
	}
	return nil
}

// given reports whether the flag has a value other than nothing.
func (o *Options) given(name string) bool {
	f := o.Lookup(name)
	return f != nil && f.Value.String() != ""
}

// set returns the flags that the command line has set.
func set(fs *pflag.FlagSet) (names []string) {
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			names = append(names, "--"+f.Name)
		}
	})
	return names
}

// Completions returns the values of flags whose values can be listed.
func (o *Options) Completions() map[string][]string {
	controllers := []string{"*"}
	for _, name := range o.Controllers.Names() {
		controllers = append(controllers, name, "-"+name)
	}
	return map[string][]string{
		"controllers":          controllers,
		"tls-min-version":      {"VersionTLS12", "VersionTLS13"},
		"leader-elect-on-loss": {string(leaderelection.Exit), string(leaderelection.Standby)},
		"logging-format":       {"text", "json"},
	}
}
