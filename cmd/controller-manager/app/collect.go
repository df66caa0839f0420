package app

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

const collectHelp = `Collect what somebody needs who is to help you with a manager: of each manager and observer in kube-system its arguments,
log, health, settings, metrics and what its controllers have decided, and who holds the leases. It reads with your own
rights, as kubectl does, and writes one archive. No Secret is read. What could not be read is in errors.txt.`

const (
	// mostCollected bounds the bytes of one file of a bundle.
	mostCollected = 32 << 20
	// collectedWithin bounds how long the pages of one manager may take.
	collectedWithin = time.Minute
)

// collectedPages are those of a manager, by the names of their files. None of them has the content of objects.
var collectedPages = []struct{ file, page string }{
	{"livez.txt", "/livez?verbose"}, {"readyz.txt", "/readyz?verbose"}, {"configz.json", "/configz"},
	{"metrics.txt", "/metrics"}, {"explain.json", "/debug/explain"}, {"agreement.json", agreementPath},
}

// newCollectCommand makes an archive for those who help.
func newCollectCommand() *cobra.Command {
	o := whyOptions{timeout: time.Minute}
	var file string
	c := &cobra.Command{
		Use:     "collect",
		Short:   "Collect logs, settings and decisions of managers in an archive, without secrets",
		Long:    collectHelp,
		Example: "  controller-manager collect --file=bundle.tar.gz --kubeconfig=admin.conf",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			klog.SetLogger(klog.Logger{}) // what libraries log is in errors.txt
			a, err := o.asker()
			if err != nil {
				return err
			}
			found, err := a.collectInto(c.Context(), file)
			if err != nil {
				return fmt.Errorf("--file=%s: %w", file, err)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(),
				"%s has %d files of %d pods. %d could not be read, see errors.txt in it.\n",
				file, found.files, found.pods, len(found.errors))
			return err
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "controller-manager-bundle.tar.gz",
		"The archive to write. It must not exist.")
	c.Flags().StringVar(&o.kubeconfig, "kubeconfig", "", "File that says how to reach the API server, and as whom.")
	c.Flags().BoolVar(&o.sendToken, "send-token", false,
		"Send your token to the managers: they, and the nodes that they run on, could use it.")
	return c
}

// bundle is an archive that is being written.
type bundle struct {
	tar         *tar.Writer
	now         time.Time
	files, pods int
	errors      []string
}

// add writes a file. What could not be read, or not all of it, is noted.
func (b *bundle) add(name string, text []byte, err error) error {
	if err != nil {
		b.errors = append(b.errors, fmt.Sprintf("%s: %v", name, err))
	}
	if len(text) == 0 {
		return nil
	}
	b.files++
	header := &tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)), ModTime: b.now}
	if err := b.tar.WriteHeader(header); err != nil {
		return err
	}
	_, err = b.tar.Write(text)
	return err
}

// collectInto writes the archive, which only its owner may read.
func (a *whyAsker) collectInto(ctx context.Context, file string) (found *bundle, err error) {
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	packed := gzip.NewWriter(out)
	found = &bundle{tar: tar.NewWriter(packed), now: time.Now()}
	err = a.collect(ctx, found)
	return found, errors.Join(err, found.tar.Close(), packed.Close(), out.Close())
}

func (a *whyAsker) collect(ctx context.Context, b *bundle) error {
	reader, err := a.clients.Kubernetes()
	if err != nil {
		return err
	}
	own, err := json.MarshalIndent(thisBuild(), "", "  ")
	if err := b.add("version.json", own, err); err != nil {
		return err
	}
	server, _, err := askVersion(ctx, a.config)
	if err := b.add("server.txt", []byte(server), err); err != nil {
		return err
	}
	for _, name := range []string{"kube-controller-manager", "standalone-controller-manager"} {
		lease, err := reader.CoordinationV1().Leases(managersNamespace).Get(ctx, name, metav1.GetOptions{})
		var text []byte
		if err == nil {
			lease.ManagedFields = nil
			text, err = yaml.Marshal(lease)
		}
		if err := b.add("lease-"+name+".yaml", text, err); err != nil {
			return err
		}
	}
	credentials := throughTunnel(a.config, a.sendToken)
	pods, err := a.keepers(ctx)
	if err != nil {
		b.errors = append(b.errors, fmt.Sprintf("pods of managers: %v", err))
	}
	for _, pod := range pods {
		b.pods++
		if err := a.collectPod(ctx, reader, pod, credentials, b); err != nil {
			return err
		}
	}
	var text []byte
	for _, line := range b.errors {
		text = append(text, line+"\n"...)
	}
	return b.add("errors.txt", text, nil)
}

// collectPod adds what is known of one manager.
func (a *whyAsker) collectPod(
	ctx context.Context, reader kubernetes.Interface, pod corev1.Pod, credentials *rest.Config, b *bundle,
) error {
	text, err := yaml.Marshal(publicPart(pod))
	if err := b.add(path.Join(pod.Name, "pod.yaml"), text, err); err != nil {
		return err
	}
	for name, previous := range map[string]bool{"log.txt": false, "log-previous.txt": true} {
		text, err := reader.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
			Previous: previous, LimitBytes: ptr.To[int64](mostCollected)}).DoRaw(ctx)
		if err := b.add(path.Join(pod.Name, name), text, err); err != nil {
			return err
		}
	}
	if credentials == nil {
		b.errors = append(b.errors, pod.Name+": it was not asked: you have no client certificate, see --send-token")
		return nil
	}
	var broken error // of the archive, which ends all
	ask := func(ctx context.Context, asking *http.Client, at string) error {
		for _, each := range collectedPages {
			text, err := readPage(ctx, asking, at+each.page)
			if broken = b.add(path.Join(pod.Name, each.file), text, err); broken != nil {
				return nil
			}
		}
		return nil
	}
	if err := a.through(ctx, pod, credentials, collectedWithin, ask); err != nil {
		b.errors = append(b.errors, fmt.Sprintf("%s: %v", pod.Name, err))
	}
	return broken
}

// publicPart is what a bundle says of a pod: no environment and no annotation, in which people keep credentials.
func publicPart(pod corev1.Pod) *corev1.Pod {
	public := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Labels: pod.Labels,
			CreationTimestamp: pod.CreationTimestamp},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName, HostNetwork: pod.Spec.HostNetwork},
		Status: pod.Status,
	}
	for _, c := range pod.Spec.Containers {
		public.Spec.Containers = append(public.Spec.Containers, corev1.Container{
			Name: c.Name, Image: c.Image, Command: c.Command, Args: c.Args, Resources: c.Resources})
	}
	return public
}

// readPage reads a page of a manager. A check that fails is told with a status of its own, and is what people want to
// read.
func readPage(ctx context.Context, asking *http.Client, at string) ([]byte, error) {
	answer, err := getThrough(ctx, asking, at)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostCollected))
	if answer.StatusCode != http.StatusOK {
		err = cmp.Or(err, errors.New(answer.Status))
	}
	return text, err
}
