package app

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options"
)

const handoverHelp = `Print the two values of --controllers with which this manager runs beside a kube-controller-manager:
that of kube-controller-manager, and that of this manager. Give the value that kube-controller-manager has today.`

// newHandoverCommand makes both lists from one, so that no controller is on in both, and none in neither.
func newHandoverCommand(o *options.Options) *cobra.Command {
	c := &cobra.Command{
		Use:     "handover",
		Short:   "Print the values of --controllers for two managers",
		Long:    handoverHelp,
		Example: "  controller-manager handover --controllers='*,bootstrapsigner,tokencleaner'",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			original, beside, err := o.Controllers.Handover()
			if err != nil {
				return fmt.Errorf("--controllers: %w", err)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(),
				"kube-controller-manager: --controllers=%s\nthis manager: --controllers=%s\n", original, beside)
			return err
		},
	}
	c.Flags().StringSliceVar(&o.Controllers.Items, "controllers", o.Controllers.Items,
		"What kube-controller-manager has today.")
	return c
}
