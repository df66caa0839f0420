package serving

import (
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// repeated is how soon another problem of one kind is logged: each request, and each look at a file, may meet it again.
const repeated = time.Minute

// problems keeps the log from being flooded: it says once what goes wrong, until it is over. The zero value is ready.
type problems struct {
	mu   sync.Mutex
	told map[string]problem // by kind
}

type problem struct {
	text string
	at   time.Time
}

// report logs err, unless that has been done. A text that changes (it may name a port) is worth a line a minute.
func (p *problems) report(logger klog.Logger, kind string, err error, message string, keysAndValues ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, known := p.told[kind]
	if known && (last.text == err.Error() || time.Since(last.at) < repeated) {
		return
	}
	if p.told == nil {
		p.told = map[string]problem{}
	}
	p.told[kind] = problem{err.Error(), time.Now()}
	logger.Error(err, message, keysAndValues...)
}

// over forgets a problem, and tells whether there was one.
func (p *problems) over(kind string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, known := p.told[kind]
	delete(p.told, kind)
	return known
}
