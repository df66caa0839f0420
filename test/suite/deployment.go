package suite

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func deploymentEntry() Entry {
	return Entry{
		Controller: "deployment-controller",
		Needs:      []string{"replicaset-controller"},
		Operations: map[string]Operation{
			// NAME replicas= image= and the keys of configure
			"create": createDeployment,
			// NAME and the keys of configure
			"edit":  editDeployment,
			"image": func(u *User, l script.Line) error { return setImage(u, l.Arg(0), l.Arg(1)) }, // NAME IMAGE
			// NAME to=REVISION, by default the last but one; annotate=true by the annotation
			"rollback": rollBack,
			// NAME policy=Background, Foreground, Orphan
			"delete": func(u *User, l script.Line) error { return removeAsToldBy[*appsv1.Deployment](u, l.Arg(0), l) },
		},
		Begin: func(g *workload.Generator, app string) {
			g.Add(g.Early(), "create %s replicas=%d image=%s %s", app, g.IntN(7), g.Image(), strategy(g))
		},
		Choices:   deploymentChoices,
		Scenarios: deploymentScenarios,
		Malformed: deploymentMalformed,
		Mutants:   deploymentMutants,
		Budgets:   deploymentBudgets,
	}
}

func createDeployment(u *User, l script.Line) error {
	image, _ := l.Get("image")
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: l.Arg(0)},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labelsOf(l.Arg(0))}, Template: Template(l.Arg(0), image),
			ProgressDeadlineSeconds: ptr.To[int32](60),
		},
	}
	configure(d, l)
	return create(u, d)
}

// configure sets what a line says of a Deployment.
func configure(d *appsv1.Deployment, l script.Line) {
	if n, ok := l.Int("replicas"); ok {
		d.Spec.Replicas = ptr.To(int32(n))
	}
	if n, ok := l.Int("minready"); ok {
		d.Spec.MinReadySeconds = int32(n)
	}
	if n, ok := l.Int("history"); ok {
		d.Spec.RevisionHistoryLimit = ptr.To(int32(n))
	}
	if n, ok := l.Int("deadline"); ok {
		d.Spec.ProgressDeadlineSeconds = ptr.To(int32(n))
	}
	if s, ok := l.Get("paused"); ok {
		d.Spec.Paused = s == "true"
	}
	if s, ok := l.Get("note"); ok {
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, "kubernetes.io/change-cause", s)
	}
	if s, ok := l.Get("strategy"); ok {
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.DeploymentStrategyType(s)}
	}
	surge, ok1 := l.Get("surge")
	unavailable, ok2 := l.Get("unavailable")
	if ok1 && ok2 {
		s, n := intstr.Parse(surge), intstr.Parse(unavailable)
		d.Spec.Strategy = appsv1.DeploymentStrategy{
			Type:          appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &n},
		}
	}
}

func editDeployment(u *User, l script.Line) error {
	return edit(u, l.Arg(0), func(d *appsv1.Deployment) { configure(d, l) })
}

func setImage(u *User, name, image string) error {
	return edit(u, name, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image })
}

