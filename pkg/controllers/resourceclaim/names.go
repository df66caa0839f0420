package resourceclaim

import (
	"encoding/binary"
	"hash/fnv"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
)

const (
	longestPrefix = 57 // of a name, so that it is no longer than a label with what follows
	suffixLength  = 5
)

// prefixOf is how the names of the claims begin that are made for an entry of a user (RC-123). If that would be too
// long, the names of both are cut in proportion to their lengths.
func prefixOf(user, entry string) string {
	if prefix := user + "-" + entry + "-"; len(prefix) <= longestPrefix {
		return prefix
	}
	total := len(user) + len(entry)
	user, entry = user[:len(user)*longestPrefix/total], entry[:len(entry)*longestPrefix/total]
	return strings.TrimRight(user, "-.") + "-" + entry
}

// claimName is the name of the claim of an entry of a user. It follows from the uid of the user, so that a claim whose
// creation was not answered is not created twice. If somebody else has the name, the next attempt has another one.
func claimName(user metav1.Object, entry string, attempt int) string {
	h := fnv.New64a()
	for _, part := range []string{string(user.GetUID()), entry, strconv.Itoa(attempt)} {
		_, _ = h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		_, _ = h.Write([]byte(part))
	}
	// As names that the API server makes up end, without vowels.
	suffix := rand.SafeEncodeString(strconv.FormatUint(h.Sum64(), 27))
	return prefixOf(user.GetName(), entry) + suffix[len(suffix)-suffixLength:]
}
