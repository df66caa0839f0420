package mutation

// The table. Scripts are those of test/simulation, see its package script.
var mutants = []mutant{
	{
		name: "a stale cache passes for a fresh one after a while",
		edits: []edit{{"pkg/freshness/barrier.go",
			"if !caches.Reached(kind, version) {", "if !caches.Reached(kind, version) && version == \"\" {"}},
		script: quick + `
			at 1s   create web replicas=3 image=good:1
			at 9s   fault m0 delay pods 5s for=30s
			at 10s  edit web replicas=6
			at 11s  pod web n=0 do=delete`,
		oracle: "S1",
	},
	{
		name: "what a lost answer leaves open is not looked up",
		edits: []edit{{"pkg/reconcile/reconcile.go",
			"if r.keys.isUnverified(r.state) && r.wouldWrite(o.Snapshot, p) {", "if false {"}},
		script: quick + `
			at 1s   create web replicas=2 image=good:1
			at 9s   fault m0 delay pods 5s for=30s
			at 9s   fault m0 refuse n=3 code=504 after=true resource=pods verb=create
			at 10s  edit web replicas=6`,
		oracle: "S1",
	},
	{
		name: "one pod too many is deleted",
		edits: []edit{{"pkg/replicas/plan.go",
			"n := min(-missing, burst)", "n := min(1-missing, burst)"}},
		script: quick + `
			at 1s   create web replicas=5 image=good:1
			at 30s  edit web replicas=3`,
		oracle: "S2",
	},
	{
		name: "a deletion without the uid",
		edits: []edit{{"pkg/executor/steps.go",
			"Preconditions: &metav1.Preconditions{UID: &uid}}", "Preconditions: &metav1.Preconditions{}}\n\t_ = uid"}},
		script: quick + `
			at 1s   create web replicas=3 image=good:1
			at 20s  edit web replicas=1`,
		oracle: "S3",
	},
	{
		name: "an adoption without a live look at the owner",
		edits: []edit{{"pkg/executor/steps.go",
			"err := w.mayAdopt(); err != nil", "err := error(nil); err != nil"}},
		script: quick + `
			at 1s   bare web-1 replicas=2 image=good:1
			at 10s  pod web-1 n=0 do=relabel
			at 20s  fault m0 freeze replicasets for=100s
			at 25s  set web n=0 do=delete
			at 80s  pod web-1 n=0 do=restore`,
		oracle: "S4",
	},
	{
		name: "maxSurge is ignored",
		edits: []edit{{"pkg/controllers/deployment/roll.go",
			"min(replicas+surge-total, replicas-size)", "replicas-size"}},
		script: quick + `
			at 1s   create web replicas=4 image=good:1 surge=1 unavailable=0
			at 20s  image web good:2`,
		oracle: "S5",
	},
	{
		name: "maxUnavailable is rounded up",
		edits: []edit{{"pkg/controllers/deployment/roll.go",
			"resolve(ru.MaxUnavailable, replicas, 0)", "resolve(ru.MaxUnavailable, replicas, 99)"}},
		script: quick + `
			at 1s   create web replicas=5 image=good:1 surge=0 unavailable=30%
			at 60s  image web slow:2`,
		oracle: "S6",
	},
	{
		name: "ready pods are given up first",
		edits: []edit{{"pkg/replicas/rank.go",
			"falseFirst(a.ready, b.ready),", "falseFirst(b.ready, a.ready),"}},
		script: quick + `
			at 1s   create web replicas=8 image=slow:1 surge=0 unavailable=4
			at 38s  image web slow:2`,
		oracle: "S6",
	},
	{
		name: "pods that terminate count as available",
		edits: []edit{{"pkg/podutil/podutil.go",
			"c.Terminating++\n", "c.Terminating++\n\t\t\tif Available(p, minReadySeconds, now) {\n\t\t\t\tc.Available++\n\t\t\t}\n"}},
		script: quick + `
			at 1s   create web replicas=6 image=good:1 surge=1 unavailable=0
			at 60s  fault m0 delay pods 1s for=60s
			at 61s  image web good:2`,
		oracle: "S10",
	},
	{
		name: "a template that was there before is not recognised",
		edits: []edit{{"pkg/controllers/deployment/hash.go",
			"return equality.Semantic.DeepEqual(&bareA, &bareB)", "return a.Spec.Containers[0].Name == \"\" && equality.Semantic.DeepEqual(&bareA, &bareB)"}},
		script: quick + `
			at 1s   create web replicas=2 image=good:1
			at 20s  image web good:2`,
		oracle: "S7",
	},
	{
		name: "Recreate does not wait for the last old pod",
		edits: []edit{{"pkg/controllers/deployment/recreate.go",
			"if name := r.remains(r.new); name != \"\" {", "if name := r.remains(r.new); false {"}},
		script: quick + `
			at 1s   create web replicas=3 image=good:1 strategy=Recreate
			at 20s  image web good:2`,
		oracle: "S8",
	},
	{
		name: "the history limit removes what is in use",
		edits: []edit{{"pkg/controllers/deployment/history.go",
			"if s.size == 0 && s.Status.Replicas == 0 && ", "if "}},
		script: quick + `
			at 1s   create web replicas=4 image=good:1 surge=1 unavailable=0
			at 20s  edit web history=0
			at 25s  image web slow:2
			at 27s  edit web paused=true
			at 40s  edit web paused=false`,
		oracle: "S9",
	},
	{
		name: "the status is that of another generation",
		edits: []edit{{"pkg/controllers/deployment/report.go",
			"ObservedGeneration: r.d.Generation, ", "ObservedGeneration: r.d.Generation + 1, "}},
		script: quick + `
			at 1s   create web replicas=2 image=good:1
			at 20s  image web good:2`,
		oracle: "S10",
	},
	{
		name: "Endpoints keep dead addresses once there are more than a thousand",
		edits: []edit{{"pkg/controllers/endpoint/plan.go",
			"case !sameSubsets(", "case !(noted && note) && !sameSubsets("}},
		script: `
			set batch 1000
			at 1s   service web
			at 1s   bare web replicas=1000 image=good:1
			at 40s  bare web replicas=1002
			at 60s  pod web n=10 do=delete
			at 60s  pod web n=500 do=delete`,
		oracle: "S11",
	},
	{
		name: "podgc does not wait out the grace period",
		edits: []edit{{"pkg/controllers/podgc/plan_nodes.go",
			"case now.Sub(since) >= gracePeriod:", "case now.Sub(since) >= 0:"}},
		script: quick + `
			at 1s   create web replicas=3 image=good:1
			at 20s  node node-0 do=remove
			at 21s  node node-1 do=remove
			at 90s  node node-0 do=start`,
		oracle: "S12",
	},
	{
		name: "podgc does not look for the node live",
		edits: []edit{{"pkg/controllers/podgc/observe.go",
			"gone[i] = apierrors.IsNotFound(err)", "gone[i] = true"}},
		script: quick + `
			at 1s   create web replicas=3 image=good:1
			at 20s  node node-0 do=remove
			at 20s  node node-1 do=remove
			at 20s  node node-2 do=remove
			at 21s  fault m0 freeze nodes for=80s
			at 25s  node node-0 do=start
			at 25s  node node-1 do=start
			at 25s  node node-2 do=start`,
		oracle: "S12",
	},
	{
		name: "the loss of the lease is ignored",
		edits: []edit{
			{"pkg/leaderelection/elector.go", "return t != nil && t.held()", "return t != nil"},
			{"pkg/leaderelection/elector.go", "\t\tcancel(ErrLost)\n", ""},
		},
		script: `
			set managers 2
			at 1s   create web replicas=2 image=good:1
			at 0s   fault m0 down for=3s # so m1 leads
			at 9s   fault m1 refuse n=1000 code=0 resource=leases
			at 24s  edit web replicas=8
			at 26s  edit web replicas=2
			at 28s  edit web replicas=8
			at 30s  edit web replicas=2
			at 32s  edit web replicas=8`,
		oracle: "S13",
	},
	{
		name: "what is the same is written",
		edits: []edit{
			{"pkg/executor/steps.go", "if equality.Semantic.DeepEqual(s.Old, s.New) {", "if equality.Semantic.DeepEqual(s.Old, s.New) && s.Why == \"\" {"},
			{"pkg/api/change.go", "if equality.Semantic.DeepEqual(before, after) {", "if equality.Semantic.DeepEqual(before, after) && o.Method == \"\" {"},
			{"pkg/replicas/report.go", "if unchanged(*s.Set.Status, status) {", "if false {"},
		},
		script: quick + `
			at 1s   create web replicas=2 image=good:1
			at 20s  edit web note=x`,
		oracle: "S14",
	},
	{
		name: "a hash collision is ignored",
		edits: []edit{{"pkg/controllers/deployment/create.go",
			"if r.new != nil || r.NameConflict == nil {", "if true {"}},
		script: quick + `
			at 1s   bare web-6bbcfc9f9b replicas=1 image=good:2 # the name that the Deployment wants
			at 5s   create web replicas=2 image=good:1`,
		oracle: "L1",
	},
	{
		name: "scaling returns early",
		edits: []edit{{"pkg/controllers/deployment/scale.go",
			"\tactive := r.active()\n\tswitch {\n", "\tactive := r.active()\n\tif len(active) > 0 {\n\t\treturn\n\t}\n\tswitch {\n"}},
		script: quick + `
			at 1s   create web replicas=3 image=good:1
			at 20s  edit web replicas=5`,
		oracle: "L1",
	},
	{
		name: "orphans are not adopted",
		edits: []edit{{"pkg/plan/claim.go",
			"case ref == nil && matches && adoptable(owner, c):", "case ref == nil && matches && adoptable(owner, c) && owner.GetUID() == \"\":"}},
		script: quick + `
			at 1s   create web replicas=3 image=good:1
			at 20s  set web n=0 do=orphan`,
		oracle: "L1",
	},
	{
		name: "a key is given up after five failures",
		edits: []edit{{"pkg/reconcile/reconcile.go",
			"\tr.enqueueAfter(r.key, rec.Next)\n\tif rec.Retries&", "\tif rec.Retries < 5 {\n\t\tr.enqueueAfter(r.key, rec.Next)\n\t}\n\tif rec.Retries&"}},
		script: quick + `
			at 1s   create web replicas=2 image=good:1
			at 20s  quota pods=2
			at 21s  edit web replicas=4
			at 60s  quota pods=-1`,
		oracle: "L1",
	},
	{
		name: "the progress deadline is not noticed",
		edits: []edit{{"pkg/controllers/deployment/conditions.go",
			"now.LastUpdateTime.Add(deadline).Before(r.now): // DEP-73", "now.LastUpdateTime.Add(1000*deadline).Before(r.now): // DEP-73"}},
		script: quick + `
			at 1s   create web replicas=3 image=good:1
			at 20s  edit web deadline=20
			at 20s  image web bad:1`,
		oracle: "L3",
	},
}

// quick is the beginning of scripts that need no election.
const quick = `
			set elect 0`