// rollBack goes back to an earlier revision, as kubectl rollout undo does or, with annotate=true, as the deprecated
// annotation asks the controller to.
func rollBack(u *User, l script.Line) error {
	to, _ := l.Int("to")
	if says(l, "annotate") {
		return edit(u, l.Arg(0), func(d *appsv1.Deployment) {
			metav1.SetMetaDataAnnotation(&d.ObjectMeta, appsv1.DeprecatedRollbackTo, strconv.Itoa(to))
		})
	}
	d, err := get[*appsv1.Deployment](u, l.Arg(0))
	if err != nil {
		return err
	}
	sets, err := list[*appsv1.ReplicaSet](u)
	if err != nil {
		return err
	}
	sets = slices.DeleteFunc(sets, func(rs *appsv1.ReplicaSet) bool { return !metav1.IsControlledBy(rs, d) })
	slices.SortStableFunc(sets, func(a, b *appsv1.ReplicaSet) int { return revision(b) - revision(a) })
	for i, rs := range sets {
		if to == 0 && i == 1 || to != 0 && revision(rs) == to {
			return edit(u, d.Name, func(d *appsv1.Deployment) {
				d.Spec.Template = *rs.Spec.Template.DeepCopy()
				delete(d.Spec.Template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
			})
		}
	}
	return fmt.Errorf("no revision %d", to)
}

func revision(rs *appsv1.ReplicaSet) int {
	n, _ := strconv.Atoi(rs.Annotations["deployment.kubernetes.io/revision"])
	return n
}

var deploymentChoices = []workload.Choice{
	{Weight: 5, Add: func(g *workload.Generator, app string, at, _ time.Duration) { g.Add(at, "image %s %s", app, g.Image()) }},
	{Weight: 3, Add: func(g *workload.Generator, app string, at, _ time.Duration) {
		g.Add(at, "edit %s replicas=%d", app, g.IntN(9))
	}},
	{Weight: 1, Add: func(g *workload.Generator, app string, at, _ time.Duration) {
		g.Add(at, "rollback %s to=%d", app, g.IntN(4))
	}},
	{Weight: 1, Add: func(g *workload.Generator, app string, at, _ time.Duration) {
		g.Add(at, "rollback %s to=%d annotate=true", app, g.IntN(4))
	}},
	{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
		g.Add(at, "edit %s paused=true", app)
		g.Add(soon, "edit %s paused=%v", app, g.IntN(5) == 0)
	}},
	{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) { // paused in a rollout, so that history is looked at
		g.Add(at, "image %s %s", app, g.Image())
		g.Add(soon, "edit %s paused=true history=%d", app, workload.Pick(g, 1, 2))
		g.Add(soon+10*time.Second, "edit %s paused=false", app)
	}},
	{Weight: 1, Add: func(g *workload.Generator, app string, at, _ time.Duration) {
		g.Add(at, "edit %s %s", app, strategy(g))
	}},
	{Weight: 1, Add: func(g *workload.Generator, app string, at, _ time.Duration) {
		g.Add(at, "edit %s %s", app,
			workload.Pick(g, "minready=3", "minready=0", "history=0", "history=1", "note=x", "note=y", "deadline=20"))
	}},
	{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
		g.Add(at, "delete %s policy=%s", app, workload.Pick(g, "Background", "Foreground", "Orphan"))
		g.Add(soon, "create %s replicas=%d image=%s %s", app, g.IntN(6), g.Image(), strategy(g))
	}},
}

func strategy(g *workload.Generator) string {
	switch g.IntN(5) {
	case 0:
		return "strategy=Recreate"
	case 1:
		return "surge=1 unavailable=0"
	case 2:
		return "surge=0 unavailable=1"
	case 3:
		return fmt.Sprintf("surge=%d%% unavailable=%d%%", g.IntN(101), 1+g.IntN(100))
	}
	return "surge=25% unavailable=25%"
}

var deploymentScenarios = []Scenario{
	{Name: "create", Play: func(u *User) {
		u.Expose("web")
		u.Create(Deployment("web", 3))
		u.WaitComplete("web")
	}},
	{Name: "rolling update", Play: func(u *User) {
		u.Expose("web")
		u.Create(Deployment("web", 3, Rolling(1, 0)))
		u.WaitComplete("web")
		u.Season()
		u.SetImage("web", "web:2")
		u.WaitComplete("web")
	}},
	{Name: "rollback", Play: func(u *User) {
		u.Create(Deployment("web", 3, Rolling(1, 1)))
		u.WaitComplete("web")
		u.Season()
		u.SetImage("web", "web:2")
		u.WaitComplete("web")
		u.SetImage("web", "web:1")
		u.WaitComplete("web")
	}},
	{Name: "scale in the middle", Play: func(u *User) {
		u.Create(Deployment("web", 4, Rolling(2, 1)))
		u.WaitComplete("web")
		u.Season()
		u.Patch("web", `{"spec":{"template":{"metadata":{"annotations":{"`+cluster.ReadyAfter+`":"600ms"}}}}}`)
		// the rollout is half done
		Await(u, "web", func(d *appsv1.Deployment) error { return unless(d.Status.UpdatedReplicas >= 2, d.Status) })
		u.Patch("web", `{"spec":{"replicas":7}}`)
		u.WaitComplete("web")
	}},
	{Name: "Recreate", Play: func(u *User) {
		u.Create(Deployment("web", 3, Recreate))
		u.WaitComplete("web")
		u.SetImage("web", "web:2")
		u.WaitComplete("web")
	}},
	{Name: "delete", Play: func(u *User) {
		u.Expose("web")
		u.Create(Deployment("web", 3))
		u.WaitComplete("web")
		Remove[*appsv1.Deployment](u, "web", propagation(metav1.DeletePropagationForeground))
		AwaitAll[*corev1.Pod](u, 0, nil)
		AwaitGone[*appsv1.Deployment](u, "web")
	}},
}

