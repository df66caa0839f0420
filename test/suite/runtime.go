package suite

// RuntimeMutants are mistakes in what all controllers share.
var RuntimeMutants = []Mutant{
	{
		Name: "a stale cache is accepted after a while",
		Edits: []Edit{{"internal/freshness/barrier.go",
			"if !caches.Reached(kind, version) {", "if !caches.Reached(kind, version) && version == \"\" {"}},
		Script: withoutElection + `
			at 1s   create web replicas=3 image=good:1
			at 9s   fault m0 delay pods 5s for=30s
			at 10s  edit web replicas=6
			at 11s  pod web n=0 do=delete`,
		Oracle: "S1",
	},
	{
		Name: "a key is not verified after a write that was not answered",
		Edits: []Edit{{"pkg/reconcile/reconcile.go",
			"if r.runner.keys.IsUnverified(r.state) && (len(p.Proof) > 0 || r.wouldWrite(o.Snapshot, d, p)) {", "if false {"}},
		Script: withoutElection + `
			at 1s   create web replicas=2 image=good:1
			at 9s   fault m0 delay pods 5s for=30s
			at 9s   fault m0 refuse n=3 code=504 after=true resource=pods verb=create
			at 10s  edit web replicas=6`,
		Oracle: "S1",
	},
	{
		Name: "a deletion without the uid",
		Edits: []Edit{{"internal/executor/steps.go",
			"Preconditions: &metav1.Preconditions{UID: &uid}}", "Preconditions: &metav1.Preconditions{}}\n\t_ = uid"}},
		Script: withoutElection + `
			at 1s   create web replicas=3 image=good:1
			at 20s  edit web replicas=1`,
		Oracle: "S3",
	},
	{
		Name: "an adoption without a live read of the owner",
		Edits: []Edit{{"internal/executor/change.go",
			"return mayAdopt()", "_ = mayAdopt\n\treturn nil"}},
		Script: withoutElection + `
			at 1s   bare web-1 replicas=2 image=good:1
			at 10s  pod web-1 n=0 do=relabel
			at 20s  fault m0 freeze replicasets for=100s
			at 25s  set web n=0 do=delete
			at 80s  pod web-1 n=0 do=restore`,
		Oracle: "S4",
	},
	{
		Name: "the loss of the lease is ignored",
		Edits: []Edit{
			{"pkg/leaderelection/elector.go", "return t != nil && t.held()", "return t != nil"},
			{"pkg/leaderelection/elector.go", "\t\tcancel(ErrLost)\n", ""},
		},
		Script: `
			set managers 2
			at 1s   create web replicas=2 image=good:1
			at 0s   fault m0 down for=3s # so m1 leads
			at 9s   fault m1 refuse n=1000 code=0 resource=leases
			at 24s  edit web replicas=8
			at 26s  edit web replicas=2
			at 28s  edit web replicas=8
			at 30s  edit web replicas=2
			at 32s  edit web replicas=8`,
		Oracle: "S13",
	},
	{
		Name: "an update without a difference is sent",
		Edits: []Edit{
			{"internal/executor/change.go", "if len(s.Sign) == 0 && !s.Touch && equality.Semantic.DeepEqual(s.Old, s.New) {",
				"if len(s.Sign) == 0 && equality.Semantic.DeepEqual(s.Old, s.New) && s.Why == \"\" {"},
			{"pkg/client/change.go", "if equality.Semantic.DeepEqual(before, after) && !o.Touch {",
				"if equality.Semantic.DeepEqual(before, after) && o.Method == \"\" {"},
			{"internal/workloads/replicas/report.go", "if equality.Semantic.DeepEqual(before, status) {",
				"if equality.Semantic.DeepEqual(before, status) && false {"},
		},
		Script: withoutElection + `
			at 1s   create web replicas=2 image=good:1
			at 20s  edit web note=x`,
		Oracle: "S14",
	},
	{
		Name: "a key is given up after five failures",
		Edits: []Edit{{"pkg/reconcile/reconcile.go",
			"\tr.runner.enqueueAfter(r.key, r.next)\n\tif line && ",
			"\tif rec.Retries < 5 {\n\t\tr.runner.enqueueAfter(r.key, r.next)\n\t}\n\tif line && "}},
		Script: withoutElection + `
			at 1s   create web replicas=2 image=good:1
			at 20s  quota pods=2
			at 21s  edit web replicas=4
			at 60s  quota pods=-1`,
		Oracle: "L1",
	},
	{
		Name: "a key is lost after an error",
		Edits: []Edit{{"pkg/reconcile/reconcile.go",
			"\tr.runner.enqueueAfter(r.key, r.next)\n\tif line && ", "\tif line && "}},
		Script: withoutElection + `
			set compare 1
			at 1s   create web replicas=3 image=good:1
			at 20s  fault m0 refuse n=20 code=500 resource=pods verb=create
			at 21s  edit web replicas=5`,
		Oracle: "L2",
	},
	{
		Name: "the backoff grows to an hour",
		Edits: []Edit{{"internal/queue/backoff.go", "plan.Doubling(firstBackoff, MaxBackoff, failures-1)",
			"plan.Doubling(firstBackoff, 60*MaxBackoff, failures-1)"}},
		Script: withoutElection + `
			set recovery 75
			at 1s   create web replicas=3 image=good:1
			at 20s  fault m0 refuse n=1000 code=500 resource=pods verb=create
			at 21s  edit web replicas=5
			at 210s service other # the fault ends after the last line`,
		Oracle: "L4",
	},
	{
		Name:   "the lease is not released",
		Edits:  []Edit{{"pkg/leaderelection/elector.go", "\tdefault:\n\t\te.release(ctx, t)\n", "\tdefault:\n"}},
		Script: "\n\t\t\tat 1s   create web replicas=2 image=good:1",
		Oracle: "L5",
	},
	{
		Name: "a lease is only taken over after twice its duration",
		Edits: []Edit{{"pkg/leaderelection/elector.go",
			"\t\tLeaseDuration: e.config.LeaseDuration,", "\t\tLeaseDuration: 2 * e.config.LeaseDuration,"}},
		Script: `
			at 1s   create web replicas=2 image=good:1
			at 20s  fault m0 crash writes=0 after=false back=10s
			at 23s  edit web replicas=3`,
		Oracle: "L5",
	},
}
