// Package options is the command line of the controller manager: a file for each group of flags, each with its defaults,
// what its values must be like, and what becomes of them in [Config]. It takes every flag of kube-controller-manager 1.36,
// with the same defaults, because manifests carry them (CLI-49, CLI-76); those that nothing here obeys yet are listed in
// [Config.WithoutEffect].
package options

import (
	"slices"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/standalone-kcm/controller-manager/pkg/leaderelection"
)

// Options is what the command line said, a field for each group of flags.
type Options struct {
	APIServer      APIServer
	Generic        Generic
	Controllers    Controllers
	LeaderElection LeaderElection
	Deployment     Deployment
	ReplicaSet     ReplicaSet
	Endpoints      Endpoints
	PodGC          PodGC
	Features       Features
	Logging        Logging
	Serving        Serving
	Authentication Authentication
	Authorization  Authorization
	Metrics        Metrics
	Ignored        Ignored

	flags cliflag.NamedFlagSets
}

// group is the flags of one section of the help. A group that something obeys also has apply(*Config).
type group interface {
	addFlags(fs *pflag.FlagSet)
	validate() []error
}

type section struct {
	title      string
	group      group
	controller string // whose flags these are; empty when they are not for one controller
	idle       bool   // nothing obeys these flags in this build
}

// sections are in the order of the help, which puts those without effect last.
func (o *Options) sections() []section {
	return []section{
		{title: "API server", group: &o.APIServer},
		{title: "controllers", group: &o.Controllers},
		{title: "generic", group: &o.Generic},
		{title: "leader election", group: &o.LeaderElection},
		{title: "deployment-controller", group: &o.Deployment, controller: "deployment-controller"},
		{title: "replicaset-controller", group: &o.ReplicaSet, controller: "replicaset-controller"},
		{title: "endpoints-controller", group: &o.Endpoints, controller: "endpoints-controller"},
		{title: "pod-garbage-collector-controller", group: &o.PodGC, controller: "pod-garbage-collector-controller"},
		{title: "feature gate", group: &o.Features},
		{title: "logging", group: &o.Logging},
		{title: "secure serving", group: &o.Serving},
		{title: "authentication", group: &o.Authentication},
		{title: "authorization", group: &o.Authorization},
		{title: "metrics", group: &o.Metrics},
		{title: "other controllers'", group: &o.Ignored, idle: true},
	}
}

// withoutEffect tells whether nothing in this build obeys the flags of the section.
func (o *Options) withoutEffect(s section) bool {
	return s.idle || s.controller != "" && !slices.Contains(o.Controllers.implemented, s.controller)
}

// New returns the options with their defaults. Implemented are the canonical names of the controllers that this build has.
func New(implemented []string) *Options {
	o := &Options{
		APIServer:      newAPIServer(),
		Generic:        newGeneric(),
		Controllers:    newControllers(implemented),
		LeaderElection: newLeaderElection(),
		Deployment:     Deployment{Workers: 5},
		ReplicaSet:     ReplicaSet{Workers: 5, PodFailureBackOff: true},
		Endpoints:      Endpoints{Workers: 5},
		PodGC:          PodGC{TerminatedPodThreshold: 12500, OrphanBrake: 0.5},
		Features:       newFeatures(),
		Logging:        newLogging(),
		Serving:        newServing(),
		Authentication: newAuthentication(),
		Authorization:  newAuthorization(),
		Metrics:        newMetrics(),
		Ignored:        newIgnored(),
		flags:          cliflag.NamedFlagSets{NormalizeNameFunc: cliflag.WordSepNormalizeFunc}, // CLI-1
	}
	for _, idle := range []bool{false, true} {
		for _, s := range o.sections() {
			if o.withoutEffect(s) == idle {
				s.group.addFlags(o.flags.FlagSet(o.heading(s)))
			}
		}
	}
	return o
}

// heading is the name of the section in the help, which adds " flags:".
func (o *Options) heading(s section) string {
	if o.withoutEffect(s) {
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
	client, err := o.APIServer.clientConfig()
	if err != nil {
		return Config{}, err
	}
	c := Config{Component: Component, Client: client}
	for _, s := range o.sections() {
		if obeyed, ok := s.group.(interface{ apply(*Config) }); ok {
			obeyed.apply(&c)
		}
		if o.withoutEffect(s) {
			c.WithoutEffect = append(c.WithoutEffect, set(o.flags.FlagSet(o.heading(s)))...)
		}
	}
	c.Flags = o.values()
	c.Controllers = o.Controllers.resolve(o.Ignored.given("service-account-private-key-file"))
	slices.Sort(c.WithoutEffect)
	return c, nil
}

// values returns the values of all flags, by name (MH-11).
func (o *Options) values() map[string]string {
	values := map[string]string{}
	for _, fs := range o.flags.FlagSets {
		fs.VisitAll(func(f *pflag.Flag) { values[f.Name] = f.Value.String() })
	}
	return values
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
	return map[string][]string{
		"controllers":          append([]string{"*"}, o.Controllers.names()...),
		"leader-elect-on-loss": {string(leaderelection.Exit), string(leaderelection.Standby)},
		"logging-format":       {"text", "json"},
	}
}
