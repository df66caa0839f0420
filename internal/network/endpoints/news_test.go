package endpoints

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// It is enough to look at pods that have changed, if they are few and all of them are known.
func TestNews(t *testing.T) {
	type change struct {
		Before, After plan.Object
		Time          time.Time
	}
	pods := func(n int) (all []change) {
		for i := range n {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p-", i)}}
			all = append(all, change{Before: p, After: p})
		}
		return all
	}
	for name, c := range map[string]struct {
		changes []change
		missed  bool
		few     bool
	}{
		"none":                  {nil, false, true},
		"a few":                 {pods(MostNews), false, true},
		"many":                  {pods(MostNews + 1), false, false},
		"more than are kept":    {pods(1), true, false},
		"of something else too": {append(pods(1), change{After: &corev1.Service{}}), false, false},
	} {
		if n := NewsOf(c.changes, c.missed); n.Few != c.few {
			t.Errorf("%s: few %t of %d", name, n.Few, len(n.Names))
		}
	}
}
