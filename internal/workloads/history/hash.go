package history

import (
	"encoding/binary"
	"hash/fnv"
	"io"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"
)

// longestName is the longest name that the server takes for a ControllerRevision.
const longestName = 253

// Name returns the name of a revision with this hash. The name of a very long-named owner is cut.
func Name(owner, hash string) string {
	return owner[:min(len(owner), max(0, longestName-1-len(hash)))] + "-" + hash
}

// Hash distinguishes the revisions of a StatefulSet in names and labels: the hash of its data, and of the number of
// collisions so far (STS-31). Decisions compare data, never hashes.
func Hash(data []byte, collisions int32) string {
	sum := fnv.New32()
	sum.Write(data) // a hash never fails to write
	io.WriteString(sum, strconv.FormatInt(int64(collisions), 10))
	return encode(sum.Sum32())
}

// TemplateHash distinguishes templates in the names and labels of ReplicaSets and of the revisions of DaemonSets, never
// in decisions: its value differs between versions of the API library (DEP-24). The recipe (DEP-22, DS-51) keeps names
// equal when a cluster changes from one controller to the other.
func TemplateHash(t *corev1.PodTemplateSpec, collisions *int32) string {
	sum := fnv.New32a()
	io.WriteString(sum, dump.ForHash(*t)) // a hash never fails to write
	if collisions != nil {
		var tail [8]byte
		binary.LittleEndian.PutUint32(tail[:], uint32(*collisions))
		sum.Write(tail[:])
	}
	return encode(sum.Sum32())
}

// TemplateName returns the name that an object of the owner gets which stands for a template, and the hash in it.
func TemplateName(owner string, t *corev1.PodTemplateSpec, collisions *int32) (name, hash string) {
	hash = TemplateHash(t, collisions)
	return Name(owner, hash), hash
}

// encode writes a sum as a text that may be a part of a name and spells no word.
func encode(sum uint32) string { return rand.SafeEncodeString(strconv.FormatUint(uint64(sum), 10)) }
