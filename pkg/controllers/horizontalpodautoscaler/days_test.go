package horizontalpodautoscaler

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// images is where the documentation keeps the curves.
const images = "../../../docs/images"

// day is a day of an application, in virtual time: how much is asked of it, and how its pods behave.
type day struct {
	title    string
	load     func(hour float64) int64 // in thousandths of a CPU, or of a message
	each     int64                    // of the load that a replica is to take, for the image
	edits    []autoscalerEdit
	toZero   bool
	external bool          // the load is an external metric; else it is the CPU that pods use
	starts   time.Duration // until a pod is ready
	warmUp   int64         // what a pod uses besides until it has been ready for a minute
	restart  float64       // the hour at which another process becomes the leader; zero for none
}

// hump is a bell of a height around an hour.
func hump(hour, at, width, height float64) float64 {
	return height * math.Exp(-(hour-at)*(hour-at)/(2*width*width))
}

func days() map[string]day {
	noise := func(hour float64) float64 { return 1 + 0.06*math.Sin(hour*97) + 0.04*math.Sin(hour*341+1) }
	slow := rulesWith(300, autoscalingv2.MaxChangePolicySelect, policy(autoscalingv2.PodsScalingPolicy, 1, 60))
	fast := rulesWith(0, autoscalingv2.MaxChangePolicySelect, policy(autoscalingv2.PercentScalingPolicy, 50, 30),
		policy(autoscalingv2.PodsScalingPolicy, 2, 30))
	return map[string]day{
		"shop": {
			title: "A shop: busy at noon and in the evening", each: 60, starts: 30 * time.Second, restart: 13,
			load: func(h float64) int64 {
				return int64((100 + hump(h, 12, 1.5, 600) + hump(h, 19.5, 2, 1000)) * noise(h))
			},
			edits: []autoscalerEdit{between(2, 20), measuring(utilized(corev1.ResourceCPU, 60))},
		},
		"spikes": {
			title: "Spikes: up by half every 30 s, down by one pod a minute", each: 50, starts: 20 * time.Second,
			load: func(h float64) int64 {
				n := 150.0
				for _, at := range []float64{3, 9, 9.4, 16} {
					if h >= at && h < at+0.2 {
						n = 900
					}
				}
				return int64(n * noise(h))
			},
			edits: []autoscalerEdit{between(2, 24), measuring(used(corev1.ResourceCPU, "50m")), behaving(fast, slow)},
		},
		"warmup": {
			title: "Pods that use much CPU while they start", each: 50, starts: 90 * time.Second, warmUp: 100,
			load:  func(h float64) int64 { return int64((200 + hump(h, 10, 2, 500)) * noise(h)) },
			edits: []autoscalerEdit{between(2, 30), measuring(utilized(corev1.ResourceCPU, 50))},
		},
		"queue": {
			title: "A queue: scaled to zero between batches", each: 10_000, starts: 10 * time.Second, external: true, toZero: true,
			load: func(h float64) int64 {
				for _, at := range []float64{1, 6.5, 14} {
					if h >= at && h < at+1 {
						return int64(90_000 * (1 - (h - at)))
					}
				}
				return 0
			},
			edits: []autoscalerEdit{between(0, 10), measuring(external("queue", averaging("10"), nil))},
		},
	}
}

// A diary has each scale of a day, and the image its curve. Whoever changes one should read what has changed.
func TestDays(t *testing.T) { // HPA-20..50
	for name, d := range days() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := d.play()
			plantest.Golden(t, filepath.Join("testdata", name+".txt"), app.diary.String())
			plantest.Golden(t, filepath.Join(images, "horizontalpodautoscaler-"+name+".svg"), app.image())
		})
	}
}

// application is an application in the course of a day.
type application struct {
	day
	now        time.Time
	autoscaler *autoscalingv2.HorizontalPodAutoscaler
	replicas   int32
	pods       []*corev1.Pod
	made       int
	memory     *memory
	diary      strings.Builder
	loads      []float64 // in replicas, every five minutes
	sizes      []int32   // every period
}

// play lets a day pass, a period at a time.
func (d day) play() *application {
	a := &application{day: d, now: now.Truncate(24 * time.Hour), autoscaler: web(d.edits...),
		replicas: max(1, *web(d.edits...).Spec.MinReplicas)}
	fmt.Fprintln(&a.diary, d.title)
	began := a.now
	for a.now.Sub(began) < 24*time.Hour {
		hour := a.now.Sub(began).Hours()
		if d.restart > 0 && math.Abs(hour-d.restart) < 1e-9 {
			a.memory = nil
			a.tell("another process becomes the leader")
		}
		a.runPods()
		a.evaluate(d.load(hour))
		if len(a.sizes)%20 == 0 {
			a.loads = append(a.loads, float64(d.load(hour))/float64(d.each))
		}
		a.sizes = append(a.sizes, a.replicas)
		a.now = a.now.Add(15 * time.Second)
	}
	return a
}

func (a *application) tell(format string, args ...any) {
	fmt.Fprintf(&a.diary, a.now.Format("15:04:05 ")+format+"\n", args...)
}