var deploymentMalformed = map[string]string{
	"deployments/no-selector": `{"apiVersion":"apps/v1","kind":"Deployment","metadata":${META},
		"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web"}]}}}}`,
	"deployments/empty":            `{"apiVersion":"apps/v1","kind":"Deployment","metadata":${META}}`,
	"deployments/unknown-operator": `{"apiVersion":"apps/v1","kind":"Deployment","metadata":${META},"spec":{"selector":{"matchExpressions":[{"key":"a","operator":"Like"}]}}}`,
	"deployments/selects-others":   `{"apiVersion":"apps/v1","kind":"Deployment","metadata":${META},"spec":{"selector":{"matchLabels":{"app":"other"}},"template":{"metadata":{"labels":{"app":"this"}}}}}`,
	"deployments/absurd": `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"deployment.kubernetes.io/revision":"92233720368547758079",
			"deprecated.deployment.rollback.to":"-7"},${META}},
		"spec":{"replicas":-3,"minReadySeconds":-1,"revisionHistoryLimit":-1,"progressDeadlineSeconds":-5,
			"selector":{"matchLabels":{"app":"absurd"}},
			"strategy":{"type":"Sideways","rollingUpdate":{"maxSurge":"abc%","maxUnavailable":"-50%"}},
			"template":{"metadata":{"labels":{"app":"absurd"},"annotations":{"deployment.kubernetes.io/revision":"x"}},"spec":{"containers":[{"name":"web"}]}}},
		"status":{"observedGeneration":99,"replicas":-1,"availableReplicas":7,"collisionCount":-2147483648,
			"conditions":[{"type":"Progressing"},{"type":"Progressing","status":"Perhaps"}]}}`,
}

