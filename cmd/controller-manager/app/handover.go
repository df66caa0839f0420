package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options"
)

const handoverHelp = `Print what it takes to hand controllers over from kube-controller-manager to this manager.

Beside the original, that is two values of --controllers: that of kube-controller-manager, and that of this manager.
Give the value that kube-controller-manager has today, or its manifest.

In its place, with --image, that is the manifest of the static pod with this manager in it: the image is another one,
the container runs as root without capabilities, because only root can read the keys, and the arguments stay, because
this manager takes them all. The lease stays the same, so only one of the two works at a time, whatever the order in
which nodes get the manifest.`

const handoverExamples = `  controller-manager handover --controllers='*,bootstrapsigner,tokencleaner'
  controller-manager handover --from-manifest=/etc/kubernetes/manifests/kube-controller-manager.yaml
  controller-manager handover --from-manifest=kube-controller-manager.yaml --image=example.com/controller-manager:v1.37.2-standalone.1 > new.yaml`

// handover is what a hand-over beside the original takes.
type handover struct {
	Original string `json:"kubeControllerManager"` // the value of --controllers of kube-controller-manager
	Beside   string `json:"thisManager"`           // that of this manager
}

// newHandoverCommand makes both lists from one, so that no controller is on in both, and none in neither.
func newHandoverCommand(o *options.Options) *cobra.Command {
	var manifest, image, output string
	c := &cobra.Command{
		Use:     "handover",
		Short:   "Print what it takes to hand controllers over",
		Long:    handoverHelp,
		Example: handoverExamples,
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("--output must be text or json, not %s", output)
			}
			if image != "" {
				return replaceInManifest(c.OutOrStdout(), manifest, image)
			}
			if manifest != "" {
				items, err := controllersOf(manifest)
				if err != nil {
					return err
				}
				o.Controllers.Items = items
			}
			return writeHandover(c.OutOrStdout(), o, output)
		},
	}
	flags := c.Flags()
	flags.StringSliceVar(&o.Controllers.Items, "controllers", o.Controllers.Items,
		"What kube-controller-manager has today.")
	flags.StringVar(&manifest, "from-manifest", "",
		"File with the manifest of the static pod of kube-controller-manager, for what it has today.")
	flags.StringVar(&image, "image", "", "Replace all of kube-controller-manager: print the manifest with this image.")
	flags.StringVarP(&output, "output", "o", "text", "Form of the two values: text or json.")
	c.MarkFlagsMutuallyExclusive("controllers", "from-manifest")
	c.MarkFlagsMutuallyExclusive("output", "image")
	return c
}

// writeHandover writes the two values. It is an error if nothing would move, as a manager without controllers would
// only hold a lease.
func writeHandover(w io.Writer, o *options.Options, output string) error {
	original, beside, err := o.Controllers.Handover()
	if err != nil {
		return fmt.Errorf("--controllers: %w", err)
	}
	if beside == "" {
		return fmt.Errorf("nothing would move: kube-controller-manager runs none of the controllers that may, "+
			"with --controllers=%s", strings.Join(o.Controllers.Items, ","))
	}
	if output == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(handover{original, beside})
	}
	_, err = fmt.Fprintf(w, "kube-controller-manager: --controllers=%s\nthis manager: --controllers=%s\n", original,
		beside)
	return err
}

// replaceInManifest writes the manifest of a static pod with another image, and otherwise as it is.
func replaceInManifest(w io.Writer, manifest, image string) error {
	if manifest == "" {
		return errors.New("--image needs --from-manifest, the manifest in which it is to be")
	}
	pod, container, err := originalIn(manifest)
	if err != nil {
		return err
	}
	asRoot, err := mustSayRoot(manifest, pod, container)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(manifest)
	if err != nil {
		return fmt.Errorf("--from-manifest: %w", err)
	}
	line := regexp.MustCompile(`(?m)^([ \t]*)(- )?image:[ \t]*["']?` + regexp.QuoteMeta(container.Image) +
		`["']?([ \t]*(?:#.*)?)$`)
	if n := len(line.FindAll(text, -1)); container.Image == "" || n != 1 {
		return fmt.Errorf("--from-manifest: %s has %d lines with the image %q, of which one is to be replaced",
			manifest, n, container.Image)
	}
	_, err = w.Write(line.ReplaceAllFunc(text, func(found []byte) []byte {
		part := line.FindSubmatch(found)
		indent := string(part[1]) + strings.Repeat(" ", len(part[2]))
		text := fmt.Sprintf("%s%simage: %s%s", part[1], part[2], image, part[3])
		if asRoot {
			text += "\n" + indent + "securityContext: {runAsUser: 0, runAsGroup: 0, allowPrivilegeEscalation: false, " +
				"capabilities: {drop: [ALL]}}"
		}
		return []byte(text)
	}))
	return err
}

// mustSayRoot reports whether the manifest has to say that the container runs as root: that is the user of the
// original's image, and not of ours.
func mustSayRoot(manifest string, pod *corev1.Pod, container *corev1.Container) (bool, error) {
	if of := pod.Spec.SecurityContext; of != nil && of.RunAsUser != nil {
		return false, nil
	}
	if of := container.SecurityContext; of != nil && of.RunAsUser == nil {
		return false, fmt.Errorf("--from-manifest: the securityContext of the container in %s has no runAsUser: "+
			"add one that can read the keys, such as 0", manifest)
	}
	return container.SecurityContext == nil, nil
}

// controllersOf returns the items of --controllers that a manifest has.
func controllersOf(manifest string) ([]string, error) {
	_, container, err := originalIn(manifest)
	if err != nil {
		return nil, err
	}
	words := slices.Concat(container.Command, container.Args)
	if len(container.Command) > 0 && path.Base(container.Command[0]) != original {
		return nil, fmt.Errorf("--from-manifest: %s runs %s by %q, so give --controllers", manifest, original,
			container.Command[0])
	}
	var items []string
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.StringSliceVar(&items, "controllers", []string{"*"}, "")
	if len(container.Command) > 0 {
		words = words[1:]
	}
	if err := flags.Parse(words); err != nil {
		return nil, fmt.Errorf("--from-manifest: arguments of %s: %w", manifest, err)
	}
	return items, nil
}

// originalIn reads the manifest of a static pod, and returns it and the container that runs kube-controller-manager.
func originalIn(manifest string) (*corev1.Pod, *corev1.Container, error) {
	text, err := os.ReadFile(manifest)
	if err != nil {
		return nil, nil, fmt.Errorf("--from-manifest: %w", err)
	}
	pod := &corev1.Pod{}
	if err := yaml.Unmarshal(text, pod); err != nil {
		return nil, nil, fmt.Errorf("--from-manifest: %s: %w", manifest, err)
	}
	for i, c := range pod.Spec.Containers {
		if pod.Kind == "Pod" && (c.Name == original || len(c.Command) > 0 && path.Base(c.Command[0]) == original) {
			return pod, &pod.Spec.Containers[i], nil
		}
	}
	return nil, nil, fmt.Errorf("--from-manifest: %s is no manifest of a pod that runs %s", manifest, original)
}

// original is the program, and the container in manifests of kubeadm.
const original = "kube-controller-manager"
