package legacyserviceaccounttokencleaner

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var now = time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)

const period = 30 * 24 * time.Hour // so that labels before 2026-05-16 are old

type edit = func(*corev1.Secret)

// secret is a token of the ServiceAccount builder, three months old and never used.
func secret(edits ...edit) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "builder-token", UID: "s1", ResourceVersion: "5",
			CreationTimestamp: metav1.NewTime(now.Add(-90 * 24 * time.Hour)), Labels: map[string]string{"app": "x"},
			Annotations: map[string]string{corev1.ServiceAccountNameKey: "builder", corev1.ServiceAccountUIDKey: "a1"}},
		Type: corev1.SecretTypeServiceAccountToken,
	}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func used(day string) edit   { return func(s *corev1.Secret) { s.Labels[lastUsedLabel] = day } }
func marked(day string) edit { return func(s *corev1.Secret) { s.Labels[invalidLabel] = day } }
func named(name string) edit {
	return func(s *corev1.Secret) { s.Name, s.UID = name, types.UID(name) }
}
func aged(d time.Duration) edit {
	return func(s *corev1.Secret) { s.CreationTimestamp = metav1.NewTime(now.Add(-d)) }
}
func leaving(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: now} }

// done says what a plan does: "mark NAME DAY" and "delete NAME".
func done(p plan.Plan) (all []string) {
	if p.Empty() {
		return nil
	}
	for _, sequence := range p.Steps[0].(plan.Each).Sequences {
		switch step := sequence[0].(type) {
		case plan.Change:
			all = append(all, fmt.Sprint("mark ", step.New.GetName(), " ", step.New.GetLabels()[invalidLabel]))
		case plan.Delete:
			if !step.CheckVersion {
				all = append(all, "without its version")
			}
			all = append(all, "delete "+step.Objects[0].GetName())
		}
	}
	return all
}

// A row is a sentence.
func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name   string
		since  string
		secret *corev1.Secret
		want   string
	}{
		{"LTC-8 a token that is not used is marked", "2026-01-01", secret(), "mark builder-token 2026-06-15"},
		{"LTC-8 a mark that is no date is replaced", "2026-01-01", secret(marked("yes")), "mark builder-token 2026-06-15"},
		{"LTC-9 a token that was marked long ago is deleted", "2026-01-01", secret(marked("2026-05-15")), "delete builder-token"},
		{"LTC-9 a token that was marked a period ago stays", "2026-01-01", secret(marked("2026-05-16")), ""},
		{"LTC-3 tracked for a period, to the day", "2026-05-15", secret(), "mark builder-token 2026-06-15"},
		{"LTC-3 not tracked for long enough", "2026-05-16", secret(), ""},
		{"LTC-3 not tracked", "", secret(), ""},
		{"LTC-3 tracked since no date", "yesterday", secret(marked("2025-01-01")), ""},
		{"LTC-7 a pod refers to it", "2026-01-01", secret(named("mounted"), marked("2025-01-01")), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := snapshot{Period: period, Since: c.since, Secrets: []*corev1.Secret{c.secret},
				Used: map[string][]string{"shop": {"mounted"}, "bank": {"builder-token"}}}
			before := c.secret.DeepCopy()
			p := planTokens(now, s)
			if got := strings.Join(done(p), ", "); got != c.want {
				t.Errorf("%s: %q, want %q", p.Why, got, c.want)
			}
			if p.Requeue != 24*time.Hour { // LTC-2
				t.Errorf("the next cycle is after %v", p.Requeue)
			}
			if diff := cmp.Diff(before, c.secret); diff != "" {
				t.Errorf("the plan changes what was observed: %s", diff)
			}
		})
	}
}

func TestUnused(t *testing.T) {
	for _, c := range []struct {
		name   string
		secret *corev1.Secret
		want   bool
	}{
		{"LTC-5 never used", secret(), true},
		{"LTC-5 used long ago", secret(used("2026-05-15")), true},
		{"LTC-5 used a period ago", secret(used("2026-05-16")), false},
		{"LTC-5 used today", secret(used("2026-06-15")), false},
		{"LTC-5 used at no date", secret(used("x")), false},
		{"LTC-5 used at an empty date", secret(used("")), false},
		{"LTC-4 younger than the period", secret(aged(period - time.Second)), false},
		{"LTC-4 as old as the period", secret(aged(period)), false},
		{"LTC-4 older than the period", secret(aged(period + time.Second)), true},
		{"LTC-4 it is being deleted", secret(leaving), false},
	} {
		if got := unused(now, c.secret, period); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func account(name, uid string, secrets ...string) corev1.ServiceAccount {
	a := corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(uid)}}
	for _, s := range secrets {
		a.Secrets = append(a.Secrets, corev1.ObjectReference{Name: s})
	}
	return a
}

