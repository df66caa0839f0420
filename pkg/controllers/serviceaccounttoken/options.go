package serviceaccounttoken

import (
	"github.com/spf13/pflag"

	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

// Options are what can be set of the controller.
type Options struct {
	Workers int32
	KeyFile string
}

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.Workers, "concurrent-serviceaccount-token-syncs", o.Workers,
		"Secrets with tokens of service accounts that are reconciled at the same time.")
	fs.StringVar(&o.KeyFile, "service-account-private-key-file", o.KeyFile,
		"File with the private key, RSA or ECDSA, in PEM, that signs the tokens of service accounts in Secrets. The "+
			"API server must have "+
			"its public key (--service-account-key-file). The file is read again when it changes. Without it this "+
			"controller is off, "+
			"whatever --controllers says.")
}

// Validate implements manager.Flags.
func (o *Options) Validate() []error {
	return flagutil.Workers("concurrent-serviceaccount-token-syncs", o.Workers)
}

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) {
	return "SAController", struct {
		ServiceAccountKeyFile  string
		ConcurrentSATokenSyncs int32
	}{o.KeyFile, o.Workers}
}
