package selection

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"pgregory.net/rapid"

	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// implemented are the controllers that the tests pretend to have.
func implemented() []manager.Controller {
	return slices.DeleteFunc(controllers.Registry(), func(c manager.Controller) bool {
		return c.Name != "deployment-controller" && c.Name != "replicaset-controller"
	})
}

// parse returns what the flag says.
func parse(arg string) (*Controllers, error) {
	o := New(implemented())
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(fs)
	return &o, fs.Parse([]string{arg})
}

func TestControllers(t *testing.T) {
	ours := []string{"deployment-controller", "endpoints-controller", "pod-garbage-collector-controller", "replicaset-controller"}
	for _, test := range []struct {
		name  string
		items string
		want  string // which of ours are on, by alias
	}{
		{"CLI-12 by default all are on", "*", "deployment endpoint podgc replicaset"},
		{"CLI-50 an alias", "deployment", "deployment"},
		{"CLI-50 a canonical name", "replicaset-controller", "replicaset"},
		{"CLI-50 off", "*,-endpoint,-podgc", "deployment replicaset"},
		{"CLI-50 the first item decides: off", "-podgc,podgc,endpoint", "endpoint"},
		{"CLI-50 the first item decides: on", "podgc,-podgc", "podgc"},
		{"CLI-50 the first item decides, under whatever name", "-podgc,pod-garbage-collector-controller", ""},
		{"CLI-50 an explicit item beats * before it", "*,-deployment", "endpoint podgc replicaset"},
		{"CLI-50 an explicit item beats * behind it", "-deployment,*", "endpoint podgc replicaset"},
		{"CLI-51 without * the others are off", "-deployment", ""},
		{"CLI-51 nothing is off", "", ""},
		{"CLI-82 upstream's half of a pair", "*,-endpoint,-replicaset,-deployment,-podgc", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, err := parse("--controllers=" + test.items)
			if err != nil {
				t.Fatal(err)
			}
			if errs := o.Validate(); len(errs) > 0 {
				t.Fatal(errs)
			}
			var want, got []string
			for _, k := range upstream {
				if slices.Contains(strings.Fields(test.want), k.alias) {
					want = append(want, k.name)
				}
			}
			for _, name := range o.Resolve(noKey).Enabled {
				if slices.Contains(ours, name) {
					got = append(got, name)
				}
			}
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(- want, + got):\n%s", diff)
			}
		})
	}
}

