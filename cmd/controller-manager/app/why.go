package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/standalone-kcm/controller-manager/internal/why"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const whyHelp = `Say why an object is not as it was asked to be, and what ends the wait: the first line is the answer.
With a namespace and no object, it says so of all that is not as wanted there, the worst first.
With --deleting it says what is about to go, by which rule, and when. With --deleted it tells what became of an object
that may be gone, where managers or observers keep a history (--history-dir).

It asks the API server with your own rights, needs no controller manager of ours in the cluster, and writes nothing.`

const whyExample = `  controller-manager why deployment/web -n shop
  controller-manager why pvc/data -n shop -o json
  controller-manager why -n shop
  controller-manager why --deleting
  controller-manager why --deleted pod/web-7c9d-x2x4z -n shop`

// whySource says who has answered.
const whySource = "worked out from the API with your rights; " + noneAsked

// noneAsked is what whySource says while no manager has answered.
const noneAsked = "no controller was asked"

// whyAgainAfter is how often --watch looks.
const whyAgainAfter = 2 * time.Second

// whyOptions are the flags of the command why.
type whyOptions struct {
	kubeconfig, context, namespace, output string
	watch, deleting, mcp, sendToken        bool
	deleted                                bool
	timeout                                time.Duration
}

// newWhyCommand explains objects.
func newWhyCommand() *cobra.Command {
	var o whyOptions
	c := &cobra.Command{
		Use:     "why [KIND/NAME | KIND NAME]",
		Short:   "Say why an object is not as it was asked to be",
		Long:    whyHelp,
		Example: whyExample,
		Args:    cobra.MaximumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			klog.SetLogger(klog.Logger{}) // libraries log what the answer, or the error, says anyway
			return o.run(c.Context(), args, io.NopCloser(c.InOrStdin()), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	flags := c.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "File that says how to reach the API server, and as whom. "+
		"Without it, that of kubectl is used, or the configuration that a pod has.")
	flags.StringVar(&o.context, "context", "", "Context of the kubeconfig, instead of the current one.")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "Namespace, instead of that of the context.")
	flags.StringVarP(&o.output, "output", "o", "text", "Form of the answer: text, json or yaml.")
	flags.BoolVarP(&o.watch, "watch", "w", false, "Go on, and answer again when the answer changes.")
	flags.BoolVar(&o.deleting, "deleting", false,
		"Say what is being deleted and what is about to be, in the namespace or in all.")
	flags.BoolVar(&o.deleted, "deleted", false,
		"Tell who deleted the object, by which rule, and what was seen then, from what managers and "+
			"observers remember.")
	flags.BoolVar(&o.mcp, "mcp", false,
		"Answer an assistant that speaks the Model Context Protocol on standard input and output.")
	flags.BoolVar(&o.sendToken, "send-token", false,
		"Send your token to the manager that is asked what controllers have decided. It, and the node that it runs "+
			"on, can then act as you. Without this flag, it gets a client certificate or nothing.")
	flags.DurationVar(&o.timeout, "timeout", 30*time.Second, "How long one answer may take.")
	return c
}

// run answers once, or until ctx ends.
func (o *whyOptions) run(ctx context.Context, args []string, in io.ReadCloser, out, errs io.Writer) error {
	resource, name, err := parseObject(args)
	switch {
	case err != nil:
		return err
	case o.deleting && name != "":
		return errors.New("--deleting is about all objects: name none")
	case o.deleted && name == "":
		return errors.New("--deleted is about one object: name it, as in --deleted pod/web-1")
	case o.deleted && (o.mcp || o.watch):
		return errors.New("--deleted answers once: leave out --mcp and --watch")
	case o.mcp && (o.deleting || name != ""):
		return errors.New("--mcp takes its questions from standard input: ask nothing on the command line")
	}
	write, err := answerWriter(o.output)
	if err != nil {
		return err
	}
	a, err := o.asker()
	if err != nil {
		return err
	}
	if o.mcp {
		return a.serve(ctx, &mcp.IOTransport{Reader: in, Writer: nopCloser{out}})
	}
	ask := func(ctx context.Context) (summarized, error) {
		return a.about(ctx, resource, plan.Key{Namespace: a.namespace, Name: name})
	}
	switch {
	case o.deleted:
		ask = func(ctx context.Context) (summarized, error) {
			return a.deleted(ctx, resource, plan.Key{Namespace: a.namespace, Name: name})
		}
	case o.deleting:
		ask = func(ctx context.Context) (summarized, error) { return a.deletions(ctx, o.namespace) }
	case name == "":
		ask = func(ctx context.Context) (summarized, error) { return a.overview(ctx, a.namespace) }
	}
	// Only an answer that is written is worth asking a manager about.
	return o.repeat(ctx, ask, func(answer summarized) error { return write(out, a.decided(ctx, answer)) }, errs)
}

// nopCloser leaves the standard output open.
type nopCloser struct{ io.Writer }

// Close implements io.Closer.
func (nopCloser) Close() error { return nil }

// passing matches the times in an answer, which alone are no news.
var passing = regexp.MustCompile(`\b\d+(?:\.\d+)?(?:ms|s|m|h|d)\b`)

// repeat writes an answer, and with --watch each that says something else than the one before, until ctx ends. What
// goes
// wrong after the first answer is told, and tried again.
func (o *whyOptions) repeat(
	ctx context.Context, ask func(context.Context) (summarized, error), write func(summarized) error, errs io.Writer,
) error {
	for last := ""; ; {
		bounded, cancel := context.WithTimeout(ctx, o.timeout)
		answer, err := ask(bounded)
		cancel()
		line := ""
		switch {
		case err != nil && (!o.watch || last == ""):
			return err
		case err != nil:
			line = err.Error()
		default:
			line = passing.ReplaceAllString(answer.Line(), "")
		}
		switch {
		case line == last:
		case err != nil && ctx.Err() == nil:
			fmt.Fprintf(errs, "No answer for now: %v\n", err)
		case err == nil:
			if err := write(answer); err != nil {
				return fmt.Errorf("write the answer: %w", err)
			}
		}
		if last = line; !o.watch {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(whyAgainAfter):
		}
	}
}

// whyAsker answers questions with the rights of a kubeconfig.
type whyAsker struct {
	config    *rest.Config
	clients   *client.Clients
	namespace string // of objects whose namespace is not said
	timeout   time.Duration
	sendToken bool
}

func (o *whyOptions) asker() (*whyAsker, error) {
	config, namespace, err := o.client()
	if err != nil {
		return nil, err
	}
	mapper, err := client.NewMapper(config)
	if err != nil {
		return nil, err
	}
	clients, err := client.NewClients(config, mapper, client.Options{})
	if err != nil {
		return nil, err
	}
	return &whyAsker{config, clients, namespace, o.timeout, o.sendToken}, nil
}

// about answers for one object, whose kind people have given as a resource.
func (a *whyAsker) about(ctx context.Context, resource string, key plan.Key) (summarized, error) {
	mapper := a.clients.Mapper()
	kind, err := kindNamed(mapper, resource)
	if err != nil {
		return nil, err
	}
	m, err := mapper.Mapping(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", resource, err)
	}
	q := why.Question{Kind: kind, Name: key.Name}
	if m.Namespaced {
		q.Namespace = key.Namespace
	}
	answer, err := why.Ask(ctx, a.clients.Reader(), mapper, time.Now(), q)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", resource, key.Name, err)
	}
	answer.Source = whySource
	return answer, ctx.Err() // what was not read in time is not known to be missing
}

// overview answers for all that is not as wanted in a namespace.
func (a *whyAsker) overview(ctx context.Context, namespace string) (summarized, error) {
	all, err := why.AskNamespace(ctx, a.clients.Reader(), a.clients.Mapper(), time.Now(), namespace)
	all.Source = whySource
	return all, cmp.Or(ctx.Err(), err)
}

// deletions answers for what goes in a namespace, or in all.
func (a *whyAsker) deletions(ctx context.Context, namespace string) (summarized, error) {
	all, err := why.AskDeletions(ctx, a.clients.Reader(), a.clients.Mapper(), time.Now(), namespace)
	all.Source = whySource
	return all, cmp.Or(ctx.Err(), err)
}

// client returns how to reach the API server, and the namespace that is meant.
func (o *whyOptions) client() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: o.context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("reach the API server: %w", err)
	}
	config.QPS, config.UserAgent = -1, "controller-manager why"
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("namespace of the context: %w", err)
	}
	return config, cmp.Or(o.namespace, namespace), nil
}

// parseObject returns the two parts of "KIND/NAME" or "KIND NAME"; both are empty if nothing is given.
func parseObject(args []string) (resource, name string, err error) {
	switch len(args) {
	case 0:
		return "", "", nil
	case 1:
		resource, name, _ = strings.Cut(args[0], "/")
	default:
		resource, name = args[0], args[1]
	}
	if resource == "" || name == "" || strings.Contains(name, "/") {
		return "", "", fmt.Errorf("%q is no KIND/NAME, such as deployment/web", strings.Join(args, " "))
	}
	return resource, name, nil
}

// kindNamed returns the kind that people mean: a resource, a singular, a short name or a kind, with or without group.
func kindNamed(mapper *client.Mapper, text string) (schema.GroupVersionKind, error) {
	names := restmapper.NewShortcutExpander(mapper, mapper.Discovery(), nil)
	versioned, plain := schema.ParseResourceArg(strings.ToLower(text))
	if versioned != nil {
		if kind, err := names.KindFor(*versioned); err == nil {
			return kind, nil
		}
	}
	kind, err := names.KindFor(plain.WithVersion(""))
	switch {
	case meta.IsNoMatchError(err):
		return kind, fmt.Errorf("the API server has no resource %q: %w", text, err)
	case err != nil:
		return kind, fmt.Errorf("find the resource %q: %w", text, err)
	}
	return kind, nil
}

// summarized is an answer: of one object, or of many.
type summarized interface {
	Line() string // the answer in one line
	WriteText(w io.Writer)
}

// answerWriter returns how answers are written in a form.
func answerWriter(form string) (func(io.Writer, summarized) error, error) {
	switch form {
	case "text":
		return func(w io.Writer, a summarized) error {
			a.WriteText(printable{w})
			return nil
		}, nil
	case "json":
		return func(w io.Writer, a summarized) error {
			encoder := json.NewEncoder(w)
			encoder.SetIndent("", "  ")
			return encoder.Encode(a)
		}, nil
	case "yaml":
		return func(w io.Writer, a summarized) error {
			text, err := yaml.Marshal(a)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(w, "---\n%s", text)
			return err
		}, nil
	}
	return nil, errors.New("--output must be text, json or yaml, not " + form)
}
