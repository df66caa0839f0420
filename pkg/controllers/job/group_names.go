package job

import (
	"fmt"
	"hash/fnv"
	"io"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"
)

// The longest names that the server takes for a Workload or a PodGroup, and for a template.
const (
	longestName     = 253
	longestTemplate = 63
)

// workloadName is the name of the Workload that a Job has of its own. Another Job of the same name has another one.
func workloadName(j *batchv1.Job) string {
	hash := hashOf(dump.ForHash(j.UID))
	return j.Name[:min(len(j.Name), longestName-1-len(hash))] + "-" + hash
}

// templateName is the name of the only template of that Workload. Unlike that of a Job it has no dots.
func templateName(j *batchv1.Job) string {
	const suffix = "-pgt-0"
	return strings.ReplaceAll(j.Name[:min(len(j.Name), longestTemplate-len(suffix))], ".", "-") + suffix
}

// podGroupName is the name of the PodGroup that a Job makes of a template. Jobs that have a template in common have
// a PodGroup each. Names that are too long share the room.
func podGroupName(job types.UID, workload, template string) string {
	hash := hashOf(workload, "\x00", template, "\x00", string(job))
	room := longestName - len(hash) - len("--")
	if long := len(workload) + len(template) - room; long > 0 {
		half := room / 2
		cut := min(long, max(0, len(workload)-(room-half)))
		workload = workload[:len(workload)-cut]
		template = template[:min(len(template), room-len(workload))]
	}
	return fmt.Sprintf("%s-%s-%s", workload, template, hash)
}

// hashOf is the hash of texts as one, as a text that may be a part of a name and spells no word.
func hashOf(texts ...string) string {
	sum := fnv.New32a()
	for _, text := range texts {
		io.WriteString(sum, text) // a hash never fails to write
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(sum.Sum32()), 10))
}