func TestSelection(t *testing.T) {
	o := New(append(implemented(), manager.Controller{Name: "brandnew-controller"}))
	all := o.Resolve(withKey)
	t.Run("CLI-53 three are off by default", func(t *testing.T) {
		off := []string{"bootstrap-signer-controller", "selinux-warning-controller", "token-cleaner-controller"}
		for _, name := range off {
			if slices.Contains(all.Enabled, name) {
				t.Errorf("%s is on", name)
			}
		}
		if got, want := len(all.Enabled), len(upstream)+1-len(off); got != want {
			t.Errorf("%d controllers are on, want %d", got, want)
		}
		o := o
		o.Items = []string{"*", "bootstrapsigner", "tokencleaner"}
		if got, want := len(o.Resolve(withKey).Enabled), len(all.Enabled)+2; got != want {
			t.Errorf("%d controllers are on with kubeadm's list, want %d", got, want)
		}
	})
	t.Run("CLI-55 those that this build does not have are named", func(t *testing.T) {
		if slices.Contains(all.Unavailable, "deployment-controller") || !slices.Contains(all.Unavailable, "job-controller") {
			t.Errorf("unavailable: %q", all.Unavailable)
		}
	})
	t.Run("CLD-1 CLI-55 names that run nothing are legal, on and off, and explained where they are named", func(t *testing.T) {
		o := o
		o.Items = []string{"*", "service", "-route", "evictionrequest-controller", "-imperative-eviction-responder-controller"}
		s := o.Resolve(noKey)
		want := map[string]string{"service-lb-controller": loadBalancers, "evictionrequest-controller": evictions}
		if diff := cmp.Diff(want, s.Elsewhere); diff != "" || len(o.Validate()) > 0 {
			t.Error(diff, o.Validate())
		}
		for name := range want {
			if slices.Contains(s.Unavailable, name) || slices.Contains(all.Unavailable, name) || len(all.Elsewhere) > 0 {
				t.Errorf("%s: %q", name, s.Unavailable)
			}
		}
	})
	t.Run("a controller that upstream does not have is known", func(t *testing.T) {
		if !slices.Contains(all.Enabled, "brandnew-controller") {
			t.Error("it is off")
		}
	})
	t.Run("CLI-52 aliases become canonical names", func(t *testing.T) {
		o := o
		o.Items = []string{"*", "-podgc", "endpoint", "job-controller"}
		want := []string{"*", "-pod-garbage-collector-controller", "endpoints-controller", "job-controller"}
		if diff := cmp.Diff(want, o.Resolve(noKey).Items); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("CLI-56 tokens go by the key alone", func(t *testing.T) {
		o := o
		o.Items = []string{"*"}
		if slices.Contains(o.Resolve(noKey).Enabled, "serviceaccount-token-controller") {
			t.Error("on without a key")
		}
		o.Items = []string{"-serviceaccount-token"}
		if !slices.Contains(o.Resolve(withKey).Enabled, "serviceaccount-token-controller") {
			t.Error("off with a key")
		}
	})
}

func TestUnknownControllers(t *testing.T) {
	for _, test := range []struct {
		name  string
		items []string
		want  []string
	}{
		{"CLI-54 unknown", []string{"foo"}, []string{`"foo" is not in the list of known controllers`}},
		{"CLI-54 without the minus", []string{"*", "-foo"}, []string{`"foo" is not in the list of known controllers`}},
		{"CLI-6 one each", []string{"foo", "podgc", "-bar"}, []string{
			`"foo" is not in the list of known controllers`, `"bar" is not in the list of known controllers`}},
		{"CLI-54 a star has no minus", []string{"-*"}, []string{`"*" is not in the list of known controllers`}},
		{"CLI-54 nothing is no name", []string{"podgc", ""}, []string{`"" is not in the list of known controllers`}},
		{"letters swapped", []string{"deploymnet"}, []string{
			`"deploymnet" is not in the list of known controllers, did you mean "deployment"?`}},
		{"plural", []string{"-endpoints"}, []string{
			`"endpoints" is not in the list of known controllers, did you mean "endpoint"?`}},
		{"capitals and underscores", []string{"Replicaset_Controller"}, []string{
			`"Replicaset_Controller" is not in the list of known controllers, did you mean "replicaset-controller"?`}},
		{"beginning of a name", []string{"replica"}, []string{
			`"replica" is not in the list of known controllers, did you mean "replicaset"?`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := New(implemented())
			o.Items = test.items
			var got []string
			for _, err := range o.Validate() {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(- want, + got):\n%s", diff)
			}
		})
	}
}

// TestKnownNames makes sure that the table is a function: no name or alias stands for two controllers (CLI-55).
func TestKnownNames(t *testing.T) {
	seen := map[string]bool{"": true, "*": true}
	o := New(nil)
	for _, name := range o.Names() {
		if seen[name] || strings.HasPrefix(name, "-") || name != strings.ToLower(name) {
			t.Errorf("%q", name)
		}
		seen[name] = true
	}
	if len(upstream) != 54 {
		t.Errorf("%d controllers, kube-controller-manager 1.34 to 1.38 have 54", len(upstream))
	}
}

// items draws a list that --controllers may have.
func items(t *rapid.T, label string) []string {
	o := New(nil)
	few := o.Names()[10:30] // few, so that items contradict each other often
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
		item := rapid.SampledFrom(few).Draw(t, "name")
		switch rapid.IntRange(0, 4).Draw(t, "form") {
		case 0:
			return "*"
		case 1, 2:
			return "-" + item
		}
		return item
	}), 0, 12).Draw(t, label)
}

func enabled(list []string) []string {
	o := New(nil)
	o.Items = list
	return o.Resolve(noKey).Enabled
}

