package clustertrustbundlepublisher

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// REG-5: the names by which flags, logs, roles and clients know the controller, and what it needs.
func TestREG5Names(t *testing.T) { // CTB-1
	c := New(Options{})
	if c.Name != "kube-apiserver-serving-clustertrustbundle-publisher-controller" || c.Alias != "" || c.OffByDefault || c.Flags != nil ||
		c.Account != "kube-apiserver-serving-clustertrustbundle-publisher" ||
		fmt.Sprint(c.Gates, c.Needs) != "[ClusterTrustBundle] [certificates.k8s.io/v1, Resource=clustertrustbundles]" {
		t.Errorf("%+v", c)
	}
}

// run runs the controller on a server with these bundles and a file of authorities, while a test works.
func run(t *testing.T, bundles []*bundle, before func(clienttest.Write) error, test func(b *bench)) {
	b := &bench{file: filepath.Join(t.TempDir(), "ca.crt")}
	write(t, b.file, authority(t, 0))
	synctest.Test(t, func(t *testing.T) {
		b.T, b.Server = t, clienttest.NewServer()
		for _, one := range bundles {
			b.put(one)
		}
		b.BeforeWrite(before)
		entry := New(Options{})
		c := managertest.Context(t, b.Server, entry, managertest.Cache{Example: &bundle{},
			Selector: fields.OneTermEqualSelector("spec.signerName", signer)})
		c.RootCAFile = b.file
		managertest.Run(t, c, entry, func() { test(b) })
	})
}

type bench struct {
	*testing.T
	*clienttest.Server
	file string
}

func (b *bench) put(o *bundle) {
	b.Helper()
	if _, err := b.Put(o); err != nil {
		b.Fatal(err)
	}
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// authority is one of a few certificates.
func authority(t *testing.T, i int) string {
	t.Helper()
	all, err := os.ReadFile("../../../internal/credentials/testdata/authorities.pem")
	if err != nil {
		t.Fatal(err)
	}
	const begin = "-----BEGIN CERTIFICATE-----"
	return begin + strings.Split(string(all), begin)[1+i]
}

// publishes compares the bundles after a moment with the only one that there should be.
func (b *bench) publishes(content string) {
	b.Helper()
	time.Sleep(6 * time.Second)
	synctest.Wait()
	found := &bundle{}
	mapping, name := client.MappingFor[*bundle](), nameOf(content)
	if err := b.Get(b.Context(), mapping, plan.Key{Name: name}, found); err != nil {
		b.Fatal(err)
	}
	if names := b.Names(mapping.GroupVersionKind); found.Spec.TrustBundle != content || found.Spec.SignerName != signer || len(names) != 1 {
		b.Errorf("%v: %+v", names, found.Spec)
	}
}

func TestEditsAndDeletionsAreUndone(t *testing.T) { // CTB-3, CTB-4
	run(t, []*bundle{other()}, nil, func(b *bench) {
		ca := authority(b.T, 0)
		b.publishes(ca)
		mapping := client.MappingFor[*bundle]()
		if err := b.Delete(b.Context(), mapping, plan.Key{Name: nameOf(ca)}, metav1.DeleteOptions{}); err != nil {
			b.Error(err)
		}
		b.publishes(ca)
		if _, err := b.Update(b.Context(), mapping, newBundle(nameOf(ca), "mine", func(o *bundle) { o.UID, o.ResourceVersion = "", "" }),
			client.WriteOptions{}); err != nil {
			b.Error(err)
		}
		b.publishes(ca)
		b.put(other())
		b.publishes(ca)
		creates, updates, deletes := b.CountWrites("create"), b.CountWrites("update"), b.CountWrites("delete")
		if creates != 2 || updates != 1+1 || deletes != 2+1 { // of which one is the test's
			b.Error(b.Log())
		}
	})
}

// The file is read again when it changes, and what is not a certificate is not published. Another CA is another object.
func TestCTB20AuthoritiesThatChange(t *testing.T) {
	run(t, nil, nil, func(b *bench) {
		b.publishes(authority(b.T, 0))
		for _, c := range []struct{ content, want string }{
			{authority(b.T, 1), authority(b.T, 1)}, {"no certificate", authority(b.T, 1)}, {authority(b.T, 0), authority(b.T, 0)},
		} {
			write(b.T, b.file, c.content)
			b.publishes(c.want)
		}
		if n := len(b.Writes()); n != 5 {
			b.Errorf("%d writes", n)
		}
	})
}

// While the API server refuses the new bundle, nobody is deprived of the old one, and the creation is tried again without an end.
func TestARefusedBundleLeavesTheOthers(t *testing.T) { // CTB-3, CTB-4, CTB-20
	refused := apierrors.NewInvalid(client.KindFor[*bundle]().GroupKind(), "x", nil)
	run(t, []*bundle{other()}, clienttest.RefuseFirst(20, refused), func(b *bench) {
		synctest.Wait()
		if names := b.Names(client.KindFor[*bundle]()); len(names) != 1 {
			b.Error(names)
		}
		time.Sleep(time.Hour)
		b.publishes(authority(b.T, 0))
	})
}

// What the original has published is taken over without a write.
func TestTakenOverWithoutAWrite(t *testing.T) {
	ca := authority(t, 0)
	run(t, []*bundle{newBundle(nameOf(ca), ca)}, nil, func(b *bench) {
		if b.publishes(ca); len(b.Writes()) > 0 {
			b.Error(b.Log())
		}
	})
}

// Files that are no good end the process; no authorities at all leave the controller off.
func TestInit(t *testing.T) {
	entry := New(Options{})
	for _, c := range []struct {
		name, file, want string
		skipped          bool
	}{
		{"TOK-3 a missing file", "/nope", "error parsing root-ca-file at /nope: open /nope: no such file or directory", false},
		{"no authorities", "", "neither --root-ca-file nor the kubeconfig has", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			from := managertest.Context(t, clienttest.NewServer(), entry)
			from.RootCAFile, from.Config = c.file, &rest.Config{}
			runner, err := entry.Init(from)
			if runner != nil || err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, &manager.Off{}) != c.skipped {
				t.Errorf("%v, %v", runner, err)
			}
		})
	}
}
