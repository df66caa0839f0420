package history

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// TestDEP24TemplateHash: new ReplicaSets are named as the original names them, so a hand-over does not rename any and so are the
// revisions of DaemonSets (DEP-22..24, DS-51).
func TestDEP24TemplateHash(t *testing.T) {
	defaulted := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "1", "b": "2"}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "web", Image: "nginx:1.27",
				Ports:                    []corev1.ContainerPort{{ContainerPort: 80, Protocol: corev1.ProtocolTCP}},
				TerminationMessagePath:   "/dev/termination-log",
				TerminationMessagePolicy: corev1.TerminationMessageReadFile,
				ImagePullPolicy:          corev1.PullIfNotPresent,
			}},
			RestartPolicy:                 corev1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: ptr.To[int64](30),
			DNSPolicy:                     corev1.DNSClusterFirst,
			SecurityContext:               &corev1.PodSecurityContext{},
			SchedulerName:                 "default-scheduler",
		},
	}
	for _, c := range []struct {
		name     string
		template corev1.PodTemplateSpec
		want     [3]string // without collisions, 0, 1
	}{
		{"DEP-23 an empty template", corev1.PodTemplateSpec{}, [3]string{"54f4c57dcb", "98789f664", "6554565b97"}},
		{"DEP-23 one label, one container", plantest.Template("web", "nginx:1.27"), [3]string{"74f8f75d46", "76cb74c4fd", "98d446679"}},
		{"DEP-23 a template with the server's defaults", defaulted, [3]string{"5898dc9568", "585748f8b4", "6fcfc55df7"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, n := range []*int32{nil, ptr.To[int32](0), ptr.To[int32](1)} {
				if got := TemplateHash(&c.template, n); got != c.want[i] {
					t.Errorf("collisions %v: got %s, want %s", n, got, c.want[i])
				}
			}
		})
	}
}

// TestTemplateHashOfQuantities: these hashes are those of the release that this build says it is, whatever library it is built with.
// The library of the next release dumps quantities and seccomp profiles in another way, so it changes the hash of nearly every real
// template, and nothing but these vectors would show that. Whoever moves the library and finds this test failing keeps the dump of the
// old one until the build says that it is the new release. The sums were computed apart from this code, by the recipe of the fact, over
// templates as the API server sends them: a quantity that was parsed from another text has another dump.
func TestTemplateHashOfQuantities(t *testing.T) {
	for _, c := range []struct {
		name, container, pod string    // in addition to the name, the image and the label
		want                 [3]string // without collisions, 0, 1
	}{
		{"DEP-23 neither", ``, ``, [3]string{"74f8f75d46", "76cb74c4fd", "98d446679"}},
		{"DEP-23a quantities that are kept as they were written", `,"resources":{"requests":{"cpu":"100m","memory":"1Gi"}}`, ``,
			[3]string{"7875b9dc8c", "8486555767", "68c988ddf4"}},
		{"DEP-23a a quantity that is not", `,"resources":{"limits":{"cpu":"2","memory":"128Mi"}}`, ``,
			[3]string{"55f7bc96cf", "67985c9659", "cdc956cd6"}},
		{"DEP-23a a quantity that is not canonical", `,"resources":{"requests":{"cpu":"0.1"}}`, ``,
			[3]string{"6bbf686d55", "8459f5b9c5", "688f69857d"}},
		{"DEP-23a the size of a volume", ``, `,"volumes":[{"name":"tmp","emptyDir":{"sizeLimit":"64Gi"}}]`,
			[3]string{"b44598f4c", "685fd98647", "d975f5cc4"}},
		{"DEP-23a a divisor that is zero by default",
			`,"env":[{"name":"CPU","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":"0"}}}]`, ``,
			[3]string{"5c574fc89c", "7fb6f79757", "67fb6c6dd4"}},
		{"DEP-23a a seccomp profile of the pod", ``, `,"securityContext":{"seccompProfile":{"type":"RuntimeDefault"}}`,
			[3]string{"745c4885bf", "7755d48b8f", "5c8958665b"}},
		{"DEP-23a a seccomp profile of a container",
			`,"securityContext":{"seccompProfile":{"type":"Localhost","localhostProfile":"web.json"}}`, ``,
			[3]string{"86c54b6df4", "86c6cd8486", "59888cf5cf"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			template := received(t, `{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"nginx:1.27"`+
				c.container+`}]`+c.pod+`}}`)
			for i, n := range []*int32{nil, ptr.To[int32](0), ptr.To[int32](1)} {
				if got := TemplateHash(template, n); got != c.want[i] {
					t.Errorf("collisions %v: got %s, want %s", n, got, c.want[i])
				}
			}
		})
	}
}

// received is a template as the API server sends it, in protobuf, where a user has written this.
func received(t *testing.T, text string) *corev1.PodTemplateSpec {
	t.Helper()
	var written, template corev1.PodTemplateSpec
	if err := json.Unmarshal([]byte(text), &written); err != nil {
		t.Fatal(err)
	}
	data, err := written.Marshal()
	if err == nil {
		err = template.Unmarshal(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &template
}

// TestHash: the sums were computed apart from this code, by the recipe of the fact.
func TestHash(t *testing.T) {
	data := []byte(`{"spec":{"template":{"$patch":"replace"}}}`)
	for _, c := range []struct {
		name       string
		collisions int32
		want       string
	}{
		{"STS-31 the first", 0, "589f85db5b"},
		{"STS-31 after a collision", 1, "589f85db5c"},
		{"STS-31 after many collisions", 12, "7f56c4fd77"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Hash(data, c.collisions); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestName(t *testing.T) {
	for _, c := range []struct{ name, owner, hash, want string }{
		{"STS-30 the hash follows the owner's name", "web", "5547cb94", "web-5547cb94"},
		{"a name that would be too long is cut", strings.Repeat("a", 253), "5547cb94", strings.Repeat("a", 244) + "-5547cb94"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Name(c.owner, c.hash)
			if got != c.want {
				t.Errorf("got %s", got)
			}
			if bad := validation.IsDNS1123Subdomain(got); bad != nil {
				t.Error(bad)
			}
		})
	}
}
