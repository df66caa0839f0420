package chaos

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/standalone-kcm/controller-manager/test/chaos/proxy"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// Leases of the soak are short, so that it sees many terms, and long enough for a restart of the API server.
const (
	leaseName     = "soak"
	leaseDuration = 8 * time.Second
	renewDeadline = 6 * time.Second
)

// candidate is one of several managers that compete for a lease, with a proxy of its own.
type candidate struct {
	process
	proxy *proxy.Proxy
	port  string

	leader  sync.Mutex
	leading time.Time // when it last renewed the lease
}

func newCandidate(s *soak, name string) *candidate {
	t, c := s.T, s.Cluster
	t.Helper()
	k := &candidate{process: process{T: t, Cluster: c, lives: lives{name: name}, mayEnd: true}, port: freePort(t)}
	var err error
	k.proxy, err = proxy.Start(proxy.Options{Kubeconfig: c.ManagerKubeconfig, Process: &k.process, Answered: func(e proxy.Exchange) {
		if e.Resource == "leases" && e.Verb != "get" && e.Code < 300 && e.Code > 0 {
			k.renewed(e.Done)
		}
		s.answered(k.identity(e.Sent), e)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.proxy.Close(); err != nil {
			t.Errorf("close the proxy: %v", err)
		}
	})
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := k.proxy.WriteKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	k.flags = []string{
		"--kubeconfig=" + kubeconfig, suite.SharingFlag(""), suite.GatesFlag, podgcThreshold,
		"--leader-elect=true", "--leader-elect-resource-name=" + leaseName, "--leader-elect-resource-namespace=" + leaseNamespace,
		"--leader-elect-lease-duration=" + leaseDuration.String(), "--leader-elect-renew-deadline=" + renewDeadline.String(),
		"--leader-elect-retry-period=1s",
		"--secure-port=" + k.port, "--bind-address=127.0.0.1", "--cert-dir=" + dir, "--authorization-always-allow-paths=/healthz,/metrics",
	}
	k.start()
	return k
}

func (k *candidate) renewed(at time.Time) {
	k.leader.Lock()
	defer k.leader.Unlock()
	k.leading = at
}

func (k *candidate) lastRenewal() time.Time {
	k.leader.Lock()
	defer k.leader.Unlock()
	return k.leading
}

// vitals are what must not grow in a process.
type vitals struct {
	process    string // whose they are
	goroutines int    // 0 if unknown, as is heap
	heap       int    // in MiB
	memory     int    // resident, in MiB
	threads    int
	queued     int // keys in all queues; -1 if unknown
}

func (v vitals) String() string {
	return fmt.Sprintf("%s: %d goroutines, %d MiB heap, %d MiB resident, %d threads, %d queued",
		v.process, v.goroutines, v.heap, v.memory, v.threads, v.queued)
}

// vitals asks the process's metrics, as far as it serves them, and the system.
func (k *candidate) vitals() (v vitals, err error) {
	v = vitals{process: k.identity(time.Now()), queued: -1}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", k.manager.Pid()))
	if err != nil {
		return v, err
	}
	v.memory = number(string(status), `(?m)^VmRSS:\s+(\d+)`) >> 10
	v.threads = number(string(status), `(?m)^Threads:\s+(\d+)`)
	metrics, err := k.metrics()
	if err != nil {
		return v, nil // it does not serve them
	}
	v.goroutines = number(metrics, `(?m)^go_goroutines (\S+)`)
	v.heap = number(metrics, `(?m)^go_memstats_heap_inuse_bytes (\S+)`) >> 20
	for _, depth := range regexp.MustCompile(`(?m)^workqueue_depth\{.*\} (\d+)`).FindAllStringSubmatch(metrics, -1) {
		n, err := strconv.Atoi(depth[1])
		if err != nil {
			return v, err
		}
		v.queued = max(0, v.queued) + n
	}
	return v, nil
}

func (k *candidate) metrics() (string, error) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, // its certificate is its own
	}}
	resp, err := client.Get("https://127.0.0.1:" + k.port + "/metrics")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", errors.New(resp.Status)
	}
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// number finds a number in a text; 0 if it is not there.
func number(text, pattern string) int {
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	n, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		return 0
	}
	return int(n)
}

// drifted says what has grown too much between two quiet moments of one process; empty if nothing.
func drifted(first, last vitals) string {
	var grown []string
	check := func(what string, before, after, slack int) {
		if before > 0 && after > before+before/2+slack {
			grown = append(grown, fmt.Sprintf("%s from %d to %d", what, before, after))
		}
	}
	check("goroutines", first.goroutines, last.goroutines, 30)
	check("MiB of heap", first.heap, last.heap, 20)
	check("MiB of resident memory", first.memory, last.memory, 40)
	check("threads", first.threads, last.threads, 10)
	if last.queued > 0 {
		grown = append(grown, fmt.Sprintf("%d keys are queued in a quiet moment", last.queued))
	}
	return strings.Join(grown, ", ")
}
