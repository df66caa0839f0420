package options

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
)

// Serving is how the manager's own HTTPS server listens and what it offers (CLI-30..34, CLI-40, CLI-41).
type Serving struct {
	Port                int
	BindAddress         net.IP
	PermitAddressShare  bool
	PermitPortShare     bool
	CertFile, KeyFile   string
	CertDir             string
	NamedCertKeys       []cliflag.NamedCertKey // certificates by the name that is asked for
	MinTLSVersion       string
	CipherSuites        []string
	CurvePreferences    []int32
	DisableHTTP2        bool
	HTTP2MaxStreams     int
	Profiling           bool
	ContentionProfiling bool
}

// newServing returns the defaults.
func newServing() Serving {
	return Serving{Port: 10257, BindAddress: net.IPv4zero, Profiling: true}
}

func (o *Serving) addFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.Port, "secure-port", o.Port, "Port for HTTPS; 0 serves nothing.")
	fs.IPVar(&o.BindAddress, "bind-address", o.BindAddress, "Address to listen on; 0.0.0.0 or :: for all.")
	fs.BoolVar(&o.PermitAddressShare, "permit-address-sharing", o.PermitAddressShare,
		"Listen with SO_REUSEADDR, so that the address may be in use or have been a moment ago.")
	fs.BoolVar(&o.PermitPortShare, "permit-port-sharing", o.PermitPortShare,
		"Listen with SO_REUSEPORT, so that several processes may use the port.")
	fs.StringVar(&o.CertFile, "tls-cert-file", o.CertFile,
		"Certificate for HTTPS. Without one, the server makes its own.")
	fs.StringVar(&o.KeyFile, "tls-private-key-file", o.KeyFile, "Private key of --tls-cert-file.")
	fs.StringVar(&o.CertDir, "cert-dir", o.CertDir,
		"Where the certificate that the server makes is kept; empty keeps it in memory.")
	fs.Var(cliflag.NewNamedCertKeyArray(&o.NamedCertKeys), "tls-sni-cert-key",
		"Certificate and key files and the names they are for, as 'cert,key' or 'cert,key:*.example.com,example.com'. "+
			"May be given several times.")
	fs.StringVar(&o.MinTLSVersion, "tls-min-version", o.MinTLSVersion, "Oldest TLS version accepted: 'VersionTLS12', "+
		"which is also the default, or 'VersionTLS13'.")
	fs.StringSliceVar(&o.CipherSuites, "tls-cipher-suites", o.CipherSuites,
		"Cipher suites accepted, by their names in Go; empty leaves it to Go.")
	fs.Int32SliceVar(&o.CurvePreferences, "tls-curve-preferences", o.CurvePreferences,
		"Key exchange mechanisms accepted, by their numbers in Go (tls.CurveID); empty leaves it to Go.")
	fs.BoolVar(&o.DisableHTTP2, "disable-http2-serving", o.DisableHTTP2, "Serve HTTP/1.1 only.")
	fs.IntVar(&o.HTTP2MaxStreams, "http2-max-streams-per-connection", o.HTTP2MaxStreams,
		"Streams that a client may have on one HTTP/2 connection; zero leaves it to Go.")
	fs.BoolVar(&o.Profiling, "profiling", o.Profiling, "Serve profiles under /debug/pprof/.")
	fs.BoolVar(&o.ContentionProfiling, "contention-profiling", o.ContentionProfiling,
		"Record blocking profiles too, if --profiling is on.")
}

// validate checks the port, and that no version of TLS is allowed which is not secure.
func (o *Serving) validate() (errs []error) {
	if o.Port < 0 || o.Port > 65535 {
		errs = append(errs, fmt.Errorf("--secure-port must be between 0 and 65535, not %d", o.Port))
	}
	switch version, err := cliflag.TLSVersion(o.MinTLSVersion); {
	case err != nil:
		errs = append(errs, fmt.Errorf("--tls-min-version: %w", err))
	case version < tls.VersionTLS12:
		errs = append(errs,
			fmt.Errorf("--tls-min-version must be VersionTLS12 or VersionTLS13, not %s, which is not secure",
				o.MinTLSVersion))
	}
	if _, err := cliflag.TLSCipherSuites(o.CipherSuites); err != nil {
		errs = append(errs, fmt.Errorf("--tls-cipher-suites: %w", err))
	}
	if _, err := cliflag.TLSCurvePreferences(o.CurvePreferences); err != nil {
		errs = append(errs, fmt.Errorf("--tls-curve-preferences: %w", err))
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		errs = append(errs, errors.New("--tls-cert-file and --tls-private-key-file must be given together"))
	}
	if o.HTTP2MaxStreams < 0 {
		errs = append(errs,
			fmt.Errorf("--http2-max-streams-per-connection must not be negative: %d", o.HTTP2MaxStreams))
	}
	return errs
}

func (o *Serving) apply(c *Config) { c.Serving = *o }
