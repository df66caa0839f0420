package exam

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/generated"
	"github.com/standalone-kcm/controller-manager/test/metricsapi"
)

var (
	onlySetUp = flag.Bool("only-set-up", false, "set up all problems and ask nothing")
	page      = flag.String("write", "", "the page, from the root of the repository, whose table is replaced")
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // unless it is given: they mostly wait
	os.Exit(cluster.Main(m))
}

// times is how often each question is asked.
const times = 3

// session is one run of the exam.
type session struct {
	*cluster.Cluster
	world   *World
	asker   Asker
	metrics *metricsapi.Server
	hooks   map[string]string

	mu                sync.Mutex
	problems, healthy []Result
}

// begin starts what all problems share. The control plane is that with a CSI driver, as only there the scheduler looks at volumes.
func begin(t *testing.T) *session {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane, which -short leaves out")
	}
	c := cluster.StartWithCSI(t)
	c.Manager(t, "--controllers=*", "--horizontal-pod-autoscaler-sync-period=1s",
		"--horizontal-pod-autoscaler-cpu-initialization-period=1ms", "--horizontal-pod-autoscaler-initial-readiness-delay=1ms")
	metrics, err := metricsapi.Start(t.Context(), c.RESTConfig, metricsapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := metrics.Close(); err != nil {
			t.Errorf("end the metrics: %v", err)
		}
	})
	hooks := StartHooks()
	t.Cleanup(hooks.Close)
	world, err := NewWorld(c.Client, c.RESTConfig)
	if err != nil {
		t.Fatal(err)
	}
	return &session{Cluster: c, world: world, asker: Asker{program(c), c.AdminKubeconfig}, metrics: metrics, hooks: hooks.Values()}
}

// program is the one that is asked: that which was built before, or that which runs.
func program(c *cluster.Cluster) string {
	if built := os.Getenv("MANAGER_BUILT"); built != "" {
		return built
	}
	return filepath.Join(c.Dir, "controller-manager")
}

func TestExam(t *testing.T) {
	s := begin(t)
	for _, folder := range []string{"problems", "healthy"} {
		all, err := Load(folder)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(folder, func(t *testing.T) {
			for _, p := range all {
				t.Run(strings.TrimSuffix(filepath.Base(p.Name), ".yaml"), func(t *testing.T) {
					if p.Alone == "" {
						t.Parallel()
					}
					s.examine(t, p)
				})
			}
		})
	}
	if !*onlySetUp {
		s.judge(t)
	}
}

// examine sets a problem up, asks, and keeps the result.
func (s *session) examine(t *testing.T, p *Problem) {
	place := s.world.Place(s.Namespace(t))
	values := map[string]string{"NS": place.NS}
	for name, value := range s.hooks {
		values[name] = value
	}
	problem, err := p.With(values)
	if err != nil {
		t.Fatal(err)
	}
	s.metrics.Usage(place.NS, metricsapi.EachContainer(corev1.ResourceCPU, metricsapi.Constant(problem.Usage)))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // the test's own context is over
		defer cancel()
		if err := place.Clear(ctx); err != nil {
			t.Errorf("take the objects away: %v", err)
		}
	})
	began := time.Now()
	if err := place.SetUp(t.Context(), problem); err != nil {
		t.Fatalf("%s cannot be set up: %v", p.Name, err)
	}
	text, asked, err := place.Describe(t.Context(), problem.Ask)
	if err != nil {
		t.Fatal(err)
	}
	described := problem.describedBy(text, asked)
	t.Logf("set up in %v, and describe names the component: %v", time.Since(began).Round(100*time.Millisecond), described)
	if *onlySetUp {
		return
	}
	r := s.ask(t, place.NS, problem)
	r.Described = described
	s.keep(p, r)
}

// ask asks the question several times and judges the answers.
func (s *session) ask(t *testing.T, namespace string, p *Problem) Result {
	t.Helper()
	var answers []*Answer
	for range times {
		began := time.Now()
		a, err := s.asker.Ask(t.Context(), p.Ask, namespace)
		if err != nil {
			t.Logf("WRONG: %v", err)
			return Result{Said: "nothing", Wrong: err}
		}
		t.Logf("after %v: %s", time.Since(began).Round(time.Millisecond), a.Summary)
		answers = append(answers, a)
	}
	r := Judge(p, namespace, answers)
	if r.Wrong != nil {
		t.Logf("WRONG: %v", r.Wrong)
	}
	return r
}

// keep keeps a result, with the problem as it is in the file: its table has no names of one run.
func (s *session) keep(p *Problem, r Result) {
	r.Problem = p
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p.Cause) == 0 {
		s.healthy = append(s.healthy, r)
	} else {
		s.problems = append(s.problems, r)
	}
}

// judge compares all results with the goals, and writes the table. A part of the problems, chosen with -run, is judged like all.
func (s *session) judge(t *testing.T) {
	t.Helper()
	table := Table(s.problems)
	t.Logf("\n%s", table)
	right, wrongCertain, _ := Count(s.problems)
	if share := float64(right) / float64(max(len(s.problems), 1)); share < Goal {
		t.Errorf("%d of %d problems are answered rightly, and the goal is %.0f %%", right, len(s.problems), 100*Goal)
	}
	quiet, alarms, _ := Count(s.healthy)
	if quiet < len(s.healthy) {
		t.Errorf("a cause is named for %d of %d worlds in which nothing is wrong", len(s.healthy)-quiet, len(s.healthy))
	}
	if wrongCertain += alarms; wrongCertain > 0 {
		t.Errorf("%d wrong causes are said to be certain", wrongCertain)
	}
	if *page == "" {
		return
	}
	if err := write(filepath.Join("..", "..", *page), table); err != nil {
		t.Error(err)
	}
}

func write(name, table string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	changed, err := generated.Replace(string(text), "test/exam", table)
	if err != nil {
		return fmt.Errorf("change %s: %w", name, err)
	}
	return os.WriteFile(name, []byte(changed), 0o644)
}
