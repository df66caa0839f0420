package library

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/cronjob"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/job"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
)

// A suite as of envtest, in which Deployments become available.
func TestDeploymentBecomesAvailable(t *testing.T) {
	plane := newControlPlane()
	t.Cleanup(plane.stop)

	managertest.Start(t, plane.config, controllers.Named("deployment", "replicaset")...)

	plane.createDeployment("web", 3)
	if n := plane.waitForDeployment("web", 3); n != 3 {
		t.Errorf("%d of 3 are available", n)
	}
}

// A CronJob, in virtual time: three hours take no time.
func TestCronJobInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := newControlPlane()
		t.Cleanup(plane.stop)
		managertest.Start(t, plane.config, cronjob.New(cronjob.Options{}), job.New(job.Options{}))

		hourly := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "report"}, Spec: batchv1.CronJobSpec{Schedule: "0 * * * *"}}
		hourly.Spec.ConcurrencyPolicy = batchv1.AllowConcurrent
		hourly.Spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "report", Image: "report:1"}},
		}
		if _, err := plane.client.BatchV1().CronJobs(metav1.NamespaceDefault).Create(t.Context(), hourly,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3*time.Hour + time.Minute)

		jobs, err := plane.client.BatchV1().Jobs(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(jobs.Items) != 3 {
			t.Errorf("%d Jobs, %v", len(jobs.Items), err)
		}
	})
}

// When a manager has ended, nothing of it is left.
func TestNothingIsLeft(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	plane := newControlPlane()
	stop := start(plane.config)
	plane.createDeployment("web", 1)
	plane.waitForDeployment("web", 1)
	stop()
	plane.stop()
	goleak.VerifyNone(t, leaks)
}

// What somebody else writes needs nothing of what may change at any time.
func TestAControllerOfOnesOwnUsesPublicPackages(t *testing.T) {
	for _, file := range []string{"website/controller.go", "tenants/controller.go"} {
		text := read(t, file)
		if strings.Contains(text, "/internal/") || !strings.Contains(text, "controller-manager/pkg/manager") {
			t.Errorf("%s imports internal packages", file)
		}
		if lines := strings.Count(text, "\n"); lines > 130 {
			t.Errorf("%s has become long: %d lines", file, lines)
		}
	}
}

// Each piece of Go in the guide is part of a file that is compiled.
func TestTheGuide(t *testing.T) {
	var code strings.Builder
	for _, pattern := range []string{"*.go", "website/*.go", "tenants/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			code.WriteString(read(t, file))
		}
	}
	pieces := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, "../../docs/library.md"), -1)
	if len(pieces) < 4 {
		t.Errorf("only %d pieces of code", len(pieces))
	}
	for _, piece := range pieces {
		if !strings.Contains(plain(code.String()), plain(piece[1])) {
			t.Errorf("this is not in test/library:\n%s", piece[1])
		}
	}
}

// plain is text without indentation.
func plain(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// BenchmarkStartToAvailable is the time from manager.New until a Deployment of three pods is available, with kubelets that run pods at
// once.
func BenchmarkStartToAvailable(b *testing.B) {
	for b.Loop() {
		plane := newControlPlane()
		stop := start(plane.config)
		plane.createDeployment("web", 3)
		if n := plane.waitForDeployment("web", 3); n != 3 {
			b.Fatalf("%d of 3 are available", n)
		}
		stop()
		plane.stop()
	}
}
