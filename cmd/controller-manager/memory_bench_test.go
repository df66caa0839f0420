package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

const (
	cacheServer = "CACHE_SERVER" // for the child process: the address of the API server
	changes     = 20000
)

func TestMain(m *testing.M) {
	if host := os.Getenv(cacheServer); host != "" {
		cachePods(host)
		return
	}
	os.Exit(m.Run())
}

// cachePods is what is measured: a process that caches the pods of a server, with the memory settings of the manager.
func cachePods(host string) {
	limitMemory(os.LookupEnv, os.DirFS("/"))
	go manageMemory(context.Background(), garbageTuner(os.LookupEnv), allocated, debug.FreeOSMemory)
	m, err := manager.New(&rest.Config{Host: host}, manager.Options{Controllers: controllers.Registry()})
	if err != nil {
		panic(err)
	}
	kept, err := m.Projection()
	if err != nil {
		panic(err)
	}
	client, err := listwatch.NewClient(&rest.Config{Host: host, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf}},
		kept.(*projection.Projection))
	if err != nil {
		panic(err)
	}
	f := informers.NewFactory(client, 0)
	if _, err := informers.Pods(f); err != nil {
		panic(err)
	}
	f.StartWithContext(context.Background())
	select {}
}

// BenchmarkMemory measures a process that lists pods and is then told of 20,000 changes to them, at 2000 a second. GOGC in
// the environment sets a fixed GOGC:
//
//	GOGC=30 go test ./cmd/controller-manager -run '^$' -bench Memory -benchtime 1x
func BenchmarkMemory(b *testing.B) {
	for _, pods := range []int{200, 20000} {
		b.Run(fmt.Sprint(pods, "-pods"), func(b *testing.B) {
			for b.Loop() {
				measureMemory(b, pods)
			}
		})
	}
}

func measureMemory(b *testing.B, pods int) {
	watched := make(chan http.ResponseWriter)
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
		switch {
		case q.Get("sendInitialEvents") == "true":
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write(encode(b, &metav1.Status{Status: "Failure", Reason: metav1.StatusReasonInvalid, Code: 422}))
		case q.Get("watch") != "":
			w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
			w.(http.Flusher).Flush()
			watched <- w
			<-done
		default:
			list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
			for i := range pods {
				list.Items = append(list.Items, *largePod(i, 1))
			}
			_, _ = w.Write(encode(b, list))
		}
	}))
	defer server.Close()
	defer close(done)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), cacheServer+"="+server.URL)
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()

	w := <-watched
	start := untilIdle(b, child.Process.Pid)
	b.ReportMetric(start.Seconds(), "list-cpu-s")
	for i := range changes {
		event := metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: encode(b, largePod(i%pods, i+2))}}
		data, err := event.Marshal()
		if err != nil {
			b.Fatal(err)
		}
		_, _ = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...))
		if i%100 == 99 {
			w.(http.Flusher).Flush()
			time.Sleep(50 * time.Millisecond)
		}
	}
	b.ReportMetric((untilIdle(b, child.Process.Pid) - start).Seconds(), "changes-cpu-s")
	time.Sleep(3 * memoryPeriod) // until memory has been returned
	b.ReportMetric(resident(b, child.Process.Pid, "VmRSS"), "rest-MB")
	b.ReportMetric(resident(b, child.Process.Pid, "VmHWM"), "peak-MB")
	b.ReportMetric(cpu(b, child.Process.Pid).Seconds(), "all-cpu-s")
}

// untilIdle waits until the process hardly uses the CPU any more, and returns how much it has used.
func untilIdle(b *testing.B, pid int) time.Duration {
	for before := time.Duration(-1); ; {
		now := cpu(b, pid)
		if now-before < 20*time.Millisecond && now > 0 {
			return now
		}
		before = now
		time.Sleep(2 * time.Second)
	}
}

// cpu is the user and system time of a process.
func cpu(b *testing.B, pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		b.Fatal(err1, err2)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// resident is a line of the process's memory account, in megabytes.
func resident(b *testing.B, pid int, name string) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				b.Fatal(err)
			}
			return float64(kilobytes) * 1024 / 1e6
		}
	}
	b.Fatalf("no %s", name)
	return 0
}

func encode(b *testing.B, o runtime.Object) []byte {
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		b.Fatal(err)
	}
	o.GetObjectKind().SetGroupVersionKind(kinds[0])
	var data bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(o, &data); err != nil {
		b.Fatal(err)
	}
	return data.Bytes()
}

// largePod is a pod of about 9 KB, one of 20 of a ReplicaSet.
func largePod(i, version int) *corev1.Pod {
	set := metav1.ObjectMeta{Name: fmt.Sprintf("web-%06d", i/20), UID: types.UID(fmt.Sprintf("set-%032d", i/20))}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("%s-%05d", set.Name, i), Namespace: "shop", UID: types.UID(fmt.Sprintf("%036d", i)),
		ResourceVersion:   strconv.Itoa(version),
		CreationTimestamp: metav1.Unix(1700000000, 0), Labels: map[string]string{"app": set.Name, "pod-template-hash": "6d4b9"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", Operation: "Update", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`"` + strings.Repeat("x", 2700) + `"`)}},
	}}
	p.Spec.NodeName = fmt.Sprint("node-", i%200)
	c := corev1.Container{Name: "web", Image: "registry.example.com/web:1",
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}
	for j := range 80 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("SETTING_NUMBER_", j), Value: strings.Repeat("v", 40)})
	}
	p.Spec.Containers = []corev1.Container{c}
	p.Status.Phase, p.Status.PodIP = corev1.PodRunning, fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
	for _, kind := range []corev1.PodConditionType{"Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		p.Status.Conditions = append(p.Status.Conditions,
			corev1.PodCondition{Type: kind, Status: "True", LastTransitionTime: metav1.Unix(1700000000, 0)})
	}
	return p
}
