package endpoints

import (
	"testing"

	netutils "k8s.io/utils/net"
)

func TestParse(t *testing.T) { // EP-14, EPS-28
	for text, want := range map[string]string{
		"10.0.0.1": "10.0.0.1 IPv4", "010.000.0.01": "10.0.0.1 IPv4", "::ffff:10.0.0.1": "10.0.0.1 IPv4",
		"fd00::1": "fd00::1 IPv6", "FD00:0::01": "fd00::1 IPv6", "fe80::1%eth0": " ", "": " ", "web": " ", "10.0.0.256": " ",
	} {
		canonical, family := Parse(text)
		if got := canonical + " " + string(family); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// FuzzParse: the short way for canonical addresses says the same as the long one.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"10.0.0.1", "010.0.0.1", "::ffff:1.2.3.4", "::1", "FD00::1", "fe80::1%lo", "1.2.3", "::"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		canonical, family := Parse(text)
		ip := netutils.ParseIPSloppy(text)
		if (ip == nil) != (canonical == "") || ip != nil && ip.String() != canonical || (canonical == "") != (family == "") {
			t.Fatalf("%q: %q %q, the long way %v", text, canonical, family, ip)
		}
		if again, same := Parse(canonical); canonical != "" && (again != canonical || same != family) {
			t.Fatalf("%q became %q", canonical, again)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if ip, _ := Parse("10.244.123.45"); ip == "" {
			b.Fatal("no address")
		}
	}
}
