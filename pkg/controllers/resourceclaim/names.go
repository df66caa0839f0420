package resourceclaim

import (
	"encoding/binary"
	"hash/fnv"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
)

const (
	longestPrefix = 57 // of a name, so that it is no longer than a label with what follows
	suffixLength  = 5
)

// prefixOf is how the names of the claims begin that are made for an entry of a pod (RC-123). If that would be too
// long, the names of both are cut in proportion to their lengths.
func prefixOf(pod, entry string) string {
	if prefix := pod + "-" + entry + "-"; len(prefix) <= longestPrefix {
		return prefix
	}
	total := len(pod) + len(entry)
	pod, entry = pod[:len(pod)*longestPrefix/total], entry[:len(entry)*longestPrefix/total]
	return strings.TrimRight(pod, "-.") + "-" + entry
}

// claimName is the name of the claim of an entry of a pod. It follows from the uid of the pod, so that a claim whose
// creation was not answered is not created twice. If somebody else has the name, the next attempt has another one.
func claimName(pod *corev1.Pod, entry string, attempt int) string {
	h := fnv.New64a()
	for _, part := range []string{string(pod.UID), entry, strconv.Itoa(attempt)} {
		_, _ = h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		_, _ = h.Write([]byte(part))
	}
	// As names that the API server makes up end, without vowels.
	suffix := rand.SafeEncodeString(strconv.FormatUint(h.Sum64(), 27))
	return prefixOf(pod.Name, entry) + suffix[len(suffix)-suffixLength:]
}
