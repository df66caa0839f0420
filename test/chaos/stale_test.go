package chaos

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/test/chaos/proxy"
	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// second is another API server of the same control plane. Its way to etcd can be cut off.
type second struct {
	server string // its address
	etcd   *proxy.Link
}

// startSecond starts another API server beside the first, with the same flags.
func startSecond(t *testing.T, c *cluster.Cluster) *second {
	t.Helper()
	flags := flagsOf(t, c, "kube-apiserver")
	link, err := proxy.NewLink(strings.TrimPrefix(flags["--etcd-servers"], "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	})
	port := freePort(t)
	flags["--etcd-servers"] = "http://" + link.Address()
	flags["--secure-port"] = port
	flags["--audit-log-path"] += ".second"
	var args []string
	for name, value := range flags {
		args = append(args, name+"="+value)
	}

	// By a name of its own, in the control plane's folder: so it ends with the control plane, and not with the first.
	binary := filepath.Join(c.Dir, "bin", "second-kube-apiserver")
	if err := os.Symlink(filepath.Join(c.Dir, "bin", "kube-apiserver"), binary); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has nothing to lose
		_ = cmd.Wait()
		if text := log.String(); t.Failed() {
			t.Logf("the second API server's log ends with\n%s", text[max(0, len(text)-4000):])
		}
	})
	s := &second{server: "https://127.0.0.1:" + port, etcd: link}
	config := rest.CopyConfig(c.RESTConfig)
	config.Host = s.server
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, 2*time.Minute, "the second API server is ready", func() error {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(t.Context()).Error()
	})
	return s
}

// flagsOf are the flags of one of the control plane's running programs.
func flagsOf(t *testing.T, c *cluster.Cluster, program string) map[string]string {
	t.Helper()
	pid := processOf(t, c, program)
	data, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string]string{}
	for _, arg := range strings.Split(string(data), "\x00")[1:] {
		if name, value, ok := strings.Cut(arg, "="); ok {
			flags[name] = value
		}
	}
	return flags
}

// processOf is the id of one of the control plane's running programs.
func processOf(t *testing.T, c *cluster.Cluster, program string) string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file) // an error means that it has just ended
		if err == nil && strings.HasPrefix(string(data), filepath.Join(c.Dir, "bin", program)+"\x00") {
			return filepath.Base(filepath.Dir(file))
		}
	}
	if runtime.GOOS != "linux" {
		t.Skipf("%s cannot be found without /proc", program)
	}
	t.Fatalf("%s does not run", program)
	return ""
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Of two API servers, one is cut off from etcd and shows the past. The manager that is sent to it, all of it or only with
// its lists and watches, must break no rule, and finish its work when the server has caught up (k/k#59848).
func TestStaleAPIServer(t *testing.T) {
	c := cluster.Start(t)
	tally := newTally(t, "an API server that shows the past", 4, "S1", "S3", "S4", "S5", "S10", "L1", "L3")
	stale := startSecond(t, c)
	const caches = "list,watch * agent=shared-informers : upstream second"
	for i, way := range []struct {
		name    string
		begin   func(*run) // the second server has just been cut off; a rollout is under way
		restart bool       // the manager is killed when it is at the second server
	}{
		{"caches fail over and the manager is restarted", func(r *run) { r.script(caches); r.proxy.CutAll() }, true},
		{"caches fail over", func(r *run) { r.script(caches); r.proxy.CutAll() }, false},
		{"fails over", func(r *run) { r.switchTo("second") }, false},
		{"fails over and is restarted", func(r *run) { r.switchTo("second") }, true},
	} {
		if i > 0 && !full {
			break // the first is the hardest: what it reads live is new, and what it watches is old
		}
		t.Run(way.name, func(t *testing.T) {
			r := newRun(t, c, tally, "", podgcThreshold)
			t.Cleanup(func() { r.replayBy("CHAOS_FULL=1 ") })
			r.mayEnd = true // if it starts at a server that is not healthy
			if err := r.proxy.AddUpstream("second", stale.server); err != nil {
				t.Fatal(err)
			}
			r.start()
			r.user().Expose("web")
			r.user().Create(suite.Deployment("web", 4, suite.Rolling(2, 1)))
			r.user().WaitComplete("web")
			began := time.Now()
			stale.etcd.Freeze()
			defer stale.etcd.Thaw()
			r.user().SetImage("web", "web:2")
			r.wait("the rollout is under way", suite.Patience, func() error {
				if n := r.user().Get("web").Status.UpdatedReplicas; n < 1 {
					return fmt.Errorf("%d pods are updated", n)
				}
				return nil
			})
			way.begin(r)
			if way.restart {
				r.kill()
			}
			r.user().Patch("web", `{"spec":{"replicas":6}}`)
			for end := time.Now().Add(*faultsLast); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				r.revive()
			}
			stale.etcd.Thaw()
			r.wait("the rollout ends", recovery, func() error { return suite.Complete(r.user().Get("web")) })
			r.disturbed = oracle.Interval{From: began, To: time.Now()} // the proxy does not see what a server hides
			r.judge(r.end(), oracle.Options{Outages: []oracle.Outage{{Interval: r.disturbed}}})
		})
	}
}

// switchTo sends the manager to another API server.
func (r *run) switchTo(name string) {
	r.Helper()
	if err := r.proxy.Switch(name); err != nil {
		r.Fatal(err)
	}
}

// script begins a script.
func (r *run) script(text string) {
	r.Helper()
	s, err := proxy.Parse(text)
	if err != nil {
		r.Fatal(err)
	}
	r.proxy.Run(s)
}
