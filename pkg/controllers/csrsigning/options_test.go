package csrsigning

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/standalone-kcm/controller-manager/internal/credentials/csrutil"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
)

const both = "cannot specify --cluster-signing-{cert,key}-file and other --cluster-signing-*-file flags at the same time"

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags map[string]string
		on    map[string]Pair
		off   string // why the others are off
		err   string
	}{
		{"CSR-12 no files", nil, nil, "no csr cert/key was specified", ""},
		{"CSR-8 one pair for all", map[string]string{"cert-file": "C", "key-file": "K"},
			map[string]Pair{serving: {"C", "K"}, kubelet: {"C", "K"}, apiClient: {"C", "K"}, csrutil.LegacyUnknown: {"C", "K"}}, "", ""},
		{"CSR-55 half a pair for all", map[string]string{"cert-file": "C"}, nil, "",
			"--cluster-signing-cert-file and --cluster-signing-key-file must be given together"},
		{"CSR-9 pairs for some", map[string]string{"kubelet-serving-cert-file": "C", "kubelet-serving-key-file": "K",
			"kube-apiserver-client-cert-file": "D", "kube-apiserver-client-key-file": "L"},
			map[string]Pair{serving: {"C", "K"}, apiClient: {"D", "L"}}, "specific files were specified for other signers and not this one",
			""},
		{"CSR-9 pairs for the others", map[string]string{"kubelet-client-cert-file": "C", "kubelet-client-key-file": "K",
			"legacy-unknown-cert-file": "D", "legacy-unknown-key-file": "L"},
			map[string]Pair{kubelet: {"C", "K"}, csrutil.LegacyUnknown: {"D", "L"}},
			"specific files were specified for other signers and not this one", ""},
		{"CSR-11 a certificate without a key", map[string]string{"kubelet-client-cert-file": "C"}, nil, "",
			`"cluster-signing-kubelet-client": cannot specify cert without key`},
		{"CSR-11 a key without a certificate", map[string]string{"legacy-unknown-key-file": "K"}, nil, "",
			`"cluster-signing-legacy-unknown": cannot specify key without cert`},
		{"CSR-11 both ways", map[string]string{"key-file": "K", "kube-apiserver-client-cert-file": "C"}, nil, "",
			`"cluster-signing-kube-apiserver-client": cannot specify cert without key` + "\n" + both},
		{"certificates that are never valid", map[string]string{"duration": "0s"}, nil, "",
			"--cluster-signing-duration must be positive, but is 0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &Options{Duration: time.Hour}
			flags := map[string]string{}
			for name, value := range c.flags {
				flags["cluster-signing-"+name] = value
			}
			if err := managertest.SetFlags([]manager.Controller{{Flags: o}}, flags); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(o.Validate()...); c.err != "" || err != nil {
				if err == nil || err.Error() != c.err {
					t.Errorf("%v, want %s", err, c.err)
				}
				return
			}
			on, off := o.pairs()
			if c.on == nil {
				c.on = map[string]Pair{}
			}
			if diff := cmp.Diff(c.on, on); diff != "" || len(on)+len(off) != 4 {
				t.Errorf("%v %s", off, diff)
			}
			for _, why := range slices.Collect(maps.Values(off)) {
				if why != c.off {
					t.Errorf("off because %s, want %s", why, c.off)
				}
			}
		})
	}
}

func TestDefaults(t *testing.T) { // CSR-1, CSR-10, CSR-12
	entry := New(Options{})
	o := entry.Flags.(*Options)
	if o.Duration.Hours() != 8760 || entry.Alias != "csrsigning" || entry.OffByDefault || entry.Account != "certificate-controller" {
		t.Errorf("%+v", entry)
	}
	runner, err := entry.Init(manager.Context{})
	if off := (manager.Off{}); runner != nil || !errors.As(err, &off) || !strings.Contains(off.Why, "--cluster-signing-cert-file") {
		t.Error("it is on without files, or fails", err)
	}
	if section, fields := o.Configz(); section != "CSRSigningController" || fields == nil {
		t.Error(section)
	}
}
