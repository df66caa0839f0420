package tidy

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/standalone-kcm/controller-manager/internal/workloads/history"
)

var nameOfWeb = regexp.MustCompile(`(?m)(?:^|\breplicaset\.apps[/ ]"?)web-(\w+)`)

// TestPagesShowTheHashOfTheExample: the ReplicaSet of examples/web.yaml has the name that docs/tutorial.md shows. The defaults are those
// that the API server stores.
func TestPagesShowTheHashOfTheExample(t *testing.T) {
	text, _, _ := strings.Cut(read(t, "examples/web.yaml"), "\n---\n")
	web := &appsv1.Deployment{}
	if err := yaml.UnmarshalStrict([]byte(text), web); err != nil {
		t.Fatal(err)
	}
	spec := &web.Spec.Template.Spec
	spec.RestartPolicy, spec.DNSPolicy, spec.SchedulerName = corev1.RestartPolicyAlways, corev1.DNSClusterFirst, corev1.DefaultSchedulerName
	spec.TerminationGracePeriodSeconds, spec.SecurityContext = ptr.To[int64](30), &corev1.PodSecurityContext{}
	c := &spec.Containers[0]
	c.TerminationMessagePath, c.TerminationMessagePolicy = corev1.TerminationMessagePathDefault, corev1.TerminationMessageReadFile
	c.ImagePullPolicy, c.Ports[0].Protocol = corev1.PullIfNotPresent, corev1.ProtocolTCP
	probe := c.ReadinessProbe
	probe.TimeoutSeconds, probe.PeriodSeconds, probe.SuccessThreshold, probe.FailureThreshold = 1, 10, 1, 3
	probe.HTTPGet.Scheme = corev1.URISchemeHTTP
	want := history.TemplateHash(&web.Spec.Template, nil)
	shown := nameOfWeb.FindAllStringSubmatch(read(t, "docs/tutorial.md"), -1)
	for _, each := range shown {
		if each[1] != want {
			t.Errorf("docs/tutorial.md shows the ReplicaSet web-%s, but it is web-%s", each[1], want)
		}
	}
	if len(shown) < 2 {
		t.Errorf("docs/tutorial.md shows only %d names", len(shown))
	}
}

// mountedByKubeadm are the folders that kubeadm mounts into the pod of kube-controller-manager, by the names of their volumes, on
// machines that have all of them: Debian and Fedora, in old versions and new ones.
var mountedByKubeadm = map[string]string{
	"ca-certs":                        "/etc/ssl/certs",
	"etc-ca-certificates":             "/etc/ca-certificates",
	"etc-pki":                         "/etc/pki",
	"etc-pki-ca-trust":                "/etc/pki/ca-trust",
	"etc-pki-tls-certs":               "/etc/pki/tls/certs",
	"flexvolume-dir":                  "/usr/libexec/kubernetes/kubelet-plugins/volume/exec",
	"k8s-certs":                       "/etc/kubernetes/pki",
	"usr-local-share-ca-certificates": "/usr/local/share/ca-certificates",
	"usr-share-ca-certificates":       "/usr/share/ca-certificates",
}

// TestPatchOfKubeadmsManifest: with the patch, the pod that kubeadm makes mounts what our manifest does, and nothing else, whatever
// kubeadm has found on the machine.
func TestPatchOfKubeadmsManifest(t *testing.T) {
	ours := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(read(t, "deploy/static-pod/kube-controller-manager.yaml")), ours); err != nil {
		t.Fatal(err)
	}
	patch, err := yaml.YAMLToJSON([]byte(read(t, "deploy/static-pod/patches/kube-controller-manager+strategic.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range [][]string{{"ca-certs", "k8s-certs"}, slices.Sorted(maps.Keys(mountedByKubeadm))} {
		theirs := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "kube-controller-manager"}}}}
		mount := func(name, path string) {
			theirs.Spec.Volumes = append(theirs.Spec.Volumes, corev1.Volume{Name: name,
				VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}})
			c := &theirs.Spec.Containers[0]
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: name != "flexvolume-dir"})
		}
		for _, name := range found {
			mount(name, mountedByKubeadm[name])
		}
		mount("kubeconfig", "/etc/kubernetes/controller-manager.conf")
		document, err := json.Marshal(theirs)
		if err != nil {
			t.Fatal(err)
		}
		patched, err := strategicpatch.StrategicMergePatch(document, patch, &corev1.Pod{})
		if err != nil {
			t.Fatal(err)
		}
		got := &corev1.Pod{}
		if err := json.Unmarshal(patched, got); err != nil {
			t.Fatal(err)
		}
		if got, want := mountsOf(got), mountsOf(ours); !slices.Equal(got, want) {
			t.Errorf("with %v, the pod mounts %v, want %v", found, got, want)
		}
	}
}

// mountsOf returns the names of the volumes, and where they are mounted.
func mountsOf(pod *corev1.Pod) (all []string) {
	for _, v := range pod.Spec.Volumes {
		all = append(all, "volume "+v.Name)
	}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		all = append(all, m.Name+" at "+m.MountPath)
	}
	slices.Sort(all)
	return all
}
