package oracle

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
)

func TestHistoryIsKept(t *testing.T) { // S9
	// past is a Deployment that keeps one old set, and has as many as asked for; they are empty.
	past := func(s *scene, n int) (d Object, old []Object) {
		d = s.User().Create(aDeployment(0))
		for i := range n {
			set := s.Manager().Create(aSet(d, fmt.Sprintf("old%d", i), 0))
			old = append(old, s.Manager().Edit(set, status(0, 0, 0)))
		}
		set := s.Manager().Create(aSet(d, "a", 0))
		s.Manager().Edit(set, status(0, 0, 0))
		return s.Manager().Edit(d, status(0, 0, 0)), old
	}
	run(t, HistoryIsKept(), []history{
		{name: "a set's revision goes down", write: func(s *scene) {
			_, old := past(s, 1)
			set := s.Manager().Edit(old[0], annotate(revisionAnnotation, "7"))
			s.Manager().Edit(set, annotate(revisionAnnotation, "3"))
		}, want: `from 7 to "3"`},
		{name: "a Deployment's revision goes down", write: func(s *scene) {
			d, _ := past(s, 1)
			d = s.Manager().Edit(d, annotate(revisionAnnotation, "7"))
			s.Manager().Edit(d, annotate(revisionAnnotation, "3"))
		}, want: `from 7 to "3"`},
		{name: "a Deployment's revision goes down when the newest set was deleted, a set's when a user does it", write: func(s *scene) {
			d, old := past(s, 1)
			d = s.Manager().Edit(d, annotate(revisionAnnotation, "7"))
			s.User().Edit(old[0], annotate(revisionAnnotation, "0"))
			s.User().Delete(s.Revisions[3].Object)
			s.Manager().Edit(d, annotate(revisionAnnotation, "3"))
		}},
		{name: "a Deployment's revision goes down when a user has orphaned and deleted the newest set", write: func(s *scene) {
			d, _ := past(s, 1)
			d = s.Manager().Edit(d, annotate(revisionAnnotation, "7"))
			set := s.User().Edit(s.Revisions[3].Object, orphaned)
			s.User().Delete(set)
			s.Manager().Edit(d, annotate(revisionAnnotation, "3"))
		}},
		{name: "a Deployment's revision goes down when it was right again since a user had a hand in it", write: func(s *scene) {
			d, old := past(s, 1)
			s.User().Edit(old[0], annotate(revisionAnnotation, "0"))
			s.Wait(time.Minute)
			d = s.Manager().Edit(d, annotate(revisionAnnotation, "1"))
			d = s.Manager().Edit(d, annotate(revisionAnnotation, "7"))
			s.Manager().Edit(d, annotate(revisionAnnotation, "3"))
		}, want: `from 7 to "3"`},
		{name: "a Deployment's revision goes down when it was right again a moment after a user had a hand in it", write: func(s *scene) {
			d, old := past(s, 1)
			d = s.Manager().Edit(d, annotate(revisionAnnotation, "7"))
			s.User().Edit(old[0], annotate(revisionAnnotation, "0"))
			d = s.Manager().Edit(d, annotate(revisionAnnotation, "1"))
			d = s.Manager().Edit(d, annotate(revisionAnnotation, "7"))
			s.Manager().Edit(d, annotate(revisionAnnotation, "3"))
		}},
		{name: "a set of a Deployment that is gone, as the garbage collector does", write: func(s *scene) {
			d, old := past(s, 1)
			s.User().Delete(d)
			s.Manager().Delete(old[0])
		}},
		{name: "a Deployment's revision begins anew when all ReplicaSets were old and have been removed", write: func(s *scene) {
			d, _ := past(s, 0)
			d = s.User().Edit(s.Manager().Edit(d, annotate(revisionAnnotation, "7")), image("z"))
			d = s.User().Edit(d, func(o Object) { o.(*appsv1.Deployment).Spec.RevisionHistoryLimit = ptr.To[int32](0) })
			s.Manager().Delete(s.Revisions[1].Object)
			s.Manager().Create(aSet(d, "z", 0))
			s.Manager().Edit(d, annotate(revisionAnnotation, "1"))
		}},
		{name: "history is cleaned up to the limit", write: func(s *scene) {
			_, old := past(s, 2)
			s.Manager().Delete(old[0])
		}},
		{name: "and no further", write: func(s *scene) {
			_, old := past(s, 2)
			s.Manager().Delete(old[0])
			s.Manager().Delete(old[1])
		}, want: "has 1 old ones, and keeps 1"},
		{name: "one that was too many for a template which a user has taken back a moment ago", write: func(s *scene) {
			d, old := past(s, 1)
			d = s.User().Edit(d, image("z"))
			s.User().Edit(d, image("a"))
			s.Manager().Delete(old[0])
		}},
		{name: "one that has pods", write: func(s *scene) {
			d, _ := past(s, 2)
			s.Manager().Delete(s.Manager().Create(aSet(d, "c", 1)))
		}, want: "while its size is 1"},
		{name: "the present one", write: func(s *scene) {
			past(s, 2)
			s.Manager().Delete(s.Revisions[6].Object)
		}, want: "it is the present one"},
		{name: "nobody's", write: func(s *scene) {
			s.Manager().Delete(s.User().Create(aSet(nil, "a", 0)))
		}, want: "no Deployment that exists owns it"},
		{name: "the end has too many", write: func(s *scene) { past(s, 2) }, options: Options{Settled: true},
			want: "2 old ReplicaSets, and keeps 1"},
		{name: "the end has as many as it may", write: func(s *scene) { past(s, 1) }, options: Options{Settled: true}},
		{name: "a user's deletion", write: func(s *scene) {
			_, old := past(s, 1)
			s.User().Delete(old[0])
		}},
	})
}

func TestStatusesAreConsistent(t *testing.T) { // S10
	run(t, StatusesAreConsistent(), []history{
		{name: "observedGeneration goes down", write: func(s *scene) {
			set := s.User().Edit(s.User().Create(aSet(nil, "a", 1)), size(2))
			set = s.Manager().Edit(set, observe)
			s.Manager().Edit(set, func(o Object) { o.(*appsv1.ReplicaSet).Status.ObservedGeneration = 1 })
		}, want: "went from 2 to 1"},
		{name: "ahead of the generation", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			s.Manager().Edit(d, func(o Object) { o.(*appsv1.Deployment).Status.ObservedGeneration = 2 })
		}, want: "observedGeneration 2 of generation 1"},
		{name: "more available than ready", write: func(s *scene) {
			s.Manager().Edit(s.User().Create(aSet(nil, "a", 1)), status(3, 1, 2))
		}, want: "1 are ready, 2 available"},
		{name: "more ready than replicas", write: func(s *scene) {
			s.Manager().Edit(s.User().Create(aDeployment(1)), status(1, 2, 1))
		}, want: "of 1 replicas 2 are ready"},
		{name: "as it should be, and nonsense by a user", write: func(s *scene) {
			set := s.Manager().Edit(s.User().Create(aSet(nil, "a", 3)), status(3, 2, 1))
			s.User().Edit(set, status(1, 2, 3))
		}},
	})
}
