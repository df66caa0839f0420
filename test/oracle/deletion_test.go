package oracle

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAccounts compares them with the contract's list of controllers.
func TestAccounts(t *testing.T) {
	text, err := os.ReadFile("../../docs/contract/registry.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, row := range regexp.MustCompile(`(?m)^\| REG-\d+ \|.*`).FindAllString(string(text), -1) {
		if cells := strings.Split(row, "|"); len(cells) > 7 {
			if account := strings.TrimSpace(cells[6]); account != "" && !strings.HasPrefix(account, "none") {
				want = append(want, account)
			}
		}
	}
	slices.Sort(want)
	if want = slices.Compact(want); !slices.Equal(accounts, want) {
		t.Errorf("the accounts are %v, expected %v", accounts, want)
	}
}

// podOfKind is a pod that a controller of another kind owns, as the manager makes it.
func (s *scene) podOfKind(account, kind, name string) Object {
	p := s.aPod(aSet(nil, "a", 1))
	p.Name, p.Labels = name, map[string]string{"app": name}
	p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: "owner", Controller: pointer(true)}}
	return s.Manager().Account(account).Create(p)
}

func succeed(o Object) {
	o.(*corev1.Pod).Status.Phase = corev1.PodSucceeded
	o.(*corev1.Pod).Status.Conditions = nil
}

// otherKinds are the pods of a Workflow and of a CloneSet, kinds of which no oracle knows, beside a Deployment: made, finished, replaced
// and removed by the manager. Those of the Workflow have the finalizer of a Job's.
func otherKinds(s *scene) {
	settledScene(s)
	job, gc := s.Manager().Account("job-controller"), s.Manager().Account("generic-garbage-collector")
	s.User().Create(aNode())

	var done []Object
	for range 3 {
		p := s.podOfKind("job-controller", "Workflow", "sum-"+string(rune('a'+len(done))))
		p = job.Edit(p, func(o Object) { o.SetFinalizers([]string{"batch.kubernetes.io/job-tracking"}) })
		done = append(done, s.User().Edit(s.User().Edit(p, s.run), succeed))
	}
	first := job.Edit(done[0], func(o Object) { o.SetFinalizers(nil) })
	job.Terminate(done[1])
	job.Release(s.Revisions[len(s.Revisions)-1].Object)
	gc.Delete(first) // its Workflow is gone
	gone := gc.Terminate(done[2])
	job.Release(gone)
	running := s.User().Edit(s.podOfKind("job-controller", "Workflow", "sum-x"), s.run)
	s.User().Delete(job.Terminate(running)) // the Workflow is suspended

	web := s.User().Edit(s.podOfKind("statefulset-controller", "CloneSet", "db-0"), s.run)
	s.User().Delete(s.Manager().Account("statefulset-controller").Terminate(web)) // an update
	web = s.User().Edit(s.podOfKind("statefulset-controller", "CloneSet", "db-0"), fail)
	s.Manager().Account("statefulset-controller").Delete(web)
	s.User().Edit(s.podOfKind("statefulset-controller", "CloneSet", "db-0"), s.run)
}

// TestOtherKinds: no oracle takes what other controllers of the same process do for a mistake, and S12 still knows one.
func TestOtherKinds(t *testing.T) {
	for _, o := range All() {
		t.Run(o.ID, func(t *testing.T) {
			s := newScene()
			otherKinds(s)
			s.Wait(time.Minute)
			for _, v := range judged(t, o, &s.History, Options{Settled: true, Unhindered: true}) {
				t.Error(v)
			}
		})
	}
	threshold := Options{TerminatedPodThreshold: 2}
	finished := func(s *scene) (pods []Object) {
		for _, name := range []string{"sum-a", "sum-b", "sum-c"} {
			pods = append(pods, s.User().Edit(s.podOfKind("job-controller", "Workflow", name), succeed))
		}
		return pods
	}
	run(t, PodGCFollowsItsRules(), []history{
		{name: "podgc deletes a Workflow's pod that no rule names", write: func(s *scene) {
			otherKinds(s)
			s.Podgc().Account("pod-garbage-collector").Delete(finished(s)[0])
		}, want: "no rule of podgc names it"},
		{name: "podgc deletes a CloneSet's pod that runs", write: func(s *scene) {
			otherKinds(s)
			s.Wait(time.Minute)
			s.Podgc().Account("pod-garbage-collector").Delete(s.Revisions[len(s.Revisions)-1].Object)
		}, want: "no rule of podgc names it"},
		{name: "more finished pods of a Workflow than allowed", write: func(s *scene) {
			s.Podgc().Delete(finished(s)[0])
		}, options: threshold},
		{name: "more finished pods of a Workflow than allowed, of which another controller removes one as well", write: func(s *scene) {
			pods := finished(s)
			s.Manager().Account("generic-garbage-collector").Delete(pods[1])
			s.Podgc().Delete(pods[0])
		}, options: threshold},
		{name: "as many as allowed, since another controller removed one long ago", write: func(s *scene) {
			pods := finished(s)
			s.Manager().Account("generic-garbage-collector").Delete(pods[1])
			s.Wait(time.Minute)
			s.Podgc().Delete(pods[0])
		}, options: threshold, want: "2 terminated pods"},
	})
}

// TestDeletionsAreNotExcusedByOtherKinds: that other controllers may delete pods does not hide a ReplicaSet's mistake.
func TestDeletionsAreNotExcusedByOtherKinds(t *testing.T) {
	s := newScene()
	set := s.User().Create(aSet(nil, "a", 2))
	pods := s.pods(set, 2)
	otherKinds(s)
	s.Manager().Account("replicaset-controller").Terminate(pods[0])
	if found := judged(t, NoDeletionOfNeededPods(), &s.History, Options{}); len(found) != 1 {
		t.Errorf("S2 sees %v", found)
	}
}
