package engine

import (
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Hooks are told what the engine does, for metrics. Each may be nil; none may block. No argument grows with the cluster.
type Hooks struct {
	Pass  func(controller string, err error, took time.Duration)          // one look at a key
	Write func(controller string, verb plan.Verb, kind string, err error) // one request that writes
	Stale func(controller string, kind Kind)                              // a look put off: the cache lacks own writes (RS-9)
	Panic func(controller string)                                         // a panic caught at a key
}

func (h Hooks) pass(controller string, err error, took time.Duration) {
	if h.Pass != nil {
		h.Pass(controller, err, took)
	}
}

func (h Hooks) write(controller string, verb plan.Verb, k Kind, err error) {
	if h.Write != nil {
		h.Write(controller, verb, k.Kind, err)
	}
}

func (h Hooks) stale(controller string, k Kind) {
	if h.Stale != nil {
		h.Stale(controller, k)
	}
}

func (h Hooks) panicked(controller string) {
	if h.Panic != nil {
		h.Panic(controller)
	}
}