// runPods makes and removes pods, and lets those that have started become ready.
func (a *application) runPods() {
	for int(a.replicas) > len(a.pods) {
		p := pod(a.made, phase(corev1.PodPending), func(p *corev1.Pod) { p.Status.StartTime, p.Status.Conditions = nil, nil })
		a.made++
		a.pods = append(a.pods, p)
	}
	a.pods = a.pods[:a.replicas]
	for _, p := range a.pods {
		ago := func(t time.Time) time.Duration { return now.Sub(t) }
		switch started := p.Status.StartTime; {
		case started == nil:
			phase(corev1.PodRunning)(p)
			p.Status.StartTime = pod(0).Status.StartTime.DeepCopy()
			p.Status.StartTime.Time = a.now
			ready(corev1.ConditionFalse, ago(a.now))(p)
		case p.Status.Conditions[0].Status == corev1.ConditionFalse && a.now.Sub(started.Time) >= a.starts:
			ready(corev1.ConditionTrue, ago(a.now))(p)
		}
	}
}

// measure is what the metrics API says.
func (a *application) measure(load int64) (r reading) {
	if a.external {
		return reading{Sum: load}
	}
	serving := int64(0)
	for _, p := range a.pods {
		if p.Status.Conditions[0].Status == corev1.ConditionTrue {
			serving++
		}
	}
	r.Pods = map[string]sample{}
	for _, p := range a.pods {
		use, c := int64(0), p.Status.Conditions[0]
		if c.Status == corev1.ConditionTrue {
			use = min(load/max(serving, 1), 400)
		}
		if c.Status != corev1.ConditionTrue || a.now.Sub(c.LastTransitionTime.Time) < time.Minute {
			use += a.warmUp
		}
		if a.now.Sub(p.Status.StartTime.Time) >= 15*time.Second {
			r.Pods[p.Name] = sample{use, a.now, 15 * time.Second}
		}
	}
	return r
}

// evaluate is what the controller does in a period.
func (a *application) evaluate(load int64) {
	s := at(0, 0, answered(a.measure(load)), func(s *snapshot) {
		s.Autoscaler, s.Pods, s.Known, s.Settings.ToZero = a.autoscaler, a.pods, a.memory != nil, a.toZero
		s.Target.Replicas, s.Target.Observed = a.replicas, int32(len(a.pods))
		if a.memory != nil {
			s.History, s.StaleSince = a.memory.History, a.memory.staleSince(a.autoscaler)
		}
	})
	p := planned(a.now, s)
	did := carriedOut(p)
	a.memory = remembered(a.now, s, did)
	if status := writtenBy(reported(a.now, s, did)); status != nil {
		a.autoscaler = a.autoscaler.DeepCopy()
		a.autoscaler.Status = *status
	}
	step := scaledBy(p)
	if step == nil {
		return
	}
	to := step.New.(*autoscalingv1.Scale).Spec.Replicas
	a.tell("load %d: from %d to %d, %s; %s", load, a.replicas, to, step.Why, reasonOf(a.autoscaler.Status, limits))
	a.replicas = to
}

// The size of an image.
const (
	width, height = 960, 300
	left, top     = 40, 30
	right         = width - 20
)

// image is the curve of the day: how many replicas the load asks for, and how many there are.
func (a *application) image() string {
	most := 1.0
	for _, n := range a.loads {
		most = max(most, n)
	}
	for _, n := range a.sizes {
		most = max(most, float64(n))
	}
	x := func(hour float64) float64 { return left + hour/24*(right-left) }
	y := func(n float64) float64 { return top + (1-n/most)*(height-top-30) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width,
		height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="%d" y="18" font-size="14">%s</text>`+"\n", left, a.title)
	for hour := 0; hour <= 24; hour += 3 {
		fmt.Fprintf(&b, `<path d="M%.1f %d V%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle">%02d:00</text>`+"\n",
			x(float64(hour)), top, height-30, x(float64(hour)), height-12, hour)
	}
	for _, n := range []float64{0, math.Round(most / 2), math.Floor(most)} {
		fmt.Fprintf(&b, `<path d="M%d %.1f H%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.0f</text>`+"\n", left, y(n), right,
			left-6, y(n)+4, n)
	}
	b.WriteString(`<path fill="none" stroke="#c60" d="`)
	for i, n := range a.loads {
		fmt.Fprintf(&b, "%s%.1f %.1f", map[bool]string{true: "M", false: " L"}[i == 0], x(float64(i)/12), y(n))
	}
	fmt.Fprintf(&b, `"/>`+"\n"+`<path fill="none" stroke="#06c" stroke-width="1.5" d="M%.1f %.1f`, x(0), y(float64(a.sizes[0])))
	for i, n := range a.sizes {
		if i > 0 && n != a.sizes[i-1] {
			fmt.Fprintf(&b, " H%.1f V%.1f", x(float64(i)/240), y(float64(n)))
		}
	}
	fmt.Fprintf(&b, ` H%.1f"/>`+"\n", x(24))
	fmt.Fprintf(&b,
		`<text x="%d" y="18" text-anchor="end"><tspan fill="#c60">replicas that the load asks for</tspan> <tspan fill="#06c">replicas</tspan></text>`+"\n</svg>\n", right)
	return b.String()
}
