package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// The programs of a cluster, by the names that they have in its folder "bin".
const (
	etcd      = "etcd"
	apiServer = "kube-apiserver"
	scheduler = "kube-scheduler"
	kwok      = "kwok-controller"
	manager   = "kube-controller-manager"
)

// component is a program of a cluster and the arguments that it is started with.
type component struct {
	Name string   `json:"name"`
	Args []string `json:"args"`
}

// ports are those that the programs of a cluster listen on, all at the loopback address.
type ports struct {
	EtcdPeer, Etcd, APIServer, Kwok, Manager, Scheduler int
}

func (p *ports) all() []*int {
	return []*int{&p.EtcdPeer, &p.Etcd, &p.APIServer, &p.Kwok, &p.Manager, &p.Scheduler}
}

// plan is what a cluster consists of. It stays the same from create to delete.
type plan struct {
	Ports      ports       `json:"ports"`
	Components []component `json:"components"` // in the order in which they are started
}

func (c *cluster) planFile() string { return c.file("localcluster", "components.json") }

// plan reads what the cluster consists of.
func (c *cluster) plan() (*plan, error) {
	data, err := os.ReadFile(c.planFile())
	if err != nil {
		return nil, err
	}
	p := &plan{}
	return p, json.Unmarshal(data, p)
}

// writePlan chooses ports and arguments, and writes them down.
func (c *cluster) writePlan(o options) (*plan, error) {
	taken, err := c.tools.portsOfClusters()
	if err != nil {
		return nil, err
	}
	p := &plan{}
	if p.Ports, err = freePorts(highestPort, taken); err != nil {
		return nil, err
	}
	p.Components = []component{
		{etcd, c.etcdArgs(p.Ports)},
		{apiServer, c.apiServerArgs(p.Ports, o)},
		{scheduler, c.schedulerArgs(p.Ports)},
		{kwok, c.kwokArgs(p.Ports)},
	}
	if o.controllerManager != "" {
		p.Components = append(p.Components, component{manager, c.managerArgs(p.Ports)})
	}
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, err
	}
	return p, os.WriteFile(c.planFile(), data, 0o600)
}

// highestPort is below those that the system gives to outgoing connections: a stopped program finds its port free again.
const highestPort = 32767

// portsOfClusters are the ports of all clusters, also of programs that are stopped.
func (t *toolbox) portsOfClusters() (map[int]bool, error) {
	clusters, err := t.clusters()
	if err != nil {
		return nil, err
	}
	taken := map[int]bool{}
	for _, c := range clusters {
		if !fileExists(c.planFile()) {
			continue // it is being deleted, or was left halfway
		}
		p, err := c.plan()
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %w", c.name, err)
		}
		for _, port := range p.Ports.all() {
			taken[*port] = true
		}
	}
	return taken, nil
}

// freePorts chooses ports that nobody listens on, from the highest downwards.
func freePorts(highest int, taken map[int]bool) (chosen ports, err error) {
	next := highest
	for _, port := range chosen.all() {
		for next >= 1024 && (taken[next] || !isFree(next)) {
			next--
		}
		if next < 1024 {
			return ports{}, fmt.Errorf("no free port from %d downwards", highest)
		}
		*port = next
		next--
	}
	return chosen, nil
}

