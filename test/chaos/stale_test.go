package chaos

import (
	"bytes"
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

// flagsOf are the flags of one of the control plane's running programs. Values of a flag that is given more than once are joined: such
// flags are lists.
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
			if before, ok := flags[name]; ok {
				value = before + "," + value
			}
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

// staleWays are the ways in which a manager meets the past. The first is the hardest: what it reads live is new, and what it watches
// is old, and it knows nothing of what it has done itself.
var staleWays = []struct {
	name    string
	move    func(*run)
	restart bool // it is killed when it is at the second server
}{
	{"caches fail over and the manager is restarted", func(r *run) { r.proxy.Divert("second") }, true},
	{"caches fail over", func(r *run) { r.proxy.Divert("second") }, false},
	{"fails over", (*run).failOver, false},
	{"fails over and is restarted", (*run).failOver, true},
}

// staleShare is which part of the scenarios meets the past, in the gate and in ways that are less hard.
const staleShare = 6

// meetPast are the scenarios that meet the past in a way of some number.
func meetPast(way int) (some []scenario) {
	for i, s := range scenarios() {
		if full && way == 0 || i%staleShare == way || s.Name == "rolling update" {
			some = append(some, s)
		}
	}
	return some
}

// Of two API servers, one is cut off from etcd and shows the past. A manager that is sent to it in the middle of its work, all of it
// or only with its lists and watches, must break no rule, and finish its work when the server has caught up (k/k#59848). As they share
// the server, one is sent after the other.
func TestStaleAPIServer(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	ways, runs := staleWays, 0
	if !full {
		ways = ways[:1]
	}
	for i := range ways {
		runs += len(meetPast(i))
	}
	tally := newTally(t, "an API server that shows the past", runs)
	stale := startSecond(t, c)
	for i, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			for _, s := range meetPast(i) {
				t.Run(s.Name, func(t *testing.T) {
					s.undisturbed(t, c, tally)
					t.Run("disturbed", func(t *testing.T) {
						r := newRun(t, c, tally)
						t.Cleanup(func() { r.replayBy(environment()) })
						r.mayEnd = true // if it starts at a server that is not healthy
						if err := r.proxy.AddUpstream("second", stale.server); err != nil {
							t.Fatal(err)
						}
						defer stale.etcd.Thaw()
						r.reference = s.history
						r.before(s.middle(), func() {
							r.disturbs()
							stale.etcd.Freeze()
							way.move(r)
							if way.restart {
								r.Kill(0)
							}
							time.AfterFunc(*faultsLast, func() { stale.etcd.Thaw(); r.calm() })
						})
						h := s.run(r)
						if !r.happened() {
							t.Errorf("it was not sent to the second server at %s; it has made %d writes", s.middle(), r.proxy.Writes())
						}
						// the proxy does not see what a server hides
						r.judge(h, oracle.Options{Outages: []oracle.Outage{{Interval: r.disturbed}}})
					})
				})
			}
		})
	}
}

// failOver sends the manager to the second server.
func (r *run) failOver() {
	if err := r.proxy.Switch("second"); err != nil {
		r.Error(err)
	}
}