func TestFirstNamingItemDecides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list, more := items(t, "list"), items(t, "more")
		before, after := enabled(list), enabled(slices.Concat(list, more))
		for _, item := range canonical(list, upstream) {
			name := strings.TrimPrefix(item, "-")
			if slices.Contains(before, name) != slices.Contains(after, name) {
				t.Errorf("%s was decided by %q, and %q changed it", name, list, more)
			}
		}
	})
}

func TestExplicitItemBeatsStar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := items(t, "list")
		named := slices.DeleteFunc(slices.Clone(list), func(item string) bool { return item == "*" })
		at := rapid.IntRange(0, len(named)).Draw(t, "at")
		starred := enabled(slices.Insert(slices.Clone(named), at, "*"))
		if slices.Contains(list, "*") && !slices.Equal(enabled(list), starred) {
			t.Errorf("it matters where * stands in %q", list)
		}
		plain := enabled(named)
		for _, item := range canonical(named, upstream) {
			name := strings.TrimPrefix(item, "-")
			if slices.Contains(plain, name) != slices.Contains(starred, name) {
				t.Errorf("* changed %s, which %q names", name, named)
			}
		}
		for _, name := range plain {
			if !slices.Contains(canonical(named, upstream), name) {
				t.Errorf("%s is on, though %q does not name it (CLI-51)", name, named)
			}
		}
	})
}

func FuzzControllers(f *testing.F) {
	for _, seed := range []string{"*", "*,-podgc", "deploymnet", "", `"a,b`, "-", "--x", ",,", "-*", "\x00", "é"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		o, err := parse("--controllers=" + list)
		if err != nil {
			return
		}
		errs := o.Validate()
		s := o.Resolve(noKey)
		if len(s.Items) != len(o.Items) || len(errs) > len(s.Items) {
			t.Errorf("%q: %q, %v", list, s.Items, errs)
		}
		for _, err := range errs {
			if !strings.Contains(err.Error(), " is not in the list of known controllers") {
				t.Error(err)
			}
		}
	})
}

// named are controllers of these names.
func named(names ...string) (all []manager.Controller) {
	for _, name := range names {
		all = append(all, manager.Controller{Name: name})
	}
	return all
}

// TestLacking follows the registry: what is missing is named until the controller is there.
func TestLacking(t *testing.T) {
	all := func(without ...string) (names []string) {
		for _, k := range upstream {
			if !slices.Contains(without, k.name) {
				names = append(names, k.name)
			}
		}
		return names
	}
	for _, test := range []struct {
		name        string
		implemented []string
		items       []string
		key         bool // to sign tokens with
		want        []string
	}{
		{name: "all there", implemented: all(), items: []string{"*", "bootstrapsigner"}, key: true},
		{name: "one missing", implemented: all("daemonset-controller"), items: []string{"*"}, want: []string{"DaemonSets"}},
		{name: "missing, and by name", implemented: all("job-controller"), items: []string{"job"}, want: []string{"Jobs"}},
		{name: "missing, and not wanted", implemented: all("job-controller"), items: []string{"*", "-job"}},
		{name: "missing, and left out", implemented: all("job-controller"), items: []string{"deployment"}},
		{name: "off by default", implemented: all("bootstrap-signer-controller"), items: []string{"*"}},
		{name: "as kubeadm has it", implemented: all("bootstrap-signer-controller"),
			items: []string{"*", "bootstrapsigner", "tokencleaner"},
			want:  []string{"joining nodes with bootstrap tokens"}},
		{name: "CLI-56 tokens without a key", implemented: all("serviceaccount-token-controller"), items: []string{"*"}},
		{name: "CLI-56 tokens with a key", implemented: all("serviceaccount-token-controller"), items: []string{"*"}, key: true,
			want: []string{"service account tokens in Secrets"}},
		{name: "a cluster can do without", implemented: all("ttl-after-finished-controller", "selinux-warning-controller"),
			items: []string{"*"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := New(named(test.implemented...))
			o.Items = test.items
			if got := o.Resolve(func(string) bool { return test.key }).Lacking; !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// What [Controllers.Resolve] asks: there is no key to sign tokens with, or there is one.
func noKey(string) bool        { return false }
func withKey(flag string) bool { return flag == "service-account-private-key-file" }
