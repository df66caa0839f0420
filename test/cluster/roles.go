package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/rbac"
)

// InstalledAccount is the service account that the manifests under deploy/kustomize run the manager as.
const InstalledAccount = "controller-manager"

// The users as which managers run: the original's, and that of [InstalledAccount].
const (
	originalUser  = "system:kube-controller-manager"
	installedUser = "system:serviceaccount:" + rbac.Home + ":" + InstalledAccount
)

// anyLease is the binding with which tests may name their leases as they like.
const anyLease = "test:any-lease"

// Roles say which rights a control plane's managers have.
type Roles struct {
	installed bool
	// taken are the bindings with which the API server itself gives the original and its controllers their rights.
	taken   []*rbacv1.ClusterRoleBinding
	takenIn []*rbacv1.RoleBinding // in namespaces
	// rightless are the offsets in the audit log between which an API server that has just started did not know all roles yet:
	// where such a time begins, where it ends, and so on.
	rightless []int64
}

// installRoles gives the managers the identity that deploy/kustomize installs, and exactly its rights: the API server's
// own bindings are taken away. Only leases may have any name, so that tests need not share one; see [Cluster.StrictLease].
func (c *Cluster) installRoles(t testing.TB) {
	t.Helper()
	if c.Roles.installed || os.Getenv("MANAGER_BINARY") != "" { // another manager may need what it always had
		return
	}
	c.Roles.installed = true
	c.ApplyRoles(t, "all")
	c.takeRoles(t)
	if _, err := c.Client.RbacV1().RoleBindings(rbac.Home).Create(t.Context(), leaseBinding(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := c.Client.CoreV1().ServiceAccounts(rbac.Home).CreateToken(t.Context(), InstalledAccount,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](24 * 3600)}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.CertKubeconfig = c.ManagerKubeconfig
	c.ManagerKubeconfig = filepath.Join(c.Dir, "installed.kubeconfig")
	if err := writeTokenKubeconfig(c.ManagerKubeconfig, c.RESTConfig, token.Status.Token); err != nil {
		t.Fatal(err)
	}
}

// ApplyRoles applies one of the sets of roles of deploy/kustomize, the account that has them, and the lease of the overlay "standalone".
func (c *Cluster) ApplyRoles(t testing.TB, set string) {
	t.Helper()
	kustomize := filepath.Join(c.repository, "deploy", "kustomize")
	c.Kubectl(t, "apply", "--kustomize", filepath.Join(kustomize, "roles", set))
	for _, file := range []string{"base/serviceaccount.yaml", "overlays/standalone/lease.yaml"} {
		c.Kubectl(t, "apply", "--filename", filepath.Join(kustomize, file))
	}
}

// WithRoles leaves the managers, until the test's end, the rights of another set of roles of deploy/kustomize.
func (c *Cluster) WithRoles(t testing.TB, set string) {
	t.Helper()
	if !c.Roles.installed {
		return
	}
	c.ApplyRoles(t, set)
	t.Cleanup(func() { c.ApplyRoles(cleanup{t}, "all") })
}

func leaseBinding() *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: anyLease},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "system::leader-locking-kube-controller-manager"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: rbac.Home, Name: InstalledAccount}},
	}
}

