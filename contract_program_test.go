package tidy

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// kubeadm's manifest calls the program by the original's name: the image has it, and the manifest that takes the place of kubeadm's
// uses it.
func TestContractCLI75NameOfTheProgram(t *testing.T) {
	const name = "kube-controller-manager"
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(read(t, "deploy/static-pod/kube-controller-manager.yaml")), pod); err != nil {
		t.Fatal(err)
	}
	if command := pod.Spec.Containers[0].Command; len(command) < 2 || command[0] != name || len(pod.Spec.Containers[0].Args) > 0 {
		t.Errorf("the command is %q, with the arguments %q", command, pod.Spec.Containers[0].Args)
	}
	for maker, line := range map[string]string{
		"Dockerfile":               "ln -s controller-manager /image/" + name + "\n",
		"hack/tools/image/main.go": `var names = []string{"controller-manager", "` + name + `"}`,
	} {
		if !strings.Contains(read(t, maker), line) {
			t.Errorf("%s does not put %s into the image", maker, name)
		}
	}
}
