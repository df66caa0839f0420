package simulation

import (
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
)

// TestFound runs scripts that once failed, shrunk.
func TestFound(t *testing.T) {
	for name, text := range map[string]string{
		"a new pod that this process has just deleted is not available": `
			seed 84
			set batch 500
			set latency 20
			set managers 2
			set nodes 2
			set standby 0
			set terminated 3
			set workers 1
			at 0s       create web replicas=2 image=good:2 surge=0 unavailable=1
			at 0s       service web
			at 1.502s   create api replicas=6 image=good:0 surge=0 unavailable=1
			at 2s       image web slow:2
			at 2.2s     service api
			at 3s       service web
			at 3.4s     mirrored hand-db n=0
			at 3.858s   create db replicas=3 image=good:1 surge=25% unavailable=25%
			at 5s       fault m* delay pods 1.564s for=20s
			at 5.8s     image api good:1
			at 6.57s    edit web surge=1 unavailable=0
			at 7s       pod api n=7 do=evict
			at 14.286s  fault m0 pause for=14s
			at 15.217s  edit web replicas=1
			at 19.601s  service web app=web delete=true
			at 37s      token api-0 do=clear`,
		"an owner is deleted without its dependents, and then with them": `
			seed 185479067
			set garbage 0
			at 7s       family api-1 n=3
			at 8.1s     fault m* stop back=9s
			at 9.785s   family api-1 do=delete policy=Orphan
			at 17.044s  family api-1 do=delete policy=Foreground`,
		"a mirrored Service gets a selector while its manager is paused, which then leads again": `
			seed 2173908468
			set standby 1
			at 800ms    mirrored hand-web n=2
			at 6.8s     fault m0 pause for=18s
			at 12.13s   mirrored hand-web n=0 selects=true`,
		"the pods of a Job that is deleted are orphaned before they are counted": `
			seed 1057
			set garbage 0
			set latency 20
			set standby 1
			set workers 1
			at 4.3s     job sum-web completions=3 parallelism=3 image=done:1
			at 6.5s     fault m0 slow 2.709s for=9s
			at 8.7s     fault m* cut replicasets
			at 14.1s    editjob sum-web do=delete policy=Orphan`,
		"a DaemonSet comes again after its deletion, and with it its revision's name": `
			seed 196
			set garbage 0
			at 15s      fault m0 crash writes=8 after=true back=9s
			at 22s      daemon ds-web image=good:1
			at 40s      fault m* refuse n=4 code=-1 after=true verb=get
			at 57s      daemon ds-web delete=true policy=Background
			at 1m6.77s  daemon ds-web image=good:1`,
		"the pod of a DaemonSet becomes available while it is deleted as one that is not": `
			seed 1174
			set batch 0
			set garbage 0
			set latency 5
			set managers 1
			set nodes 4
			set terminated 3
			set workers 1
			at 0s       budget api max=34%
			at 700ms    service api
			at 3.625s   daemon ds-api image=slow:2 unavailable=1
			at 19.926s  fault m0 pause for=5s
			at 20s      fault m0 slow 1.888s for=17s
			at 20.5s    fault m0 refuse n=5 code=503 after=false
			at 27s      daemon ds-api image=flaky:2`,
		"a pod of a Job is deleted at once by podgc, and goes with the finalizer of the Job": `
			seed 1466
			at 21.8s    node node-0 do=stop
			at 34.648s  job sum-web completions=3 parallelism=2 image=flop:1 mode=late
			at 2m31.8s  node node-0 do=taint
			at 2m47s    node node-2 do=taint`,
		"a DaemonSet surges with a pod that never becomes available": `
			seed 194
			set managers 2
			set workers 5
			at 3.311s   daemon ds-web image=good:0 surge=1
			at 20.1s    daemon ds-web image=bad:1`,
		"a Job is deleted before a status tells that it was created": `
			seed 1
			set latency 20
			at 1s     cron runs-web minutes=1 policy=Forbid image=bad:1 history=1
			at 50s    fault m* crash writes=1 after=false back=40s
			at 1m10s  run runs-web do=delete
			at 2m51s  cron runs-web suspend=true`,
		"a CronJob replaces Jobs in back-off": `
			seed 4
			at 1.2s     cron cron-web minutes=1 policy=Replace image=bad:1 history=0 deadline=30
			at 2m33.677s node node-2 do=start`,
		"a token that users have made is listed later": `
			seed 13
			at 12s    legacytoken legacy-3 used=2 marked=0 kind=by-hand
			at 52.7s  tracking days=2
			at 52.7s  legacytoken legacy-3 used=1 marked=2 kind=any
			at 57.7s  fault m0 stop back=1s`,
		"progress that is seen twice in a second is written once": `
			seed 1322
			set latency 200
			set nodes 2
			at 1.75s    create web replicas=0 image=slow:2 surge=1 unavailable=0
			at 22s      image web good:1
			at 25.597s  fault m* refuse n=6 code=503 after=false resource=replicasets
			at 40.726s  rollback web to=0`,
		"revisions go on from the highest that is left when some of the old ReplicaSets have gone": `
			seed 3692363291
			set batch 500
			set nodes 4
			set workers 1
			at 0s       create web replicas=1 image=good:1 surge=12% unavailable=8%
			at 5s       fault m0 slow 958ms for=17s
			at 5.34s    node node-1 do=stop
			at 5.931s   image web slow:2
			at 8.4s     image web bad:0
			at 11.823s  edit web paused=true
			at 12s      image web good:2
			at 13.286s  edit web history=0
			at 16.823s  edit web paused=false`,
		"a pod that was given up as not ready becomes ready while events are late, and another one goes": `
			seed 410
			set batch 500
			set managers 2
			set nodes 2
			set workers 1
			at 3.785s   create web replicas=3 image=good:1 surge=0 unavailable=1
			at 20s      fault m0 down for=15s
			at 22s      image web failing:0
			at 22s      node node-1 do=remove
			at 22s      edit web replicas=6
			at 22.047s  image web good:0
			at 22.6s    fault m* delay all 2.934s for=8s
			at 25.7s    image web good:1
			at 32s      image web flaky:2`,
		"revisions begin anew when a Deployment that keeps no history is changed while it is paused": `
			seed 30018
			at 0s       create db replicas=0 image=failing:2 surge=16% unavailable=96%
			at 24.4s    image db flaky:1
			at 36.2s    edit db paused=true history=0
			at 37.913s  image db slow:1
			at 46.2s    edit db paused=false`,
		"while nobody can lead, nobody can mend Endpoints": `
			seed 5000644
			at 770ms    service web
			at 2.989s   create web replicas=4 image=flaky:2 surge=0 unavailable=1
			at 10s      fault m* down for=9s
			at 33.183s  fault m0 down for=15s
			at 45s      fault m0 stop back=8s`,
		"a revision may go down when a user has orphaned and deleted the newest ReplicaSet": `
			seed 4037571763
			at 3.2s     create web replicas=2 image=flaky:0 surge=0 unavailable=1
			at 4.124s   image web failing:0
			at 5s       fault m0 refuse n=5 code=-1 after=false verb=get
			at 12s      set web n=0 do=orphan
			at 13.166s  set web n=2 do=delete
			at 14.8s    rollback web to=1`,
		"a pod that is relabelled while the caches are in doubt is not waited for": `
			seed 40194
			at 137ms    create web replicas=1 image=good:1 surge=69% unavailable=6%
			at 4.372s   fault m0 delay pods 4.669s for=13s
			at 10.322s  delete web policy=Orphan
			at 12s      pod web n=2 do=relabel
			at 13.905s  fault m* refuse n=6 code=504 after=false verb=create
			at 16.122s  create web replicas=3 image=good:1 strategy=Recreate`,
		"a node that was back for three seconds begins its grace period anew": `
			seed 40465
			at 2s       create web replicas=3 image=good:2 surge=1 unavailable=0
			at 17.631s  node node-1 do=remove
			at 34.631s  node node-1 do=start
			at 37.6s    node node-1 do=remove
			at 40s      fault m* delay endpoints 474ms for=18s`,
		"so does a node that was back for a fifth of a second": `
			seed 9606
			at 2.122s   create web replicas=6 image=good:2 surge=25% unavailable=25%
			at 3.169s   node node-1 do=remove
			at 7.918s   node node-1 do=start
			at 8.1s     node node-1 do=remove
			at 1m18.1s  node node-1 do=start`,
		"a ReplicaSet that is replaced late, as reads are not answered, is nobody's unrest": `
			seed 9821
			set standby 1
			at 300ms    create web replicas=2 image=good:1 surge=25% unavailable=25%
			at 5.882s   fault m0 refuse n=4 code=-1 after=false verb=get
			at 9.685s   fault m0 pause for=15s
			at 13.81s   set web n=1 do=delete
			at 2m26.7s  node node-3 do=start`,
		"nor is an orphan that is adopted late": `
			seed 18304
			at 200ms    create web replicas=0 image=bad:2 strategy=Recreate
			at 15.206s  fault m0 refuse n=6 code=-1 after=false verb=get
			at 22s      delete web policy=Orphan
			at 30.207s  create web replicas=2 image=bad:1 surge=25% unavailable=25%
			at 2m24.481s node node-1 do=taint`,
		"what two of podgc's rules remove at the same moment is not too much": `
			seed 24045
			set batch 500
			set latency 200
			set managers 2
			set nodes 4
			set standby 0
			set terminated 3
			set workers 1
			at 600ms    create api replicas=6 image=failing:1 strategy=Recreate
			at 25.4s    edit web paused=true
			at 29.6s    node node-3 do=stop
			at 35.4s    edit web paused=false
			at 36.1s    edit api replicas=7
			at 48.529s  edit api paused=true
			at 1m3.429s edit api paused=false
			at 2m39.6s  node node-3 do=taint`,
		"a release whose answer is lost is repeated": `
			seed 1254
			at 600ms    create web replicas=2 image=failing:1 surge=84% unavailable=1%
			at 3.79s    fault m* refuse n=1 code=0 after=true resource=pods
			at 6.591s   fault m* delay pods 699ms for=6s
			at 7s       pod web n=9 do=relabel`,
		"a ReplicaSet of the former leader that is seen before its pods does not get them twice": `
			seed 1991
			set managers 2
			set nodes 2
			set latency 20
			set workers 1
			at 0s       create web replicas=0 image=good:0 surge=1 unavailable=0
			at 0s       create api replicas=3 image=good:1 surge=1 unavailable=0
			at 0s       service api
			at 201ms    fault m* down for=19s
			at 2.394s   create db replicas=6 image=good:1 surge=30% unavailable=88%
			at 7s       delete db policy=Background
			at 7s       create db replicas=0 image=failing:2 strategy=Recreate
			at 8.654s   image db good:1`,
		"what is ready but not available is given up first": `
			seed 957
			set latency 5
			set nodes 4
			set workers 1
			at 2s       delete web policy=Background
			at 2.798s   create web replicas=6 image=good:2 surge=4% unavailable=9%
			at 7s       image web flaky:1
			at 7s       create web replicas=2 image=good:2 strategy=Recreate
			at 7s       service web app=web unready=true
			at 7s       edit web minready=3
			at 15.4s    image web good:1`,
		"paused after its strategy was tightened, a rollout gives up pods that never got ready, not available ones": `
			seed 924016
			set latency 5
			set nodes 2
			set workers 1
			at 0s       create api replicas=6 image=good:0 surge=25% unavailable=25%
			at 37s      image api bad:2
			at 39s      edit api surge=1 unavailable=0
			at 42s      edit api paused=true`,
		"a pod that is put back makes one too many": `
			seed 5512
			set nodes 4
			at 144ms    service api
			at 460ms    create web replicas=2 image=good:1 surge=0 unavailable=1
			at 700ms    create api replicas=5 image=slow:0 surge=1 unavailable=0
			at 3.868s   image api good:1
			at 6.121s   pod api n=5 do=relabel
			at 7.02s    image api bad:0
			at 11.121s  pod api n=0 do=restore`,
	} {
		t.Run(name, func(t *testing.T) {
			s, err := script.Parse(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range Run(t, s, controllers.Registry).Violations {
				t.Error(v)
			}
		})
	}
}
