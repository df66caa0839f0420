package oracle

import (
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
)

// NoWriteWithoutLease is S13: every write of a manager falls into a time, by versions, in which the lease names that manager's process
// (LE-14, LE-16). Leases don't fence, so a manager must ask its clock before each write; one that is stopped between the two can still fail
// this. Nor may the holder write when the lease has expired that it has not renewed, though nobody else has taken it. Who a holder is, is
// learnt from the request that wrote its name into the lease; see Options.Identity. Without a lease in the history, or without requests, it
// is silent.
func NoWriteWithoutLease() Oracle {
	return Oracle{"S13", "one writer: the holder of the lease", func(j *judge) hooks {
		elected := false
		for _, r := range j.revisions {
			elected = elected || r.kind == Lease && r.key == j.o.Lease
		}
		t := tenure{}
		return hooks{after: func(r *revision) {
			if r.kind == Lease && r.key == j.o.Lease {
				old, _ := r.old.(*coordinationv1.Lease)
				t.change(r, holderOf(old), j.lease)
				return
			}
			if !elected || !r.manager {
				return
			}
			excused := r.by == nil || !t.known && t.since > 0
			if j.judges(excused); excused {
				return
			}
			late := r.by.Received.Sub(t.expires)
			switch {
			case r.author != t.holder:
				j.report(r, []string{Lease + "/" + j.o.Lease}, "written by %q, while the lease is held by %q since version %d", r.author,
					t.holder, t.since)
			case !t.expires.IsZero() && late > j.o.Slack && !j.outages.of(r.author, resources[r.kind]).contain(r.by.Received):
				j.report(r, []string{Lease + "/" + j.o.Lease}, "written by %q, whose lease had expired %v before", r.author,
					late.Round(time.Millisecond))
			}
		}}
	}}
}

// tenure is who holds the lease.
type tenure struct {
	holder  string // the process; empty for nobody
	known   bool
	since   int64
	expires time.Time // zero if that is not known
}

// change notes a revision of the lease.
func (t *tenure) change(r *revision, was string, lease *coordinationv1.Lease) {
	is := holderOf(lease)
	t.expires = time.Time{}
	if is == "" {
		t.holder, t.known, t.since = "", true, r.Version
		return
	}
	if is != was || !t.known {
		t.holder, t.known, t.since = "", false, r.Version
		if r.by != nil && r.by.manager {
			t.holder, t.known = r.author, true
		}
	}
	if lasts := ptr.Deref(lease.Spec.LeaseDurationSeconds, 0); lasts > 0 && !r.When.IsZero() {
		t.expires = r.When.Add(time.Duration(lasts) * time.Second)
	}
}

// vacancies are the times in which nobody held the lease: from the last renewal of a holder to the first of another one, or of the
// same one after half the lease's time, when it may have lost it. That nobody holds it for too long is L5.
func (l *linked) vacancies(name string) (all []Outage) {
	held, holder := time.Time{}, ""
	for _, r := range l.revisions {
		lease, ok := r.Object.(*coordinationv1.Lease)
		if !ok || r.key != name || r.When.IsZero() || holderOf(lease) == "" {
			continue
		}
		lasts := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
		if !held.IsZero() && (holderOf(lease) != holder || r.When.Sub(held) > lasts/2) {
			all = append(all, Outage{Interval: Interval{held, r.When}, Resource: resources[Lease]})
		}
		held, holder = r.When, holderOf(lease)
	}
	return all
}

func holderOf(l *coordinationv1.Lease) string {
	if l == nil {
		return ""
	}
	return ptr.Deref(l.Spec.HolderIdentity, "")
}

// ByCredential identifies managers by what they log in with: the certificate or token, and for the tokens of service
// accounts, that of the request that made the token. It needs an audit log that has the requests for tokens.
func ByCredential(h *History) func(Request) string {
	issuer := map[string]string{}
	for _, r := range h.Requests {
		if r.Issued != "" {
			issuer[r.Issued] = r.Credential
		}
	}
	return func(r Request) string {
		who := r.Credential
		for range len(issuer) {
			next, ok := issuer[who]
			if !ok || strings.EqualFold(next, who) {
				break
			}
			who = next
		}
		return who
	}
}

// Takeover is how long after a moment, such as the death of the leader, the lease first had another holder (L5). It is false
// if it never had.
func Takeover(h *History, o Options, after time.Time) (time.Duration, bool) {
	o = o.withDefaults()
	before := ""
	for _, r := range link(h, &o).revisions {
		l, ok := r.Object.(*coordinationv1.Lease)
		if !ok || r.key != o.Lease {
			continue
		}
		switch {
		case r.When.Before(after):
			before = holderOf(l)
		case holderOf(l) != "" && holderOf(l) != before:
			return r.When.Sub(after), true
		}
	}
	return 0, false
}

// Recovery is how long after the end of an outage the managers still wrote (L4). In a history that ends settled, see L1, it is
// the time that recovery took.
func Recovery(h *History, o Options, after time.Time) time.Duration {
	took := time.Duration(0)
	for _, d := range Recoveries(h, o, after) {
		took = max(took, d)
	}
	return took
}

// Recoveries is the same for each kind of which the managers still wrote objects.
func Recoveries(h *History, o Options, after time.Time) map[string]time.Duration {
	o = o.withDefaults()
	took := map[string]time.Duration{}
	for _, r := range link(h, &o).revisions {
		if r.manager && r.kind != Lease && r.When.After(after) {
			took[r.kind] = r.When.Sub(after)
		}
	}
	return took
}
