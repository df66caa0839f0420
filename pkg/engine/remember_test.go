package engine

import (
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func TestMemory(t *testing.T) {
	var m Memory[int]
	web, shop := plan.Key{Name: "web"}, plan.Key{Name: "shop"}
	next := func(before int) (int, bool) { return before + 1, true }
	for want := 1; want <= 3; want++ {
		if got := m.Renew(web, next); got != want {
			t.Errorf("look %d remembers %d", want, got)
		}
	}
	if got := m.Renew(shop, next); got != 1 || m.Len() != 2 {
		t.Errorf("another key remembers %d, %d keys in all", got, m.Len())
	}
	if got := m.Renew(shop, func(int) (int, bool) { return 7, false }); got != 7 || m.Len() != 1 {
		t.Errorf("got %d, %d keys remembered", got, m.Len())
	}
	if m.Forget(web); m.Len() != 0 || m.Renew(web, next) != 1 {
		t.Error("a forgotten key is remembered")
	}
}
