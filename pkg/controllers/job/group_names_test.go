package job

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// The names are those of the library that the original uses from 1.38 on, so that each manager finds what the other has made.
func TestJOB131GroupNames(t *testing.T) {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job", UID: "uid-1"}}
	for got, want := range map[string]string{
		workloadName(j): "job-647cf7d9",
		templateName(j): "job-pgt-0",
		podGroupName("uid-1", "workload", "template"): "workload-template-57db668b94",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A template may have no dots in its name, but a Job may.
func TestTemplatesHaveNoDots(t *testing.T) {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "backup-1.2.3"}}
	if got, want := templateName(j), "backup-1-2-3-pgt-0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Names are no longer than the server takes, long ones keep a part of each of their parts, and no two Jobs have the same.
func TestJOB131LongGroupNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func(of string) string { return strings.Repeat(of, rapid.IntRange(1, 253).Draw(t, of)) }
		workload, template := text("w"), text("t")
		name := podGroupName("a", workload, template)
		if len(name) > longestName || !strings.HasPrefix(name, workload[:min(len(workload), 100)]) ||
			!strings.Contains(name, "-"+template[:min(len(template), 100)]) {
			t.Fatalf("%d characters: %s", len(name), name)
		}
		if len(workload)+len(template) > 250 && len(name) != longestName {
			t.Fatalf("the room is not used: %d characters", len(name))
		}
		if name == podGroupName("b", workload, template) || name == podGroupName("a", workload, template+"t") {
			t.Fatal("two have one name")
		}
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: text("j"), UID: types.UID(text("u"))}}
		if n := workloadName(j); len(n) > longestName || !strings.HasPrefix(n, j.Name[:min(len(j.Name), 200)]) {
			t.Fatalf("%d characters: %s", len(n), n)
		}
		if n := templateName(j); len(n) > 63 || !strings.HasSuffix(n, "-pgt-0") {
			t.Fatalf("%d characters: %s", len(n), n)
		}
	})
}
