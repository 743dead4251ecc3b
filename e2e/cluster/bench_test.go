//go:build controlplane

package cluster_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"sallyport/e2e/cluster"
)

const (
	jsonPatch = types.JSONPatchType
	// profilesVariable names the folder for profiles of the binary, an absolute path. Empty: none are taken.
	profilesVariable = "BENCH_PROFILES"
	manyChanges      = 200
	churn            = 50 // endpoints a second
	churnLasts       = 30 * time.Second
	mebibyte         = 1 << 20
)

// BenchmarkScale measures one replica in a large cluster: 10,000 Ingresses, 2,000 Services and 50,000 endpoints in a real
// API server. It prints what was reached, each figure on a line with what is aimed at, and fails on none of them; run it
// with `make bench-scale` on a machine that does nothing else.
func BenchmarkScale(b *testing.B) {
	c := cluster.Start(b)
	c.Apply(b, app("web", 2)+ingress("probe", ours, "rules:", rule("probe.test", "/start", "Prefix", "web")))
	began := time.Now()
	crowd := newCrowd(b, c.Client())
	figure("cluster", "%d Ingresses, %d Services, %d endpoints in %d slices, made in %.0f s", manyIngresses, manyServices, manyEndpoints, len(crowd.slices), time.Since(began).Seconds())
	figure("machine", "%d cores, %s", runtime.NumCPU(), runtime.Version())

	statuses, loaded := watchStatuses(b, c.Client()), apiServerCPU(b, c.Client())
	// Ten thousand Events for Ingresses first served would be written for minutes, at their limit of fifty a second.
	s := c.Launch(b, "--publish-status-address=203.0.113.9", "--disable-sync-events", "--profiling")
	launched := time.Now()
	profiles := takeProfile(b, s, "start", "profile?seconds=10")
	awaitReady(b, s)
	figure("start to ready", "%.2f s (aim: 10 s)", time.Since(launched).Seconds())
	statuses.await(b)
	figure("start to the last status", "%.1f s, of which the API server computed %.1f s", time.Since(launched).Seconds(), apiServerCPU(b, c.Client())-loaded)
	profiles.Wait()

	settle(b, s)
	printMemory(b, s, "at rest")
	takeProfile(b, s, "rest", "heap").Wait()
	probe := &probe{client: c.Client(), s: s}
	s.Expect(b, "http://probe.test/start", cluster.Served("web"))
	probe.print(b, "a change to its effect", manyChanges, 0)

	profiles = takeProfile(b, s, "churn", "profile?seconds=25")
	churning(b, crowd, s, func() {
		probe.print(b, "a change to its effect, meanwhile", manyChanges, churnLasts/manyChanges)
	})
	profiles.Wait()
	settle(b, s)
	printMemory(b, s, "after that")
}

// figure prints one line of the result.
func figure(name, format string, a ...any) {
	fmt.Printf("%-36s %s\n", name+":", fmt.Sprintf(format, a...))
}

func awaitReady(b *testing.B, s *cluster.Sallyport) {
	b.Helper()
	await(b, 5*time.Millisecond, "sallyport to be ready", func() bool { return s.Ready() == nil })
}

// await asks at intervals until the answer is yes, for minutes: this harness measures and does not judge.
func await(b *testing.B, every time.Duration, what string, done func() bool) {
	b.Helper()
	again, late := time.NewTicker(every), time.NewTimer(5*time.Minute)
	defer again.Stop()
	defer late.Stop()
	for !done() {
		select {
		case <-again.C:
		case <-late.C:
			b.Fatalf("waited five minutes in vain for %s", what)
		}
	}
}

// settle waits until the process has next to nothing to do.
func settle(b *testing.B, s *cluster.Sallyport) {
	b.Helper()
	const window, idle = 2 * time.Second, 0.05
	before := 0.0 // the CPU time at the end of the last window; there is none yet
	await(b, window, "sallyport to be idle", func() bool {
		now := s.Metric(b, "process_cpu_seconds_total")
		used := now - before
		before = now
		return used < idle*window.Seconds()
	})
}

// printMemory prints the heap as it is, and what is left of it when garbage is gone.
func printMemory(b *testing.B, s *cluster.Sallyport, when string) {
	b.Helper()
	used, resident := s.Metric(b, "go_memstats_heap_inuse_bytes"), s.Metric(b, "process_resident_memory_bytes")
	s.AdminGet(b, "/debug/pprof/heap?gc=1")
	figure("memory "+when, "%.0f MiB resident (aim: 400 MiB), %.0f MiB of heap in use, %.0f MiB of it alive",
		resident/mebibyte, used/mebibyte, s.Metric(b, "go_memstats_heap_alloc_bytes")/mebibyte)
}

// takeProfile writes a profile to the folder for profiles. It may be waited for.
func takeProfile(b *testing.B, s *cluster.Sallyport, name, page string) *sync.WaitGroup {
	var taken sync.WaitGroup
	folder := os.Getenv(profilesVariable)
	if folder == "" {
		return &taken
	}
	taken.Go(func() {
		profile, err := fetchProfile("http://" + s.Admin + "/debug/pprof/" + page)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name+".pprof"), profile, 0o644)
		}
		if err != nil {
			b.Errorf("profile %s: %v", name, err)
		}
	})
	return &taken
}

