package validatingadmissionpolicystatus

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// versioned is a definition of a generation. Each version of it is another one.
func versioned(name string, generation int64, version int) *metav1.PartialObjectMetadata {
	d := definition1(name)
	d.Generation, d.ResourceVersion = generation, fmt.Sprint(version)
	return d
}

// Somebody who changes the metadata of a definition each second has policies checked no more, once its types are surely published; and
// one who changes the definition itself has them checked now and then.
func TestDefinitionsThatAreTouched(t *testing.T) { // VAP-20
	run(t, func(b *bench) {
		b.put(newPolicy(about("example.com/v1/widgets"), says("object.size > 5")))
		time.Sleep(time.Minute)
		if err := b.definitions.Tracker().Add(versioned("widgets.example.com", 1, 1)); err != nil {
			b.Fatal(err)
		}
		version := 1
		checks := func(seconds int, generation func() int64) int {
			before := b.reads.read("/openapi/v3")
			for range seconds {
				time.Sleep(time.Second)
				version++
				d := versioned("widgets.example.com", generation(), version)
				if err := b.definitions.Tracker().Update(definitions, d, ""); err != nil {
					b.Fatal(err)
				}
			}
			return b.reads.read("/openapi/v3") - before
		}
		one := func() int64 { return 1 }
		if n := checks(80, one); n < 5 || n > 10 {
			b.Errorf("while it is young: %d checks", n)
		}
		if n := checks(300, one); n > 0 {
			b.Errorf("later: %d checks", n)
		}
		if n := checks(110, func() int64 { return int64(version) }); n < 9 || n > 13 {
			b.Errorf("while it changes: %d checks", n)
		}
	})
}

// A definition that was made right before the process began to lead may not be published yet.
func TestYoungDefinitions(t *testing.T) { // VAP-20
	for _, young := range []bool{true, false} {
		run(t, func(b *bench) {
			if young {
				b.want("it is checked again", "p", "found no matching overload")
			} else {
				b.want("it is not", "p", "")
			}
		}, func(b *bench) {
			b.put(newPolicy(about("example.com/v1/widgets"), says("object.size > 5")))
			d := versioned("widgets.example.com", 1, 1)
			if d.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour)); young {
				d.CreationTimestamp = metav1.Now()
			}
			if err := b.definitions.Tracker().Add(d); err != nil {
				b.Fatal(err)
			}
			time.AfterFunc(3*time.Second, func() {
				publish(b.Server, map[string]string{"apis/example.com/v1": widgetsWith(`"size": {"type": "string"}`)})
			})
		})
	}
}

// Of a type there is one reading, and none once the types of its group are surely published.
func TestReadings(t *testing.T) {
	var now published
	of := func(group, document string) objectType {
		return objectType{Origin: origin{Group: group, Resource: "widgets"}, Document: document}
	}
	for i := range 60 {
		for _, one := range []objectType{of("a", fmt.Sprint("hash=", i)), of("b", "hash=0")} {
			now = now.remember([]objectType{one}, epoch)
		}
	}
	found, _ := now.Types.Get(of("a", "").Origin)
	if n := countTypes(now); n != 2 || found.Document != "hash=59" {
		t.Errorf("%d types, %+v", n, found)
	}
	now, _ = now.with(versioned("widgets.a", 1, 1), false, epoch)
	now, next := expire(epoch.Add(settles-1), now)
	if countTypes(now) != 2 || next != 1 {
		t.Errorf("%+v, %s", now, next)
	}
	now, next = expire(epoch.Add(settles), now)
	if _, known := now.Types.Get(of("b", "").Origin); !known || countTypes(now) != 1 || now.hasChanged("a") || next != remembered-settles {
		t.Errorf("%+v, %s", now, next)
	}
}

func countTypes(p published) (n int) {
	for range p.Types.All() {
		n++
	}
	return n
}
