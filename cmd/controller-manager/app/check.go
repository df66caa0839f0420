package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

const checkHelp = `Check what a controller manager with these arguments would meet, without starting one: files and how long
certificates are valid, the API server and its version, the clock, who leads, APIs that are not served, and the rights
of the manager and of the accounts of its controllers. It asks for rights by access reviews, and writes nothing.
It ends with 1 if something fails.`

// result says how a check has ended.
type result string

const (
	passes result = "ok"
	warns  result = "warn" // the manager works, and somebody should look
	fails  result = "fail"
)

// finding is a line of the table.
type finding struct {
	Check  string `json:"check"`
	Result result `json:"result"`
	Says   string `json:"says"`
}

// checker collects what is found about a configuration.
type checker struct {
	options.Config
	now      time.Time
	findings []finding
}

func (c *checker) note(check string, is result, format string, args ...any) {
	c.findings = append(c.findings, finding{check, is, fmt.Sprintf(format, args...)})
}

// newCheckCommand checks what the manager would meet.
func newCheckCommand(o *options.Options) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "check [flags of the manager]",
		Short:   "Check files, API server and rights for the given flags",
		Long:    checkHelp,
		Example: "  controller-manager check --kubeconfig=manager.conf --use-service-account-credentials",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("--output must be text or json, not %s", output)
			}
			klog.SetLogger(klog.Logger{}) // what libraries log, the table says
			if err := o.Features.Apply(); err != nil {
				return err
			}
			config, err := o.Config()
			if err != nil {
				return err
			}
			config.Client.QPS, config.Client.UserAgent = -1, "controller-manager check" // the server says when to wait
			config.Client.Timeout = answerWithin
			k := &checker{Config: config, now: time.Now()}
			k.all(c.Context())
			return k.write(c.OutOrStdout(), output)
		},
	}
	for _, set := range o.Flags().FlagSets {
		c.Flags().AddFlagSet(set)
	}
	c.Flags().StringVarP(&output, "output", "o", "text", "Form of the table: text or json.")
	onlyOwnFlags(c, "output")
	return c
}

// all makes all checks. What the API server does not answer leaves out what follows from it.
func (c *checker) all(ctx context.Context) {
	c.flags()
	c.files()
	c.historyFolder()
	if !c.server(ctx) {
		return
	}
	client, err := kubernetes.NewForConfig(c.Client)
	if err != nil {
		c.note("API server", fails, "%v", err)
		return
	}
	c.leases(ctx, client)
	c.served(client)
	c.rights(ctx, client)
}

// flags names the flags without effect.
func (c *checker) flags() {
	for _, name := range c.WithoutEffect {
		c.note("flags", warns, "%s has no effect in this build", name)
	}
	for name, why := range c.Removed {
		c.note("flags", warns, "%s has no effect: %s", name, why)
	}
	if len(c.Selection.Unavailable) > 0 {
		c.note("controllers", warns, "not in this build: %s", strings.Join(c.Selection.Unavailable, ", "))
	}
	on := running(c.Config)
	c.note("controllers", passes, "%d of %d are on", len(on), len(c.Manager.Controllers))
}

// running are the controllers that the flags switch on.
func running(c options.Config) (on []manager.Controller) {
	for _, entry := range c.Manager.Controllers {
		if whyOff(entry.Name, c.Selection, c.Manager, entry.Gates) == "" {
			on = append(on, entry)
		}
	}
	return on
}

// write writes the table, and returns an error if a check has failed.
func (c *checker) write(w io.Writer, output string) error {
	if output == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(c.findings); err != nil {
			return err
		}
	} else {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, f := range c.findings {
			fmt.Fprintf(table, "%s\t%s\t%s\n", f.Result, f.Check, f.Says)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	failed := len(slices.DeleteFunc(slices.Clone(c.findings), func(f finding) bool { return f.Result != fails }))
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed", failed, len(c.findings))
	}
	return nil
}
