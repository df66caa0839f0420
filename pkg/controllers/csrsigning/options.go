package csrsigning

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/credentials/csrutil"
)

// Options are what can be set of the controller.
type Options struct {
	All            Pair // for the signers without files of their own (CSR-8)
	KubeletServing Pair // CSR-9, like those that follow
	KubeletClient  Pair
	Client         Pair
	LegacyUnknown  Pair
	Duration       time.Duration
}

// Pair are the files of a certificate authority.
type Pair struct{ CertFile, KeyFile string }

func (p Pair) empty() bool { return p == Pair{} }

// half reports whether one of the files is given and the other one is not.
func (p Pair) half() bool { return (p.CertFile == "") != (p.KeyFile == "") }

// signer is one with its files, and how their flags begin.
type signer struct {
	name, prefix string
	files        *Pair
}

func (o *Options) signers() []signer {
	return []signer{
		{certificatesv1.KubeletServingSignerName, "cluster-signing-kubelet-serving", &o.KubeletServing},
		{certificatesv1.KubeAPIServerClientKubeletSignerName, "cluster-signing-kubelet-client", &o.KubeletClient},
		{certificatesv1.KubeAPIServerClientSignerName, "cluster-signing-kube-apiserver-client", &o.Client},
		{csrutil.LegacyUnknown, "cluster-signing-legacy-unknown", &o.LegacyUnknown},
	}
}

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.All.CertFile, "cluster-signing-cert-file", o.All.CertFile,
		"File with the certificate, in PEM, of the authority that signs for all signers of Kubernetes. Certificates "+
			"of a chain may follow. "+
			"The file is read again when it changes. Without such files no certificates are signed.")
	fs.StringVar(&o.All.KeyFile, "cluster-signing-key-file", o.All.KeyFile,
		"File with the private key, in PEM, that belongs to --cluster-signing-cert-file.")
	for _, s := range o.signers() {
		fs.StringVar(&s.files.CertFile, s.prefix+"-cert-file", s.files.CertFile,
			"File with the certificate of the authority of the signer "+s.name+
				" alone. The signers without files of their own are then off.")
		fs.StringVar(&s.files.KeyFile, s.prefix+"-key-file", s.files.KeyFile,
			"File with the private key that belongs to --"+s.prefix+"-cert-file.")
	}
	fs.DurationVar(&o.Duration, "cluster-signing-duration", o.Duration,
		"How long the certificates that are signed are valid. Requests may ask for less.")
}

// Validate implements manager.Flags (CSR-11).
func (o *Options) Validate() (errs []error) {
	for _, s := range o.signers() {
		switch {
		case !s.files.half():
		case s.files.KeyFile == "":
			errs = append(errs, fmt.Errorf("%q: cannot specify cert without key", s.prefix))
		default:
			errs = append(errs, fmt.Errorf("%q: cannot specify key without cert", s.prefix))
		}
	}
	if o.All.half() && !o.specific() {
		errs = append(errs,
			errors.New("--cluster-signing-cert-file and --cluster-signing-key-file must be given together"))
	}
	if o.specific() && !o.All.empty() {
		errs = append(errs,
			errors.New("cannot specify --cluster-signing-{cert,key}-file and other --cluster-signing-*-file flags at "+
				"the same time"))
	}
	if o.Duration <= 0 {
		errs = append(errs, fmt.Errorf("--cluster-signing-duration must be positive, but is %v", o.Duration))
	}
	return errs
}

// specific reports whether a signer has files of its own.
func (o *Options) specific() bool {
	for _, s := range o.signers() {
		if !s.files.empty() {
			return true
		}
	}
	return false
}

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) {
	return "CSRSigningController", struct {
		ClusterSigningCertFile                 string
		ClusterSigningKeyFile                  string
		KubeletServingSignerConfiguration      Pair
		KubeletClientSignerConfiguration       Pair
		KubeAPIServerClientSignerConfiguration Pair
		LegacyUnknownSignerConfiguration       Pair
		ClusterSigningDuration                 metav1.Duration
	}{o.All.CertFile, o.All.KeyFile, o.KubeletServing, o.KubeletClient, o.Client, o.LegacyUnknown,
		metav1.Duration{Duration: o.Duration}}
}

// pairs returns the files by the names of the signers that are on, and why the others are off (CSR-9, CSR-12, CSR-55).
func (o *Options) pairs() (on map[string]Pair, off map[string]string) {
	on, off = map[string]Pair{}, map[string]string{}
	for _, s := range o.signers() {
		switch {
		case !s.files.empty():
			on[s.name] = *s.files
		case o.specific():
			off[s.name] = "specific files were specified for other signers and not this one"
		case o.All.empty():
			off[s.name] = "no csr cert/key was specified"
		default:
			on[s.name] = o.All
		}
	}
	return on, off
}
