package simulation

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// TestServersThatLag lets the random scripts of some seeds meet servers whose caches are behind: when a watch breaks, and when
// a manager begins, its caches are filled with the past.
func TestServersThatLag(t *testing.T) {
	for seed := range uint64(plantest.Tries(25, 4)) {
		s := suite.Mix().Random(seed)
		random := rand.New(rand.NewPCG(seed, 9))
		for range 3 {
			at := time.Duration(1+random.IntN(60)) * time.Second
			resource := []string{"all", "pods", "replicasets", "deployments", "endpoints"}[random.IntN(5)]
			lag, span := time.Duration(1+random.IntN(8000))*time.Millisecond, time.Duration(1+random.IntN(20))*time.Second
			add(t, &s, at, fmt.Sprintf("fault m* lag %s %v for=%v", resource, lag, span))
			what := []string{"cut " + resource, "expire " + resource, "crash writes=1 after=true back=1s", "stop back=1s"}[random.IntN(4)]
			add(t, &s, at+100*time.Millisecond, "fault m0 "+what)
		}
		for _, v := range Run(t, s, controllers.Registry).Violations {
			t.Errorf("seed %d: %s\n%s", seed, v, s)
		}
	}
}

// add enters a line into a script.
func add(t *testing.T, s *script.Script, at time.Duration, words string) {
	t.Helper()
	l, err := script.Parse(strings.NewReader(fmt.Sprintf("at %v %s", at, words)))
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for i < len(s.Lines) && s.Lines[i].At <= at {
		i++
	}
	s.Lines = append(s.Lines[:i:i], append(l.Lines, s.Lines[i:]...)...)
}
