// Package feedback tells a cluster what became of its objects: the addresses under which an Ingress is served, in its status,
// and the mistakes in objects, as Events. It and controller/keeper are the only code that writes to a cluster.
//
//	writer, err := feedback.New(feedback.Options{Config: source.Config(), Namespace: "sallyport", Service: key})
//	go writer.Run(ctx)                                      // leads, when its turn comes, and writes
//	writer.Update(snapshot, builder.Served(), problems)     // after every build, or UpdateEndpoints
//	...
//	writer.Withdraw(ctx)                                    // after Run has returned, before the process ends
//
// # One replica writes
//
// Every replica reads and serves; the one that holds a Lease writes. It hands the Lease over when it leaves, and another
// replica has it within seconds; when it dies, within [Options.LeaseDuration]. See leader.go.
//
// # Status
//
// Every Ingress that is served has the same list in status.loadBalancer.ingress: where clients reach this proxy, see
// [Options] and addresses.go. It is restored when somebody changes it, more and more slowly when that goes on; an Ingress
// that is not served is never touched. The last replica that leaves takes the list away.
//
// # Events
//
// A problem is one Event of events.k8s.io on the object it is about, and so is the first time that an Ingress is served. A
// problem that comes back, or that outlives a change of its object, is another sighting in the series of its Event. The name
// of an Event is made of what it says, so that a replica that starts to lead repeats nothing. See book.go for what is told
// first, and events.go.
//
// # Session tickets
//
// The keys with which sessions of TLS are resumed are in a Secret that the leader writes and every replica reads: see
// tickets.go.
//
// # What it does not do
//
// It reads no Ingress by itself and decides nothing about traffic. Nothing is served differently when it cannot write.
package feedback

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	networkingclient "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/client-go/rest"

	"sallyport/controller"
)

// Options say what is written, and as whom.
type Options struct {
	// Config is how the API server is reached.
	Config *rest.Config
	// Identity tells this replica from others, as the holder of the Lease and the reporter of Events.
	Identity string
	// Pod is the name of this process's Pod. Empty: it is none.
	Pod string
	// Namespace is where the Lease is, and the Pods of this controller.
	Namespace string

	// Lease is the name of the Lease. Empty: nobody is asked, this replica writes; right for a single one only.
	Lease string
	// LeaseDuration is how long after its last sign of life another replica takes over from one that died. It is at
	// least three seconds.
	LeaseDuration time.Duration

	// Addresses are published as they are: IP addresses and host names. Empty: those of Service.
	Addresses []string
	// Service is the one whose addresses are published. Zero, without Addresses: those of the nodes that run the Pods
	// with the labels of Pod.
	Service controller.Key
	// InternalNodeAddresses publishes a node's internal address although it has an external one.
	InternalNodeAddresses bool
	// NoStatus leaves the status of Ingresses alone.
	NoStatus bool
	// KeepStatus leaves it as it is when the last replica leaves.
	KeepStatus bool
	// NoServed writes no Event when an Ingress is first served. Problems are told in any case.
	NoServed bool

	// Tickets gets the keys of session tickets that all replicas share, again and again: the first makes tickets, all open
	// them. Nil: there are none.
	Tickets func([][32]byte)
	// Work is done as long as this replica leads, beside what is written; it returns when its context ends. Nil: there is none.
	Work func(context.Context)
	// Leading is told when this replica starts and stops to lead. Nil: nobody asked.
	Leading func(bool)
	// Log gets what cannot be written, and why. Nil: slog.Default().
	Log *slog.Logger
}

// A Writer writes to a cluster. Its methods may be called from any goroutine.
type Writer struct {
	options   Options
	log       *slog.Logger
	core      coreclient.CoreV1Interface
	ingresses networkingclient.NetworkingV1Interface
	events    eventsclient.EventsV1Interface
	leases    coordinationclient.CoordinationV1Interface

	latest  atomic.Pointer[state] // nil before the first Update
	statusy chan struct{}         // has room for one: there is another state for the status of Ingresses
	eventy  chan struct{}         // the same for Events

	eventFailure string // the last one that was logged; for the goroutine that writes Events

	mu        sync.Mutex                                 // guards what follows
	left      time.Time                                  // when this replica stopped to lead because it leaves; zero: it did not lead then
	shown     *[]networkingv1.IngressLoadBalancerIngress // what this replica, or the leader before it, has published; nil: not known
	contested []*networkingv1.Ingress                    // whose owners are to be told
}

