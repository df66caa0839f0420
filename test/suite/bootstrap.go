package suite

import (
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

const (
	tokenKey    = "0123456789abcdef" // of all bootstrap tokens
	tokenPrefix = api.BootstrapTokenSecretPrefix
	otherData   = "mine" // data of the ConfigMap that are no signatures
	clusterInfo = api.ConfigMapClusterInfo

	// noScenario is why the crash tests have nothing for these controllers.
	noScenario = "the managers of crash tests see one namespace each, and these objects are in namespaces that all share"
)

func bootstrapSignerEntry() Entry {
	return Entry{
		Controller: "bootstrap-signer-controller",
		Operations: map[string]Operation{
			"clusterinfo": editClusterInfo, // content=: makes the ConfigMap, or changes it; do=delete, blank, forge, add
			"bootstrap":   bootstrapToken,  // ID expires=, in seconds, never, odd; usage=false, named=ID; do=delete
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			g.Add(at, "clusterinfo content=%s", workload.Pick(g, "a", "b", "c"))
			id := anyID(g)
			g.Add(at, "bootstrap %s expires=%s", id, workload.Pick(g, "never", "20", "86400"))
			g.Add(soon, "clusterinfo do=%s", workload.Pick(g, "delete", "blank", "forge", "forge", "add"))
			g.Add(soon+g.Early(), "bootstrap %s %s", workload.Pick(g, id, anyID(g)),
				workload.Pick(g, "do=delete", "do=delete", "expires=never usage=false", "expires=never named=zzzzzz"))
		}}},
		Settled:     signaturesSettled,
		NoScenarios: noScenario,
		Malformed: map[string]string{
			"configmaps/cluster-info": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"kube-public",${META}},
				"data":{"":"","..":"x","kubeconfig":"","jws-kubeconfig-":"","jws-kubeconfig-?":"x"},"binaryData":{"kubeconfig":""}}`,
			"secrets/bootstrap-token-UPPER!": `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"kube-system",${META}},
				"data":{"":"","token-id":"","usage-bootstrap-signing":"dHJ1ZQ=="},"type":"bootstrap.kubernetes.io/token"}`,
		},
		Mutants: signerMutants,
		Budgets: []Budget{{
			Name: "20 bootstrap tokens come and go", Floor: floor.Writes{Other: 40},
			Prepare: (*User).makeClusterInfo,
			Do: func(u *User) {
				for i := range 20 {
					id := fmt.Sprintf("sign%02d", i)
					u.makeBootstrapToken(id, "")
					u.waitSigned(id, true)
					Remove[*corev1.Secret](u.in(metav1.NamespaceSystem), tokenPrefix+id)
					u.waitSigned(id, false)
				}
			},
		}},
	}
}

func tokenCleanerEntry() Entry {
	return Entry{
		Controller: "token-cleaner-controller",
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, _ string, at, soon time.Duration) {
			id := anyID(g)
			g.Add(at, "bootstrap %s expires=%d", id, g.IntN(40))
			g.Add(soon, "bootstrap %s expires=%s", id, workload.Pick(g, "0", "20", "never", "odd"))
		}}},
		Settled:     bootstrapTokensSettled,
		NoScenarios: noScenario,
		Malformed: map[string]string{
			"secrets/bootstrap-token-": `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"kube-system","finalizers":["","/"],${META}},
				"data":{"":"","expiration":"OTk5OS0xMi0zMVQyMzo1OTo1OVo="},"type":"bootstrap.kubernetes.io/token"}`,
		},
		Mutants: tokenCleanerMutants,
		Budgets: []Budget{{
			Name: "20 bootstrap tokens expire", Floor: floor.Writes{Other: 20},
			Do: func(u *User) {
				at := time.Now().Add(3 * time.Second).UTC().Format(time.RFC3339)
				for i := range 20 {
					u.makeBootstrapToken(fmt.Sprintf("goes%02d", i), at)
				}
				for i := range 20 {
					AwaitGone[*corev1.Secret](u.in(metav1.NamespaceSystem), fmt.Sprintf("%sgoes%02d", tokenPrefix, i))
				}
			},
		}},
	}
}

// anyID is the id of one of a few tokens.
func anyID(g *workload.Generator) string { return fmt.Sprintf("token%d", g.IntN(4)) }

// editClusterInfo makes the ConfigMap and its namespace, changes it, or does to it what users should not.
func editClusterInfo(u *User, l script.Line) error {
	public := u.in(metav1.NamespacePublic)
	do, _ := l.Get("do")
	if do == "delete" {
		return remove[*corev1.ConfigMap](public, clusterInfo)
	}
	content, changes := l.Get("content")
	err := edit(public, clusterInfo, func(m *corev1.ConfigMap) {
		if m.Data == nil {
			m.Data = map[string]string{}
		}
		switch {
		case changes:
			m.Data[api.KubeConfigKey] = content
		case do == "blank":
			delete(m.Data, api.KubeConfigKey)
		case do == "add":
			m.Data[otherData] = "x"
		case do == "forge":
			m.Data[api.JWSSignatureKeyPrefix+"token0"] = "forged"
		}
	})
	if !apierrors.IsNotFound(err) || !changes {
		return err
	}
	_ = create(u, newNamespace(metav1.NamespacePublic)) // unless it is there
	return create(public, newClusterInfo(content))
}

func newClusterInfo(content string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: clusterInfo}, Data: map[string]string{api.KubeConfigKey: content}}
}

// newBootstrapToken is a token for signing, as kubeadm makes it.
func newBootstrapToken(id, expiration string) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: tokenPrefix + id}, Type: api.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			api.BootstrapTokenIDKey: []byte(id), api.BootstrapTokenSecretKey: []byte(tokenKey),
			api.BootstrapTokenUsageSigningKey: []byte("true"),
		},
	}
	if expiration != "" {
		s.Data[api.BootstrapTokenExpirationKey] = []byte(expiration)
	}
	return s
}

// bootstrapToken makes a token, changes it, or deletes it.
func bootstrapToken(u *User, l script.Line) error {
	id, expiration, system := l.Arg(0), "", u.in(metav1.NamespaceSystem)
	if do, _ := l.Get("do"); do == "delete" {
		return remove[*corev1.Secret](system, tokenPrefix+id)
	}
	switch text, _ := l.Get("expires"); text {
	case "never":
	case "odd":
		expiration = "tomorrow"
	default:
		seconds, _ := l.Int("expires")
		expiration = time.Now().Add(time.Duration(seconds) * time.Second).UTC().Format(time.RFC3339)
	}
	s := newBootstrapToken(id, expiration)
	for key, name := range map[string]string{"usage": api.BootstrapTokenUsageSigningKey, "named": api.BootstrapTokenIDKey} {
		if text, ok := l.Get(key); ok {
			s.Data[name] = []byte(text)
		}
	}
	return apply(system, s, func(old *corev1.Secret) { old.Data = s.Data })
}

// expiry is when a token expires: long ago if that cannot be read, in the far future if it never does.
func expiry(s *corev1.Secret) time.Time {
	text := string(s.Data[api.BootstrapTokenExpirationKey])
	if text == "" {
		return time.Now().AddDate(100, 0, 0)
	}
	at, _ := time.Parse(time.RFC3339, text)
	return at
}

// slack is how late the managers of simulations may do what they do at a time.
const slack = 5 * time.Second

// signaturesSettled says which signatures are missing, are wrong, or should not be there (BOOT-15), and what the manager has changed beside
// them.
func signaturesSettled(s *View) (wrong []string) {
	if m := one[*corev1.ConfigMap](s, metav1.NamespacePublic, clusterInfo); m != nil {
		s.Looked++
		data := maps.Clone(m.Data)
		if content, ok := data[api.KubeConfigKey]; ok {
			wrong = append(wrong, wrongSignatures(s, content, data)...)
		}
	}
	for _, e := range s.writes("configmaps") {
		before, _ := e.Before.(*corev1.ConfigMap)
		after, _ := e.Object.(*corev1.ConfigMap)
		if before == nil || after == nil || after.Name != clusterInfo {
			continue
		}
		content, ok := before.Data[api.KubeConfigKey]
		if !ok { // BOOT-13
			wrong = append(wrong, "signatures were changed while there was nothing to sign")
		}
		if after.Data[api.KubeConfigKey] != content || after.Data[otherData] != before.Data[otherData] {
			wrong = append(wrong, fmt.Sprintf("what is signed was changed from %v to %v", before.Data, after.Data))
		}
	}
	return wrong
}

// wrongSignatures compares the data of the ConfigMap with the tokens.
func wrongSignatures(s *View, content string, data map[string]string) (wrong []string) {
	for _, t := range all[*corev1.Secret](s) {
		id, ok := strings.CutPrefix(t.Name, tokenPrefix)
		if !ok {
			continue
		}
		key := api.JWSSignatureKeyPrefix + id
		signature, signed := data[key]
		signs := string(t.Data[api.BootstrapTokenUsageSigningKey]) == "true" && string(t.Data[api.BootstrapTokenIDKey]) == id
		delete(data, key)
		switch left := time.Until(expiry(t)); {
		case !signs || left < -slack:
			if signed {
				wrong = append(wrong, "there is a signature of "+id+", which does not sign")
			}
		case left > 0 && !jws.DetachedTokenIsValid(signature, content, id, tokenKey):
			wrong = append(wrong, fmt.Sprintf("the signature of %s is %q", id, signature))
		}
	}
	for key := range data {
		if strings.HasPrefix(key, api.JWSSignatureKeyPrefix) {
			wrong = append(wrong, "there is "+key+" and no token for it")
		}
	}
	return wrong
}

// bootstrapTokensSettled says which tokens are still there though they have expired, and which were deleted too early (BOOT-24, BOOT-25).
func bootstrapTokensSettled(s *View) (wrong []string) {
	for _, t := range subjects[*corev1.Secret](s) {
		if t.Type == api.SecretTypeBootstrapToken && time.Since(expiry(t)) > slack {
			wrong = append(wrong, fmt.Sprintf("the token %s has expired at %v", t.Name, expiry(t)))
		}
	}
	for _, e := range s.writes("secrets") {
		before, ok := e.Before.(*corev1.Secret)
		if ok && e.Deleted && before.Type == api.SecretTypeBootstrapToken && expiry(before).After(e.Time) {
			wrong = append(wrong, fmt.Sprintf("the token %s was deleted at %v, and expires at %v", before.Name, e.Time, expiry(before)))
		}
	}
	return wrong
}

const (
	signerFolder    = "pkg/controllers/bootstrapsigner/"
	bootstrapFile   = "internal/credentials/bootstraptoken/bootstraptoken.go"
	tokenCleanPlan  = "pkg/controllers/tokencleaner/plan.go"
	beginBootstrap  = withoutElection + "\n\t\t\tat 5s   clusterinfo content=a\n\t\t\tat 6s   bootstrap token0 expires=never"
	beginExpiration = withoutElection + "\n\t\t\tat 5s   bootstrap token0 expires=20"
)

var signerMutants = []Mutant{
	{
		Name: "signatures of bootstrap tokens that are gone stay",
		Edits: []Edit{{signerFolder + "controller.go", "if bootstraptoken.Is(before) || bootstraptoken.Is(after) {",
			"if bootstraptoken.Is(after) {"}},
		Script: beginBootstrap + "\n\t\t\tat 20s  bootstrap token0 do=delete",
		Oracle: SettledOracle,
	},
	{
		Name: "signatures of an old kubeconfig stay",
		Edits: []Edit{{signerFolder + "observe.go", "Signed: signed[api.JWSSignatureKeyPrefix+id] == signature}",
			"Signed: signature != \"\" && signed[api.JWSSignatureKeyPrefix+id] != \"\"}"}},
		Script: beginBootstrap + "\n\t\t\tat 20s  clusterinfo content=b",
		Oracle: SettledOracle,
	},
	{
		Name: "signatures that nobody has a token for stay",
		Edits: []Edit{{signerFolder + "plan.go", "return strings.HasPrefix(key, api.JWSSignatureKeyPrefix)",
			"return strings.HasPrefix(key, api.JWSSignatureKeyPrefix) && key == \"\""}},
		Script: beginBootstrap + "\n\t\t\tat 20s  bootstrap token0 do=delete",
		Oracle: SettledOracle,
	},
	{
		Name: "bootstrap tokens that are not for signing sign",
		Edits: []Edit{{signerFolder + "observe.go", "if data(api.BootstrapTokenUsageSigningKey) != \"true\" {",
			"if data(api.BootstrapTokenUsageSigningKey) == \"\" {"}},
		Script: beginBootstrap + "\n\t\t\tat 20s  bootstrap token0 expires=never usage=false",
		Oracle: SettledOracle,
	},
	{
		Name: "bootstrap tokens with another id than in their name sign",
		Edits: []Edit{{signerFolder + "observe.go", "case data(api.BootstrapTokenIDKey) != id:",
			"case data(api.BootstrapTokenIDKey) == \"\":"}},
		Script: beginBootstrap + "\n\t\t\tat 20s  bootstrap token0 expires=never named=zzzzzz",
		Oracle: SettledOracle,
	},
	{
		Name: "what is not a signature is lost",
		Edits: []Edit{{signerFolder + "plan.go", "return strings.HasPrefix(key, api.JWSSignatureKeyPrefix)",
			"return key != api.KubeConfigKey"}},
		Script: beginBootstrap + "\n\t\t\tat 20s  clusterinfo do=add",
		Oracle: SettledOracle,
	},
}

var tokenCleanerMutants = []Mutant{
	{
		Name:   "bootstrap tokens that expire later are forgotten",
		Edits:  []Edit{{tokenCleanPlan, ", Requeue: again}", ", Requeue: again - again}"}},
		Script: beginExpiration,
		Oracle: SettledOracle,
	},
	{
		Name:   "bootstrap tokens go a minute before they expire",
		Edits:  []Edit{{bootstrapFile, "case !expires.After(now):", "case !expires.After(now.Add(time.Minute)):"}},
		Script: beginExpiration,
		Oracle: SettledOracle,
	},
	{
		Name: "bootstrap tokens that never expire go",
		Edits: []Edit{{tokenCleanPlan, "return plan.Plan{Why: \"the token never expires\"}",
			"return deletion(s, \"the token never expires\")"}},
		Script: withoutElection + "\n\t\t\tat 5s   bootstrap token0 expires=never",
		Oracle: SettledOracle,
	},
	{
		Name:   "bootstrap tokens with an expiration that is no time stay",
		Edits:  []Edit{{tokenCleanPlan, "case s.Unreadable:", "case s.Unreadable && s.Expires != nil:"}},
		Script: withoutElection + "\n\t\t\tat 5s   bootstrap token0 expires=odd",
		Oracle: SettledOracle,
	},
	{
		Name:  "a bootstrap token is deleted that was prolonged meanwhile",
		Edits: []Edit{{tokenCleanPlan, "CheckVersion: true, Why: why},", "CheckVersion: false, Why: why},"}},
		Script: beginExpiration + `
			at 15s  fault m0 freeze secrets for=30s
			at 16s  bootstrap token0 expires=never`,
		Oracle: SettledOracle,
	},
}

// makeClusterInfo makes the ConfigMap until the end of the test.
func (u *User) makeClusterInfo() {
	u.Helper()
	public := u.in(metav1.NamespacePublic)
	public.Create(newClusterInfo("test"))
	u.Cleanup(func() {
		if err := ignoreNotFound(remove[*corev1.ConfigMap](public, clusterInfo)); err != nil {
			u.Error(err)
		}
	})
}

func (u *User) makeBootstrapToken(id, expiration string) {
	u.Helper()
	u.in(metav1.NamespaceSystem).Create(newBootstrapToken(id, expiration))
}

// waitSigned waits until there is a signature of a token that can be verified, or none.
func (u *User) waitSigned(id string, signed bool) {
	u.Helper()
	Await(u.in(metav1.NamespacePublic), clusterInfo, func(m *corev1.ConfigMap) error {
		signature, ok := m.Data[api.JWSSignatureKeyPrefix+id]
		return unless(ok == signed && (!ok || jws.DetachedTokenIsValid(signature, m.Data[api.KubeConfigKey], id, tokenKey)), signature)
	})
}
