package garbagecollector

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Many owners of a kind are read one after the other, without a pause. When nobody answers for a kind, owners of others are read all
// the same.
func TestReadsWaitForThoseOfTheirKind(t *testing.T) {
	run(t, func(b *bench) {
		b.server.hanging = "Secret"
		for i := range 1000 {
			b.see(b.putOwned(fmt.Sprint("hanging-", i), secretKind, fmt.Sprint("secret-", i)),
				b.put(fmt.Sprint("dependent-", i), fmt.Sprint("absent-", i)))
		}
		time.Sleep(time.Second)
		if n, reads := b.deletions(), len(b.server.live()); n != 1000 || reads != 1002 {
			b.Errorf("%d deletions, %d reads", n, reads)
		}
		b.runner.mu.Lock()
		defer b.runner.mu.Unlock()
		if n := len(b.runner.term.reads[secretKind.GroupVersionKind].turns); n != 998 {
			b.Errorf("%d owners wait", n)
		}
	})
}

// An owner that waits for the reads of others is read no longer when nobody states it, and the next one is.
func TestOwnersThatNobodyStatesAreNotRead(t *testing.T) {
	run(t, func(b *bench) {
		b.server.hanging = "Secret"
		var all []*metav1.PartialObjectMetadata
		for i := range 100 {
			all = append(all, b.putOwned(fmt.Sprint("dependent-", i), secretKind, fmt.Sprint("secret-", i)))
		}
		b.see(all...)
		time.Sleep(time.Second)
		for _, o := range all[2:90] {
			b.OnDelete(configMaps, o)
		}
		time.Sleep(10 * time.Minute)
		read := sets.New(b.server.live()...)
		for i := 90; i < 100; i++ {
			if name := fmt.Sprint("Secret secret-", i); !read.Has(name) {
				b.Errorf("%s has not been read", name)
			}
		}
		if n := len(read); n > 14 {
			b.Errorf("owners that nobody states are read: %v", sets.List(read))
		}
	})
}

// Owners of a namespace with many that wait do not hold up those of another one, and each is read once.
func TestReadsTakeTurnsByNamespace(t *testing.T) {
	k := &kindReads{turns: map[statedOwner]bool{}}
	owner := func(namespace string, i int) statedOwner {
		return statedOwner{kind: "Widget", namespace: namespace, name: widgetName(i), uid: types.UID(fmt.Sprint(namespace, i))}
	}
	const most, many = 2, 1000
	for i := range many {
		if begins := k.begin(owner("large", i), most); begins != (i < most) {
			t.Fatalf("owner %d begins: %v", i, begins)
		} else if !begins && k.wait(owner("large", i), most) {
			t.Fatalf("owner %d need not wait", i)
		}
	}
	small := owner("small", 0)
	for range 2 { // the second time, it waits already
		if k.begin(small, most) || k.wait(small, most) {
			t.Fatal("it does not wait")
		}
	}
	seen := map[statedOwner]int{}
	for n := 1; ; n++ {
		next, waits := k.end()
		if !waits {
			break
		}
		if seen[next]++; next == small && n > 2 {
			t.Errorf("it is its turn after %d others", n-1)
		}
		if !k.begin(next, most) {
			t.Fatalf("it is the turn of %v, and it has to wait", next)
		}
	}
	if len(seen) != many-most+1 || seen[small] != 1 || len(k.turns) != 0 {
		t.Errorf("%d were read, the small one %d times, %d are left", len(seen), seen[small], len(k.turns))
	}
}
