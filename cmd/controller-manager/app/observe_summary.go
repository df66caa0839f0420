package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/agreement"
)

const (
	// mostReport bounds what is read of an observer, in bytes.
	mostReport = 8 << 20
	// mostListed bounds how many disagreements people are shown.
	mostListed = 20
)

// summaryOptions are the flags of the command observe by which it asks an observer and observes nothing.
type summaryOptions struct {
	summary   bool
	output    string
	sendToken bool
}

// run prints how the plans of the observer in the cluster compare with what was written. What no row of docs/parity.md
// explains is an error.
func (o *summaryOptions) run(ctx context.Context, kubeconfig string, out io.Writer) error {
	if o.output != "text" && o.output != "json" {
		return errors.New("--output must be text or json, not " + o.output)
	}
	klog.SetLogger(klog.Logger{}) // libraries log what the error says anyway
	a, err := (&whyOptions{kubeconfig: kubeconfig, sendToken: o.sendToken, timeout: 30 * time.Second}).asker()
	if err != nil {
		return err
	}
	r, err := a.compared(ctx)
	if err != nil {
		return err
	}
	if o.output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(r)
	} else {
		err = writeReport(printable{out}, r)
	}
	if n := r.Unexplained(); err == nil && n > 0 {
		err = fmt.Errorf("%d planned writes were not done as planned, and no row of docs/parity.md explains that", n)
	}
	return err
}

// compared asks the observer in the cluster what it has compared.
func (a *whyAsker) compared(ctx context.Context) (r agreement.Report, err error) {
	pods := slices.DeleteFunc(a.managers(ctx), func(p corev1.Pod) bool { return p.Spec.ServiceAccountName != observer })
	if len(pods) == 0 {
		return r, errors.New("no observer runs in " + managersNamespace + ", or you may not list its pods")
	}
	credentials := throughTunnel(a.config, a.sendToken)
	if credentials == nil {
		return r, errors.New("you have no client certificate by which the observer knows you: see --send-token")
	}
	err = a.through(ctx, pods[0], credentials, a.timeout,
		func(ctx context.Context, asking *http.Client, at string) (err error) {
			r, err = askCompared(ctx, asking, at+agreementPath)
			return err
		})
	if err != nil {
		return r, fmt.Errorf("pod %s/%s: %w", pods[0].Namespace, pods[0].Name, err)
	}
	return r, nil
}

// askCompared reads the report of an observer.
func askCompared(ctx context.Context, asking *http.Client, at string) (r agreement.Report, err error) {
	answer, err := getThrough(ctx, asking, at)
	if err != nil {
		return r, fmt.Errorf("ask the observer: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return r, fmt.Errorf("the observer answers %s", answer.Status)
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, mostReport)).Decode(&r); err != nil {
		return r, fmt.Errorf("read the answer of the observer: %w", err)
	}
	return r, nil
}

// writeReport prints a report for people.
func writeReport(out io.Writer, r agreement.Report) error {
	fmt.Fprintf(out, "Compared since %s\n\n", r.Since.Format(time.RFC3339))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "CONTROLLER\tPLANNED")
	for _, v := range agreement.Verdicts() {
		fmt.Fprintf(table, "\t%s", v)
	}
	fmt.Fprintln(table, "\tpending")
	for _, one := range r.Controllers {
		fmt.Fprintf(table, "%s\t%d", one.Controller, one.Decisions+one.Pending)
		for _, v := range agreement.Verdicts() {
			fmt.Fprintf(table, "\t%d", one.Verdicts[v])
		}
		fmt.Fprintf(table, "\t%d\n", one.Pending)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if r.Dropped > 0 {
		fmt.Fprintf(out, "\n%d planned writes were not compared: too many were waited for\n", r.Dropped)
	}
	for i, d := range r.Disagreements {
		if i == 0 {
			fmt.Fprintln(out, "\nThe last disagreements:")
		}
		if i == mostListed {
			fmt.Fprintf(out, "  and %d more, see -o json\n", len(r.Disagreements)-i)
			break
		}
		fmt.Fprintf(out, "  %s  %s  %s: %s\n", d.Time.Format(time.RFC3339), d.Controller, d.Step, said(d))
	}
	return nil
}

// said is what is wrong with a planned write, in a few words.
func said(d agreement.Disagreement) string {
	text := d.Rule
	if d.Field != "" {
		text += fmt.Sprintf(", %s is %s and not %s", d.Field, d.Found, d.Planned)
	}
	return text + " (" + d.Row + ")"
}