func TestMadeAutomatically(t *testing.T) {
	noUID := func(s *corev1.Secret) { delete(s.Annotations, corev1.ServiceAccountUIDKey) }
	for _, c := range []struct {
		name     string
		secret   *corev1.Secret
		accounts []corev1.ServiceAccount
		want     bool
	}{
		{"LTC-6 the ServiceAccount lists it", secret(),
			[]corev1.ServiceAccount{account("x", "x"), account("builder", "a1", "other", "builder-token")}, true},
		{"LTC-6 without uid", secret(noUID), []corev1.ServiceAccount{account("builder", "a2", "builder-token")}, true},
		{"LTC-6 a token that a user has made", secret(), []corev1.ServiceAccount{account("builder", "a1", "other")}, false},
		{"LTC-6 another ServiceAccount of the name", secret(), []corev1.ServiceAccount{account("builder", "a2", "builder-token")}, false},
		{"LTC-6 only another ServiceAccount lists it", secret(),
			[]corev1.ServiceAccount{account("builder", "a1"), account("x", "a1", "builder-token")}, false},
		{"LTC-6 no ServiceAccount", secret(), nil, false},
	} {
		if got := madeAutomatically(c.secret, c.accounts); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// TestLTC7References: each way in which a pod can refer to a Secret.
func TestLTC7References(t *testing.T) {
	local := func(name string) *corev1.LocalObjectReference { return &corev1.LocalObjectReference{Name: name} }
	env := func(name string) []corev1.EnvVar {
		return []corev1.EnvVar{{Name: "plain", Value: "x"},
			{ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: *local(name)}}}}
	}
	from := func(name string) []corev1.EnvFromSource {
		return []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: *local(name)}}}
	}
	var volumes []corev1.Volume
	for _, source := range []corev1.VolumeSource{
		{Secret: &corev1.SecretVolumeSource{SecretName: "secret"}},
		{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{},
			{Secret: &corev1.SecretProjection{LocalObjectReference: *local("projected")}}}}},
		{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "azure"}},
		{CephFS: &corev1.CephFSVolumeSource{SecretRef: local("ceph")}},
		{Cinder: &corev1.CinderVolumeSource{SecretRef: local("cinder")}},
		{FlexVolume: &corev1.FlexVolumeSource{SecretRef: local("flex")}},
		{ISCSI: &corev1.ISCSIVolumeSource{SecretRef: local("iscsi")}},
		{RBD: &corev1.RBDVolumeSource{SecretRef: local("rbd")}},
		{ScaleIO: &corev1.ScaleIOVolumeSource{SecretRef: local("scaleio")}},
		{StorageOS: &corev1.StorageOSVolumeSource{SecretRef: local("storageos")}},
		{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: local("csi")}},
		{CephFS: &corev1.CephFSVolumeSource{}}, {EmptyDir: &corev1.EmptyDirVolumeSource{}}, {},
	} {
		volumes = append(volumes, corev1.Volume{VolumeSource: source})
	}
	p := &corev1.Pod{Spec: corev1.PodSpec{
		ImagePullSecrets: []corev1.LocalObjectReference{*local("pull")},
		Containers:       []corev1.Container{{Env: env("env"), EnvFrom: from("from")}},
		InitContainers:   []corev1.Container{{Env: env("init-env"), EnvFrom: from("init-from")}},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: env(
			"ephemeral-env"), EnvFrom: from("ephemeral-from")}}},
		Volumes: volumes,
	}}
	want := strings.Fields(
		"azure ceph cinder csi env ephemeral-env ephemeral-from flex from init-env init-from iscsi projected pull rbd scaleio secret " +
			"storageos")
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(secretsOf(p)))); diff != "" {
		t.Error(diff)
	}
}

// draw is any snapshot. All pods refer to the Secret 0.
func draw(t *rapid.T) snapshot {
	fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
	s := snapshot{Period: period, Since: rapid.SampledFrom([]string{"", "2026-01-01", "2026-06-01", "x"}).Draw(t, "since"),
		Used: map[string][]string{"shop": {"0"}}}
	for i := range rapid.IntRange(0, 4).Draw(t, "secrets") {
		one := &corev1.Secret{}
		fill(one)
		one.Namespace, one.Name, one.Data = "shop", fmt.Sprint(i), nil
		if rapid.Bool().Draw(t, "marked") {
			one.Labels = map[string]string{invalidLabel: rapid.SampledFrom([]string{"2026-06-14", "2025-06-14", "odd", ""}).Draw(t, "mark")}
		}
		s.Secrets = append(s.Secrets, one)
		pod := &corev1.Pod{}
		fill(pod)
		s.Used["shop"] = append(s.Used["shop"], secretsOf(pod)...)
	}
	return s
}

// Whatever the objects are, planning does not panic or change them, and the next cycle comes.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		before := plantest.Copies(s.Secrets)
		p := planTokens(now, s)
		if diff := cmp.Diff(before, s.Secrets, cmpopts.EquateEmpty()); diff != "" || p.Requeue != cycle || p.Why == "" {
			t.Errorf("%q, again in %v, changed: %s", p.Why, p.Requeue, diff)
		}
	})
}

// LTC-3, LTC-7, LTC-9: nothing is done before usage was tracked, nothing that a pod refers to is touched, and nothing is deleted that
// was not marked.
func TestRetiresOnlyWhatNobodyUses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		for _, what := range done(planTokens(now, s)) {
			i := slices.IndexFunc(s.Secrets, func(one *corev1.Secret) bool { return one.Name == strings.Fields(what)[1] })
			if s.Since != "2026-01-01" || i == 0 || strings.HasPrefix(what, "delete") && s.Secrets[i].Labels[invalidLabel] != "2025-06-14" {
				t.Errorf("%s: tracked since %s, marked %s", what, s.Since, s.Secrets[i].Labels[invalidLabel])
			}
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		plantest.Same(t, planTokens(now, s), planTokens(now, plantest.Restored(t, s)))
	})
}

// BenchmarkPlan plans for so many tokens, none of which is due.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		s := snapshot{Period: period, Since: "2026-01-01"}
		for i := range n {
			s.Secrets = append(s.Secrets, secret(named(fmt.Sprint(i)), marked("2026-06-01")))
		}
		b.Run(fmt.Sprintf("%d-tokens", n), func(b *testing.B) {
			for b.Loop() {
				if p := planTokens(now, s); !p.Empty() {
					b.Fatal(p.Why)
				}
			}
		})
	}
}