// fetchProfile asks until it is answered, for ten seconds: the process may be opening its ports just now.
func fetchProfile(url string) ([]byte, error) {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	answer, err := http.Get(url)
	for began := time.Now(); err != nil && time.Since(began) < 10*time.Second; answer, err = http.Get(url) {
		<-again.C
	}
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return io.ReadAll(answer.Body)
}

// apiServerCPU is the CPU time that the API server has used, in seconds.
func apiServerCPU(b *testing.B, client kubernetes.Interface) float64 {
	b.Helper()
	page, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "process_cpu_seconds_total "); ok {
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				b.Fatal(err)
			}
			return value
		}
	}
	b.Fatal("the API server does not say how much it computed")
	return 0
}

// A statusWatch sees the statuses of Ingresses come.
type statusWatch struct{ all chan struct{} } // closed when every Ingress has one

func watchStatuses(b *testing.B, client kubernetes.Interface) *statusWatch {
	b.Helper()
	list, err := client.NetworkingV1().Ingresses("").List(b.Context(), metav1.ListOptions{ResourceVersion: "0", Limit: 1})
	if err != nil {
		b.Fatal(err)
	}
	events, err := client.NetworkingV1().Ingresses("").Watch(b.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		b.Fatal(err)
	}
	w := &statusWatch{all: make(chan struct{})}
	go w.count(events)
	return w
}

func (w *statusWatch) count(events watch.Interface) {
	seen := make(map[types.UID]struct{})
	for event := range events.ResultChan() {
		ingress, ok := event.Object.(*networkingv1.Ingress)
		if ok && len(ingress.Status.LoadBalancer.Ingress) > 0 {
			seen[ingress.UID] = struct{}{}
		}
		if len(seen) == manyIngresses+1 { // the probe too
			events.Stop()
			close(w.all)
			return
		}
	}
}

func (w *statusWatch) await(b *testing.B) {
	b.Helper()
	select {
	case <-w.all:
	case <-time.After(5 * time.Minute):
		b.Fatal("waited five minutes in vain for the last status")
	}
}

// A probe changes the path of an Ingress and asks for it.
type probe struct {
	client kubernetes.Interface
	s      *cluster.Sallyport
	path   int
}

// print makes changes, one at an interval, and prints how long they took from the API server's answer to the first
// answer of a Pod.
func (p *probe) print(b *testing.B, name string, changes int, interval time.Duration) {
	b.Helper()
	var took []time.Duration
	next := time.NewTicker(max(interval, time.Millisecond))
	defer next.Stop()
	for range changes {
		took = append(took, p.change(b))
		<-next.C
	}
	slices.Sort(took)
	milliseconds := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	figure(name, "p50 %.1f ms, p99 %.1f ms (aim: 100 ms), max %.1f ms of %d",
		milliseconds(took[len(took)/2]), milliseconds(took[len(took)*99/100-1]), milliseconds(took[len(took)-1]), len(took))
}

func (p *probe) change(b *testing.B) time.Duration {
	b.Helper()
	p.path++
	path := fmt.Sprintf("/change-%d", p.path)
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/rules/0/http/paths/0/path","value":%q}]`, path)
	if _, err := p.client.NetworkingV1().Ingresses("default").Patch(b.Context(), "probe", jsonPatch, []byte(patch), metav1.PatchOptions{}); err != nil {
		b.Fatal(err)
	}
	acknowledged := time.Now()
	await(b, time.Millisecond, "the change "+path, func() bool {
		answer, err := p.s.Get("http://probe.test" + path)
		return err == nil && answer.StatusCode == http.StatusOK
	})
	return time.Since(acknowledged)
}

// churning makes endpoints ready and unready while something is done, and prints what it costs.
func churning(b *testing.B, w *crowd, s *cluster.Sallyport, during func()) {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	var flips sync.WaitGroup
	done := 0
	began, before := time.Now(), s.Metric(b, "process_cpu_seconds_total")
	flips.Go(func() { done = flipUntil(ctx, b, w) })
	during()
	stop()
	flips.Wait()
	elapsed, used := time.Since(began).Seconds(), s.Metric(b, "process_cpu_seconds_total")-before
	figure("CPU while endpoints change", "%.3f s a second, at %.0f endpoints a second for %.0f s", used/elapsed, float64(done)/elapsed, elapsed)
}

// flipUntil flips one endpoint after another, as many a second as churn says, until ctx ends, and returns how many.
func flipUntil(ctx context.Context, b *testing.B, w *crowd) int {
	var flips sync.WaitGroup
	defer flips.Wait()
	next := time.NewTicker(time.Second / churn)
	defer next.Stop()
	for n := 0; ; n++ {
		select {
		case <-next.C:
		case <-ctx.Done():
			return n
		}
		flips.Go(func() {
			// A prime step: the slices follow each other in no order, and each comes once before any comes again.
			if err := w.flip(b.Context(), n*7919, n/len(w.slices)%2 == 1); err != nil {
				b.Errorf("change an endpoint: %v", err)
			}
		})
	}
}