// answerWithin is how long the API server has for one answer. It asks for the rest of its time when it is busy; one that says
// nothing may not hold up what comes next.
const answerWithin = 10 * time.Second

// New prepares to write. It asks nothing of the API server yet.
func New(o Options) (*Writer, error) {
	if o.Identity == "" || o.Namespace == "" {
		return nil, errors.New("a Writer needs an identity and a namespace")
	}
	if o.Lease != "" && o.LeaseDuration < shortestLease {
		return nil, fmt.Errorf("a lease of %v is too short, expected at least %v", o.LeaseDuration, shortestLease)
	}
	w := &Writer{options: o, log: o.Log, statusy: make(chan struct{}, 1), eventy: make(chan struct{}, 1)}
	if w.log == nil {
		w.log = slog.Default()
	}
	config := rest.CopyConfig(o.Config)
	config.Timeout = answerWithin
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("prepare to write to the cluster: %w", err)
	}
	var problems [4]error
	w.core, problems[0] = coreclient.NewForConfigAndClient(config, client)
	w.ingresses, problems[1] = networkingclient.NewForConfigAndClient(config, client)
	w.events, problems[2] = eventsclient.NewForConfigAndClient(config, client)
	w.leases, problems[3] = coordinationclient.NewForConfigAndClient(config, client)
	if err := errors.Join(problems[:]...); err != nil {
		return nil, fmt.Errorf("prepare to write to the cluster: %w", err)
	}
	return w, nil
}

// A state is what there is to tell after one build.
type state struct {
	served  []*networkingv1.Ingress
	notices map[notice]int64 // with the generation of the object
	service published
}

// Update takes what a build made of a snapshot: the Ingresses that are served and the problems. It keeps nothing of s.
func (w *Writer) Update(s *controller.Snapshot, served iter.Seq[*networkingv1.Ingress], problems []controller.Problem) {
	now := &state{notices: noticesOf(s, problems), service: publishedOf(s, w.options.Service)}
	if last := w.latest.Load(); last != nil {
		now.served = make([]*networkingv1.Ingress, 0, len(last.served)+1) // there are thousands, and seldom more than one is new
	}
	for ingress := range served {
		now.served = append(now.served, ingress)
	}
	w.latest.Store(now)
	wake(w.statusy)
	wake(w.eventy)
}

// UpdateEndpoints takes a snapshot in which only endpoints are others than at the last Update (see
// [controller.Result.OnlyEndpoints]). Those of the published Service may be on other nodes. It keeps nothing of s, and is
// not called at the same time as Update.
func (w *Writer) UpdateEndpoints(s *controller.Snapshot) {
	last, service := w.latest.Load(), publishedOf(s, w.options.Service)
	if last == nil || slices.Equal(last.service.nodes, service.nodes) {
		return
	}
	w.latest.Store(&state{served: last.served, notices: last.notices, service: service})
	wake(w.statusy)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run takes part in the election and writes for as long as this replica leads. It returns when ctx has ended, nothing is
// being written any more and the Lease is free for others.
func (w *Writer) Run(ctx context.Context) {
	var following sync.WaitGroup
	if w.options.Tickets != nil {
		following.Go(func() { w.followTickets(ctx) })
	}
	defer following.Wait()
	w.lead(ctx, func(ctx context.Context) {
		var writers sync.WaitGroup
		if w.options.Tickets != nil {
			writers.Go(func() { w.rotateTickets(ctx) })
		}
		writers.Go(func() { w.writeEvents(ctx) })
		if w.options.Work != nil {
			writers.Go(func() { w.options.Work(ctx) })
		}
		if !w.options.NoStatus {
			writers.Go(func() { w.writeStatus(ctx) })
		}
		writers.Wait()
	})
}