// StrictLease leaves the managers, until the test's end, only the lease that the manifests name.
func (c *Cluster) StrictLease(t testing.TB) {
	t.Helper()
	bindings := c.Client.RbacV1().RoleBindings(rbac.Home)
	if err := bindings.Delete(t.Context(), anyLease, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := bindings.Create(context.Background(), leaseBinding(), metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// takeRoles takes away the bindings that the API server makes by itself for the original and for its controllers. It
// makes them anew when it is started again.
func (c *Cluster) takeRoles(t testing.TB) {
	t.Helper()
	bindings := c.Client.RbacV1().ClusterRoleBindings()
	all, err := bindings.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Roles.taken = nil
	for i := range all.Items {
		b := &all.Items[i]
		if b.Name != "system:kube-controller-manager" && !strings.HasPrefix(b.Name, "system:controller:") {
			continue
		}
		if err := bindings.Delete(t.Context(), b.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		b.ResourceVersion, b.UID = "", ""
		c.Roles.taken = append(c.Roles.taken, b)
	}
	c.takeRolesOfNamespaces(t)
	c.waitForRights(t, originalUser, false)
}

func (c *Cluster) takeRolesOfNamespaces(t testing.TB) {
	t.Helper()
	all, err := c.Client.RbacV1().RoleBindings(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Roles.takenIn = nil
	for i := range all.Items {
		b := &all.Items[i]
		if !strings.HasPrefix(b.Name, "system:controller:") {
			continue
		}
		if err := c.Client.RbacV1().RoleBindings(b.Namespace).Delete(t.Context(), b.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		b.ResourceVersion, b.UID = "", ""
		c.Roles.takenIn = append(c.Roles.takenIn, b)
	}
}

// UpstreamRoles gives the original's identities, until the test's end, the rights that they have in every cluster
// (RB-1 to RB-7), and no others. It returns the kubeconfig of the user system:kube-controller-manager.
func (c *Cluster) UpstreamRoles(t testing.TB) (kubeconfig string) {
	t.Helper()
	if !c.Roles.installed {
		return c.ManagerKubeconfig
	}
	c.Kubectl(t, "delete", "clusterrolebinding,clusterrole", "--selector=app.kubernetes.io/name="+InstalledAccount)
	t.Cleanup(func() {
		t := cleanup{t}
		c.takeRoles(t)
		c.ApplyRoles(t, "all")
	})
	for _, b := range c.Roles.taken {
		_, err := c.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), b, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	for _, b := range c.Roles.takenIn {
		_, err := c.Client.RbacV1().RoleBindings(b.Namespace).Create(t.Context(), b, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	c.waitForRights(t, originalUser, true)
	return c.CertKubeconfig
}

// cleanup is a test whose context outlives it.
type cleanup struct{ testing.TB }

func (cleanup) Context() context.Context { return context.Background() }

// waitForRights waits until the API server has noticed that a manager's user has its rights, or has them no more.
func (c *Cluster) waitForRights(t testing.TB, user string, has bool) {
	t.Helper()
	Eventually(t, 20*time.Second, "the API server knows the bindings", func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               user,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"},
		}}
		review, err := c.Client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if review.Status.Allowed != has {
			return fmt.Errorf("allowed: %t", review.Status.Allowed)
		}
		return nil
	})
}

// KubeconfigOf returns the kubeconfig of a service account, whose token lasts for an hour.
func (c *Cluster) KubeconfigOf(t testing.TB, namespace, account string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), account+".conf")
	token := strings.TrimSpace(c.Kubectl(t, "--namespace", namespace, "create", "token", account))
	if err := writeTokenKubeconfig(file, c.RESTConfig, token); err != nil {
		t.Fatal(err)
	}
	return file
}

func writeTokenKubeconfig(file string, server *rest.Config, token string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server.Host, CertificateAuthorityData: server.CAData,
		CertificateAuthority: server.CAFile}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "c"
	return clientcmd.WriteToFile(*config, file)
}

// Request is what the audit log has about one.
type Request struct {
	Verb, RequestURI string
	User             struct{ Username string }
	ObjectRef        struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	Annotations      map[string]string
	ResponseStatus   struct{ Code int }
}

// Forbidden tells whether the requester had no right to it. A request that quota or another admission plugin has refused
// is not meant.
func (r Request) Forbidden() bool { return r.Annotations["authorization.k8s.io/decision"] == "forbid" }

// ByManager tells whether a manager asked, or one of the accounts of its controllers.
func (r Request) ByManager() bool {
	name := r.User.Username
	return name == originalUser || strings.HasPrefix(name, "system:serviceaccount:"+rbac.Home+":")
}

// checkRights returns what the API server has refused the managers for want of a right, if they run under exactly the installed
// roles.
func (c *Cluster) checkRights() (problems error) {
	if !c.Roles.installed {
		return nil
	}
	_, err := c.eachAudited(0, func(offset int64, line []byte) error {
		if !bytes.Contains(line, []byte(`"forbid"`)) || c.Roles.rightlessAt(offset) {
			return nil
		}
		var r Request
		err := json.Unmarshal(line, &r)
		if err == nil && r.ByManager() && r.Forbidden() {
			problems = errors.Join(problems,
				fmt.Errorf("%s may not %s %s: %s", r.User.Username, r.Verb, r.RequestURI, r.Annotations["authorization.k8s.io/reason"]))
		}
		return err
	})
	return errors.Join(err, problems)
}

func (r Roles) rightlessAt(offset int64) bool {
	passed, _ := slices.BinarySearch(r.rightless, offset+1)
	return passed%2 == 1
}

// Requests reads the audit log from an offset, 0 for its beginning, and returns how long it is by now.
func (c *Cluster) Requests(t testing.TB, offset int64) (all []Request, end int64) {
	t.Helper()
	end, err := c.eachAudited(offset, func(_ int64, line []byte) error {
		var r Request
		err := json.Unmarshal(line, &r)
		all = append(all, r)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, end
}

// AuditEnd returns how long the audit log is.
func (c *Cluster) AuditEnd(t testing.TB) int64 {
	t.Helper()
	info, err := os.Stat(c.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// eachAudited calls a function with each line of the audit log from an offset, and returns where the last whole line ends.
func (c *Cluster) eachAudited(offset int64, do func(offset int64, line []byte) error) (end int64, err error) {
	file, err := os.Open(c.AuditLog)
	if err != nil {
		return offset, err
	}
	defer file.Close()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return offset, err
	}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil { // the last line may be half written
			return offset, nil
		}
		if err := do(offset, line); err != nil {
			return offset, fmt.Errorf("audit log: %w", err)
		}
		offset += int64(len(line))
	}
}