func isFree(port int) bool {
	listener, err := net.Listen("tcp", address(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func (c *cluster) pki(name string) string      { return c.file("pki", name) }
func (c *cluster) ownPKI(name string) string   { return c.file("localcluster", "pki", name) }
func (c *cluster) config(name string) string   { return c.file("localcluster", name) }
func (c *cluster) log(component string) string { return c.file("logs", component+".log") }

func (c *cluster) etcdArgs(p ports) []string {
	peer, client := "http://"+address(p.EtcdPeer), "http://"+address(p.Etcd)
	return []string{
		"--name=node0",
		"--data-dir=" + c.file("etcd"),
		"--auto-compaction-retention=1",
		"--quota-backend-bytes=8589934592",
		"--initial-advertise-peer-urls=" + peer,
		"--listen-peer-urls=" + peer,
		"--advertise-client-urls=" + client,
		"--listen-client-urls=" + client,
		"--initial-cluster=node0=" + peer,
		"--unsafe-no-fsync=true", // the data lives no longer than the cluster, so nothing has to survive a power cut
	}
}

func (c *cluster) apiServerArgs(p ports, o options) []string {
	args := []string{
		"--etcd-servers=http://" + address(p.Etcd),
		"--etcd-prefix=/registry",
		"--allow-privileged=true",
		"--authorization-mode=Node,RBAC",
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", p.APIServer),
		"--tls-cert-file=" + c.pki("apiserver.crt"),
		"--tls-private-key-file=" + c.pki("apiserver.key"),
		"--client-ca-file=" + c.pki("ca.crt"),
		"--audit-policy-file=" + c.config("audit-policy.yaml"),
		"--audit-log-path=" + c.file("logs", "audit.log"),
		// Other flags of kubeadm, as far as a controller manager sees them. Bootstrap tokens authenticate.
		"--enable-bootstrap-token-auth=true",
		// Aggregated APIs: how the API server shows who it is, and whom it asks for.
		"--proxy-client-cert-file=" + c.ownPKI("front-proxy-client.crt"),
		"--proxy-client-key-file=" + c.ownPKI("front-proxy-client.key"),
		"--requestheader-client-ca-file=" + c.ownPKI("front-proxy-ca.crt"),
		"--requestheader-allowed-names=" + frontProxy,
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		// Tokens of service accounts.
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file=" + c.ownPKI("sa.key"),
		"--service-account-key-file=" + c.ownPKI("sa.pub"),
		// Both address families, and room for thousands of services.
		"--service-cluster-ip-range=10.0.0.0/16,fd00:10::/112",
	}
	if !c.tools.older() {
		args = append(args,
			// The first as it is by default in the next release. The others, with these versions, are for controllers that are off by default.
			"--feature-gates=StatefulSetRecreateStrategy=true,GenericWorkload=true,WorkloadWithJob=true,"+
				"DRAResourcePoolStatus=true,DRAPartitionableDevicesType=true,DRAWorkloadResourceClaims=true",
			"--runtime-config=scheduling.k8s.io/v1beta1=true,resource.k8s.io/v1alpha3=true")
	}
	args = append(args, "--runtime-config=internal.apiserver.k8s.io/v1alpha1=true") // StorageVersions
	return append(args, o.admission()...)
}

// admission is that of kubeadm, which has NodeRestriction beside the default plugins, and one plugin that is not on by default,
// but that many clusters have: who sets blockOwnerDeletion must be allowed to set the owner's finalizers.
func (o options) admission() []string {
	enabled := []string{"NodeRestriction"}
	if !o.kubeadmAdmission {
		enabled = append(enabled, "OwnerReferencesPermissionEnforcement")
	}
	args := []string{"--enable-admission-plugins=" + strings.Join(enabled, ",")}
	if o.untainted {
		args = append(args, "--disable-admission-plugins=TaintNodesByCondition")
	}
	return args
}

func (c *cluster) schedulerArgs(p ports) []string {
	return []string{
		"--config=" + c.config("scheduler.yaml"),
		"--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", p.Scheduler),
	}
}

func (c *cluster) kwokArgs(p ports) []string {
	return []string{
		"--manage-all-nodes=true",
		"--kubeconfig=" + c.file("kubeconfig.yaml"),
		"--config=" + c.config("kwok.yaml"),
		"--tls-cert-file=" + c.pki("apiserver.crt"),
		"--tls-private-key-file=" + c.pki("apiserver.key"),
		"--node-ip=",
		"--node-name=localhost",
		fmt.Sprintf("--node-port=%d", p.Kwok),
		"--server-address=" + address(p.Kwok),
		"--node-lease-duration-seconds=40", // renewed every ten seconds, as kubelets do
	}
}

// managerArgs are what kwokctl gives to a controller manager, and what kubeadm gives beyond that.
func (c *cluster) managerArgs(p ports) []string {
	return []string{
		"--kubeconfig=" + c.file("kubeconfig.yaml"),
		"--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", p.Manager),
		"--node-monitor-period=5s",
		"--node-monitor-grace-period=50s",
		"--root-ca-file=" + c.pki("ca.crt"),
		"--service-account-private-key-file=" + c.ownPKI("sa.key"),
		"--controllers=*,bootstrapsigner,tokencleaner",
		"--client-ca-file=" + c.pki("ca.crt"),
		"--requestheader-client-ca-file=" + c.ownPKI("front-proxy-ca.crt"),
		"--cluster-signing-cert-file=" + c.pki("ca.crt"),
		"--cluster-signing-key-file=" + c.pki("ca.key"),
	}
}
