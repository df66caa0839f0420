package tokencleaner

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/standalone-kcm/controller-manager/internal/credentials/bootstraptoken"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
)

// run runs the controller in virtual time, which begins at epoch, while a test works. It returns the log.
func run(t *testing.T, before func(clienttest.Write) error, test func(s *clienttest.Server, put func(*corev1.Secret))) (log string) {
	begin := epoch.Add(-10 * time.Minute) // the test begins when the controller has nothing left to do
	return managertest.InVirtualTime(t, begin, func(t *testing.T, server *clienttest.Server) {
		entry := New(Options{})
		server.BeforeWrite(before)
		c := managertest.Context(t, server, entry, managertest.Cache{Example: &corev1.Secret{}, Selector: bootstraptoken.Selector()})
		managertest.Run(t, c, entry, func() { test(server, managertest.Putter[*corev1.Secret](t, server)) })
	})
}

func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// One request deletes a token right after it has expired, with its uid as a precondition.
func TestDeletionFollowsExpiry(t *testing.T) { // BOOT-24, BOOT-25
	log := run(t, nil, func(s *clienttest.Server, put func(*corev1.Secret)) {
		put(token(name, at(100*time.Minute)))
		put(token("bootstrap-token-always", ""))
		wait(100*time.Minute - time.Second)
		if log := s.Log(); len(log) > 0 {
			t.Errorf("too early: %v", log)
		}
		wait(2 * time.Second)
		writes := s.Writes()
		if len(writes) != 1 || writes[0].String() != "delete Secret "+name {
			t.Fatal(s.Log())
		}
		o := writes[0].DeleteOptions
		if *o.Preconditions.UID != "uid-"+name || o.Preconditions.ResourceVersion == nil {
			t.Errorf("%+v", o.Preconditions)
		}
	})
	if strings.Contains(log, "Deleted") {
		t.Error(log)
	}
}

// A token whose expiration is changed while it waits is treated by what it is now (BOOT-26).
func TestChangesWhileWaiting(t *testing.T) {
	for _, c := range []struct {
		name, expiration string
		deleted          time.Duration // after epoch; zero for never
	}{
		{"prolonged", at(20 * time.Minute), 20 * time.Minute},
		{"shortened", at(7 * time.Minute), 7 * time.Minute},
		{"over at once", at(0), 5 * time.Minute},
		{"taken away", "", 0},
	} {
		run(t, nil, func(s *clienttest.Server, put func(*corev1.Secret)) {
			put(token(name, at(10*time.Minute)))
			wait(5 * time.Minute)
			put(token(name, c.expiration))
			var deleted time.Duration
			for deleted == 0 && time.Since(epoch) < time.Hour {
				if s.CountWrites("delete") > 0 {
					deleted = time.Since(epoch)
				}
				wait(time.Second)
			}
			if late := deleted - c.deleted; late < 0 || late > 2*time.Second {
				t.Errorf("%s: deleted after %v, want %v", c.name, deleted, c.deleted)
			}
		})
	}
}

// A token that was prolonged, of which the cache does not know yet, is not deleted.
func TestStaleCache(t *testing.T) { // BOOT-24
	run(t, nil, func(s *clienttest.Server, put func(*corev1.Secret)) {
		put(token(name, at(time.Minute)))
		s.FreezeWatches(client.KindFor[*corev1.Secret]())
		put(token(name, at(time.Hour)))
		wait(2 * time.Minute)
		s.ResumeWatches(client.KindFor[*corev1.Secret]())
		wait(10 * time.Minute)
		if len(s.Names(client.KindFor[*corev1.Secret]())) != 1 || s.CountWrites("refused delete") != 1 {
			t.Error(s.Log())
		}
		wait(time.Hour)
		if len(s.Names(client.KindFor[*corev1.Secret]())) != 0 {
			t.Error("it stays")
		}
	})
}

// A token whose deletion fails is deleted later.
func TestFailuresAreRetried(t *testing.T) { // BOOT-24, BOOT-30
	run(t, clienttest.RefuseFirst(12, apierrors.NewInternalError(errors.New("no"))), func(s *clienttest.Server, put func(*corev1.Secret)) {
		put(token(name, at(0)))
		wait(20 * time.Minute)
		if len(s.Names(client.KindFor[*corev1.Secret]())) != 0 {
			t.Error("given up")
		}
	})
}

// A token whose expiration is no time goes, and a line of the log says why. The line does not say what the Secret holds (BOOT-31).
// Others are not harmed.
func TestAnUnreadableExpirationIsLogged(t *testing.T) {
	log := run(t, nil, func(s *clienttest.Server, put func(*corev1.Secret)) {
		put(token(name, "0123456789abcdef"))
		put(token("bootstrap-token-later0", at(time.Minute)))
		put(token("bootstrap-token-always", ""))
		wait(2 * time.Minute)
		if names := s.Names(client.KindFor[*corev1.Secret]()); len(names) != 1 {
			t.Error(names)
		}
	})
	if strings.Count(log, "Deleted a bootstrap token") != 1 || !strings.Contains(log, `"name"="`+name+`"`) ||
		strings.Contains(log, "0123456789abcdef") {
		t.Error(log)
	}
}
