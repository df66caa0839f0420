package nodeipam

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// bench is the controller before a server in virtual time.
type bench struct {
	*testing.T
	*clienttest.Server
	mapping client.Mapping
	uids    int
}

// run runs the controller on so many nodes, for each term as the leader anew.
func run(t *testing.T, o Options, nodes int, terms ...func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, Server: clienttest.NewServer(), mapping: client.MappingFor[*corev1.Node]()}
		b.add(0, nodes)
		for _, test := range terms {
			o.Allocate = true
			entry := New(o)
			runner, err := entry.Init(managertest.Context(t, b.Server, entry, managertest.Cache{Example: &corev1.Node{}}))
			if err != nil {
				t.Fatal(err)
			}
			clienttest.Run(t, runner.Run, func() { test(b) })
		}
	})
}

func name(i int) string { return fmt.Sprintf("node-%04d", i) }

func (b *bench) add(from, to int) {
	for i := from; i < to; i++ {
		b.uids++
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name(i), UID: types.UID(fmt.Sprint("uid-", b.uids)),
			CreationTimestamp: metav1.Now()}}
		if _, err := b.Put(n); err != nil {
			b.Fatal(err)
		}
	}
}

func (b *bench) remove(from, to int) {
	for i := from; i < to; i++ {
		if err := b.Delete(b.Context(), b.mapping, plan.Key{Name: name(i)}, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func (b *bench) nodes() []corev1.Node {
	list := &corev1.NodeList{}
	if err := b.List(b.Context(), b.mapping, "", metav1.ListOptions{}, list); err != nil {
		b.Fatal(err)
	}
	return list.Items
}

// unshared checks that no two nodes have addresses in common, and that so many nodes have ranges.
func (b *bench) unshared(want int) {
	b.Helper()
	has := map[netip.Prefix]string{}
	n := 0
	for _, node := range b.nodes() {
		if len(node.Spec.PodCIDRs) > 0 {
			n++
		}
		for _, text := range node.Spec.PodCIDRs {
			r := netip.MustParsePrefix(text)
			if other := has[r]; other != "" {
				b.Errorf("%s and %s have %v", other, node.Name, r)
			}
			has[r] = node.Name
		}
		if len(node.Spec.PodCIDRs) > 0 && node.Spec.PodCIDR != node.Spec.PodCIDRs[0] {
			b.Errorf("IPAM-38: %s has %s and %v", node.Name, node.Spec.PodCIDR, node.Spec.PodCIDRs)
		}
	}
	if n != want {
		b.Errorf("%d nodes have ranges, want %d", n, want)
	}
}

// IPAM-60: answers to patches of nodes are lost or come late, those to each first one, or all. Nodes are deleted and created again
// meanwhile, and others lead. There are as many ranges as nodes in the end, so that all of them are used again, and a range that was
// lost would be missed.
func TestLostAnswers(t *testing.T) {
	const nodes, spare = 1000, 24
	for name, every := range map[string]bool{"to each first patch": false, "to every patch": true} {
		t.Run(name, func(t *testing.T) {
			run(t, Options{ClusterCIDR: "10.0.0.0/14,fd00::/54"}, nodes, func(b *bench) {
				var mu sync.Mutex
				patches := map[string]int{}
				b.AfterWrite(func(w clienttest.Write) error {
					mu.Lock()
					defer mu.Unlock()
					if w.Verb != "patch" {
						return nil
					}
					if patches[w.Key.Name]++; patches[w.Key.Name] > 1 && !every {
						return nil
					}
					return context.DeadlineExceeded
				})
				time.Sleep(time.Second)
				b.remove(0, 50)
				b.add(0, 50)
				time.Sleep(time.Hour)
				b.unshared(nodes)
				for name, n := range patches { // two if it was created again
					if n > 2 {
						t.Errorf("%s was patched %d times", name, n)
					}
				}
			}, func(b *bench) {
				b.AfterWrite(nil)
				b.remove(0, 50)
				b.add(0, 50)
				b.add(nodes, nodes+spare)
				time.Sleep(time.Hour)
				b.unshared(nodes + spare)
			})
		})
	}
}

// A write that is refused is tried again, with the same ranges; the others go on.
func TestRefusedWrites(t *testing.T) {
	run(t, Options{ClusterCIDR: "10.0.0.0/16"}, 0, func(b *bench) {
		b.BeforeWrite(func(w clienttest.Write) error {
			if w.Key.Name == name(0) {
				return apierrors.NewForbidden(corev1.Resource("nodes"), w.Key.Name, errors.New("a webhook"))
			}
			return nil
		})
		b.add(0, 10)
		time.Sleep(time.Minute)
		b.unshared(9)
		b.BeforeWrite(nil)
		time.Sleep(time.Hour)
		b.unshared(10)
	})
}

// A node that the API server does not accept is tried more and more rarely, also while others come and get their ranges.
func TestNodesThatAreNotAccepted(t *testing.T) { // IPAM-62
	run(t, Options{ClusterCIDR: "10.0.0.0/16"}, 0, func(b *bench) {
		var tries atomic.Int64
		b.BeforeWrite(func(w clienttest.Write) error {
			if w.Key.Name != name(0) {
				return nil
			}
			tries.Add(1)
			return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), w.Key.Name, nil)
		})
		for i := range 100 {
			b.add(i, i+1)
			time.Sleep(100 * time.Millisecond)
		}
		b.unshared(99)
		if tries.Load() < 5 || tries.Load() > 10 {
			t.Errorf("it was tried %d times in ten seconds, while 99 others came", tries.Load())
		}
		b.BeforeWrite(nil)
		time.Sleep(longestPause)
		b.unshared(100)
	})
}

// IPAM-45, IPAM-76: a node that waits gets the range of another one as soon as that is gone.
func TestWaitingNodes(t *testing.T) {
	run(t, Options{ClusterCIDR: "10.0.0.0/23"}, 3, func(b *bench) {
		clienttest.Settle()
		b.unshared(2)
		b.remove(0, 1)
		clienttest.Settle()
		b.unshared(2)
		if n := b.CountWrites("patch Node"); n != 3 {
			t.Errorf("%d writes", n)
		}
	})
}

// What nodes report costs nothing.
func TestReportsAreIgnored(t *testing.T) {
	was, is := node("a", 0), node("a", 0)
	is.Status.Phase = corev1.NodeRunning
	if keys := enqueued(was, is); keys != nil {
		t.Errorf("a report enqueues %v", keys)
	}
	again := node("a", 0)
	again.UID = "another"
	for _, c := range [][2]plan.Object{{nil, was}, {was, nil}, {was, node("a", 0, "10.0.0.0/24")}, {was, leaving(node("a", 0))},
		{was, again}} {
		if keys := enqueued(c[0], c[1]); !slices.Equal(keys, []plan.Key{allocation}) {
			t.Errorf("%v enqueue %v", c, keys)
		}
	}
}

func TestIPAM2Off(t *testing.T) { // IPAM-1
	entry := New(Options{})
	_, err := entry.Init(manager.Context{})
	if want := "nodes get no ranges of addresses, see --allocate-node-cidrs"; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	// IPAM-2
	if entry.Name != "node-ipam-controller" || entry.Alias != "nodeipam" || entry.EventSource != "cidrAllocator" || entry.OffByDefault {
		t.Errorf("%+v", entry)
	}
}

// Nodes that the API server refuses, for whatever reason, keep no others waiting.
func TestRefusedNodesKeepNobodyWaiting(t *testing.T) {
	run(t, Options{ClusterCIDR: "10.0.0.0/8"}, 0, func(b *bench) {
		b.BeforeWrite(func(w clienttest.Write) error {
			if w.Kind == "Node" && w.Key.Name < name(250) {
				return apierrors.NewForbidden(corev1.Resource("nodes"), w.Key.Name, nil)
			}
			return nil
		})
		b.add(0, 250)
		time.Sleep(time.Minute)
		b.add(250, 260)
		time.Sleep(time.Minute)
		b.unshared(10)
	})
}