var deploymentMutants = []Mutant{
	{
		Name: "maxSurge is ignored",
		Edits: []Edit{{"pkg/controllers/deployment/plan_roll.go",
			"min(replicas+surge-total, replicas-size)", "replicas-size"}},
		Script: withoutElection + `
			at 1s   create web replicas=4 image=good:1 surge=1 unavailable=0
			at 20s  image web good:2`,
		Oracle: "S5",
	},
	{
		Name: "maxUnavailable is rounded up",
		Edits: []Edit{{"pkg/controllers/deployment/plan_roll.go",
			"resolve(ru.MaxUnavailable, replicas, 0)", "resolve(ru.MaxUnavailable, replicas, 99)"}},
		Script: withoutElection + `
			at 1s   create web replicas=5 image=good:1 surge=0 unavailable=30%
			at 60s  image web slow:2`,
		Oracle: "S6",
	},
	{
		Name: "a template that was there before is not recognised",
		Edits: []Edit{{"pkg/controllers/deployment/plan_hash.go",
			"return equality.Semantic.DeepEqual(&bareA, &bareB)",
			"return a.Spec.Containers[0].Name == \"\" && equality.Semantic.DeepEqual(&bareA, &bareB)"}},
		Script: withoutElection + `
			at 1s   create web replicas=2 image=good:1
			at 20s  image web good:2`,
		Oracle: "S7",
	},
	{
		Name: "Recreate does not wait for the last old pod",
		Edits: []Edit{{"pkg/controllers/deployment/plan_recreate.go",
			"if name := r.remains(r.new); name != \"\" {", "if name := r.remains(r.new); false {"}},
		Script: withoutElection + `
			at 1s   create web replicas=3 image=good:1 strategy=Recreate
			at 20s  image web good:2`,
		Oracle: "S8",
	},
	{
		Name: "the history limit removes what is in use",
		Edits: []Edit{{"pkg/controllers/deployment/plan_history.go",
			"if s.size == 0 && s.Status.Replicas == 0 && ", "if "}},
		Script: withoutElection + `
			at 1s   create web replicas=4 image=good:1 surge=1 unavailable=0
			at 20s  edit web history=0
			at 25s  image web slow:2
			at 27s  edit web paused=true
			at 40s  edit web paused=false`,
		Oracle: "S9",
	},
	{
		Name: "the status is that of another generation",
		Edits: []Edit{{"pkg/controllers/deployment/report.go",
			"ObservedGeneration: r.d.Generation, ", "ObservedGeneration: r.d.Generation + 1, "}},
		Script: withoutElection + `
			at 1s   create web replicas=2 image=good:1
			at 20s  image web good:2`,
		Oracle: "S10",
	},
	{
		Name: "a hash collision is ignored",
		Edits: []Edit{{"pkg/controllers/deployment/plan_create.go",
			"if r.new != nil || r.NameConflict == nil {", "if true {"}},
		Script: withoutElection + `
			at 1s   bare web-5b8b947856 replicas=1 image=good:2 # the name that the Deployment wants
			at 5s   create web replicas=2 image=good:1`,
		Oracle: "L1",
	},
	{
		Name: "scaling returns early",
		Edits: []Edit{{"pkg/controllers/deployment/plan_scale.go",
			"\tactive := r.active()\n\tswitch {\n", "\tactive := r.active()\n\tif len(active) > 0 {\n\t\treturn\n\t}\n\tswitch {\n"}},
		Script: withoutElection + `
			at 1s   create web replicas=3 image=good:1
			at 20s  edit web replicas=5`,
		Oracle: "L1",
	},
	{
		Name: "the progress deadline is not noticed",
		Edits: []Edit{{"pkg/controllers/deployment/report_conditions.go",
			"r.progressedAt(now).Add(deadline).Before(r.now):", "r.progressedAt(now).Add(1000*deadline).Before(r.now):"}},
		Script: withoutElection + `
			at 1s   create web replicas=3 image=good:1
			at 20s  edit web deadline=20
			at 20s  image web bad:1`,
		Oracle: "L3",
	},
}

var deploymentBudgets = []Budget{
	{
		Name: "create 250 Deployments of 2 replicas", Floor: floor.CreateDeployments(manyDeployments, 2),
		Do: func(u *User) { u.Follow(manyDeployments, func() { u.createDeployments(manyDeployments, 2) }) },
	},
	{
		Name: "update the image of 250 Deployments of 2 replicas", Floor: floor.UpdateDeployments(manyDeployments, 2, 1, 0),
		Prepare: func(u *User) { u.Follow(manyDeployments, func() { u.createDeployments(manyDeployments, 2) }) },
		Do: func(u *User) {
			u.Follow(manyDeployments, func() {
				u.Each(manyDeployments, func(i int) error { return setImage(u, fmt.Sprint("web-", i), "web:2") })
			})
		},
	},
	{
		Name: "update the image of one Deployment of 500 replicas", Floor: floor.UpdateDeployments(1, 500, 125, 125), MostPods: 625,
		LeastAvailable: 375,
		Prepare: func(u *User) {
			u.Create(Deployment("big", 500))
			u.WaitComplete("big")
		},
		Do: func(u *User) {
			u.SetImage("big", "web:2")
			u.WaitComplete("big")
		},
	},
}

// manyDeployments are as many as the budgets take.
const manyDeployments = 250

func (u *User) createDeployments(n int, replicas int32) {
	u.Helper()
	u.Each(n, func(i int) error { return create(u, Deployment(fmt.Sprint("web-", i), replicas)) })
}
