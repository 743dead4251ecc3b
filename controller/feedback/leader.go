package feedback

import (
	"context"
	"errors"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// shortestLease leaves its holder time to try often before it ends.
const shortestLease = 3 * time.Second

// renewWithin is how long after it last renewed the Lease its holder still writes: the third of its time that is left then is
// for what is on its way. retryEvery is how often replicas look at it, half as long as Kubernetes' own components take. Whoever
// waits does so with a jitter, and counts from when it saw a renewal, so that a Lease whose holder has died is taken after
// its duration and two looks at most, see longestLook.
func (o *Options) renewWithin() time.Duration { return o.LeaseDuration * 2 / 3 }
func (o *Options) retryEvery() time.Duration  { return o.LeaseDuration / 15 }

// longestLook is the longest time between two looks at the Lease.
func (o *Options) longestLook() time.Duration {
	return time.Duration((1 + leaderelection.JitterFactor) * float64(o.retryEvery()))
}

// takenWithin is when a Lease that was given back has been taken, if there is anybody to take it.
func (o *Options) takenWithin() time.Duration { return o.longestLook() + 500*time.Millisecond }

const (
	// withdrawWithin bounds how long the last replica tries to leave no trace.
	withdrawWithin = 30 * time.Second
	// What fails meanwhile is tried again soon, then twice as long after each time.
	retryLast, slowestLast = 250 * time.Millisecond, 2 * time.Second
)

// lead runs work whenever this replica leads, until ctx ends. The context of work ends when ctx does, or renewWithin after the
// Lease was last renewed, whatever the API server says or does not say meanwhile: nobody else has it by then. The Lease is given
// back after work has returned.
func (w *Writer) lead(ctx context.Context, work func(context.Context)) {
	if w.options.Lease == "" {
		w.leading(true)
		work(ctx)
		w.leave()
		return
	}
	for ctx.Err() == nil {
		w.leadOnce(ctx, work)
	}
}

// leadOnce waits for the Lease and holds it for as long as it can, or until ctx ends.
func (w *Writer) leadOnce(ctx context.Context, work func(context.Context)) {
	started := make(chan context.Context, 1)
	lock := &renewals{LeaseLock: w.lock(), good: w.options.renewWithin()}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   w.options.LeaseDuration,
		RenewDeadline:   w.options.renewWithin(),
		RetryPeriod:     w.options.retryEvery(),
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) { started <- leading },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		panic("feedback: " + err.Error()) // New has checked what it is told
	}
	election, release := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(election)
	}()
	select {
	case leading := <-started:
		w.leading(true)
		working, stop := context.WithCancel(leading)
		unhook := context.AfterFunc(ctx, stop)
		lock.whenOver(stop)
		work(working)
		unhook()
		stop()
		if ctx.Err() != nil {
			w.leave()
		} else {
			w.leading(false)
		}
	case <-ctx.Done():
	}
	release()
	<-ended
}

// renewals are the Lease, with the time for which its holder may count on it. The elector itself ends what the holder does only
// after it has tried to give the Lease back, for as long as it takes an API server to say nothing; another may have it by then.
type renewals struct {
	*resourcelock.LeaseLock
	good time.Duration // after each time that it was renewed

	mu   sync.Mutex
	last time.Time // that it was renewed: when that was asked for, for the API server may have taken its time
	over *time.Timer
}

func (r *renewals) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return r.renew(func() error { return r.LeaseLock.Create(ctx, record) })
}

func (r *renewals) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" && r.isOver() {
		return errors.New("the Lease may be another's by now, and ends by itself")
	}
	return r.renew(func() error { return r.LeaseLock.Update(ctx, record) })
}

// isOver says that the Lease cannot be counted on any more. The elector would give it back all the same, without a look at
// who has it.
func (r *renewals) isOver() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.last) >= r.good
}

func (r *renewals) renew(write func() error) error {
	asked := time.Now()
	err := write()
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = asked
	if r.over != nil && r.over.Stop() {
		r.over.Reset(time.Until(asked.Add(r.good)))
	}
	return nil
}

// whenOver calls stop once the Lease cannot be counted on any more.
func (r *renewals) whenOver(stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = time.AfterFunc(time.Until(r.last.Add(r.good)), stop)
}

// leading tells that this replica leads, or no longer does.
func (w *Writer) leading(yes bool) {
	w.log.Info("leader election", "leading", yes, "lease", w.options.Lease)
	if w.options.Leading != nil {
		w.options.Leading(yes)
	}
}

// leave notes that this replica led to its end.
func (w *Writer) leave() {
	w.leading(false)
	w.mu.Lock()
	w.left = time.Now()
	w.mu.Unlock()
}

func (w *Writer) lock() *resourcelock.LeaseLock {
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: w.options.Namespace, Name: w.options.Lease},
		Client:     w.leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: w.options.Identity},
	}
}

// Withdraw takes the addresses out of the status of all Ingresses if this replica was the last: if it led until the context
// of Run ended, and nobody has taken the Lease since. Others are given a moment to take it. What the API server does not
// answer is tried again until ctx ends, for half a minute at most. Call it after Run has returned, when no more clients are
// to come.
func (w *Writer) Withdraw(ctx context.Context) {
	w.mu.Lock()
	left := w.left
	w.mu.Unlock()
	if left.IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, withdrawWithin)
	defer cancel()
	keep := w.options.NoStatus || w.options.KeepStatus
	if w.options.Lease != "" && !w.isLast(ctx, left, keep) || keep {
		return
	}
	w.clearStatus(ctx)
}

// isLast reports whether nobody has taken the Lease, long enough after it was given back. It gives it back itself if that
// has failed; with onlyFree that is all there is to do.
func (w *Writer) isLast(ctx context.Context, free time.Time, onlyFree bool) bool {
	logged := false
	for wait := retryLast; ; wait = min(2*wait, slowestLast) {
		lease, err := w.leases.Leases(w.options.Namespace).Get(ctx, w.options.Lease, metav1.GetOptions{})
		holder := ""
		if err == nil && lease.Spec.HolderIdentity != nil {
			holder = *lease.Spec.HolderIdentity
		}
		if holder == w.options.Identity {
			if err = w.giveBack(ctx, lease); err == nil {
				free, holder = time.Now(), ""
			}
		}
		pause := wait
		switch now := time.Now(); {
		case err != nil && !apierrors.IsNotFound(err):
			if !logged && ctx.Err() == nil {
				logged = true
				w.failed("give the Lease back and see who has it; it is tried again", err)
			}
		case holder != "" || onlyFree:
			return false
		case now.Before(free.Add(w.options.takenWithin())):
			pause = free.Add(w.options.takenWithin()).Sub(now)
		default:
			return true
		}
		if !sleep(ctx, pause) {
			w.log.Warn("leaving without knowing whether another replica leads; the status of Ingresses stays as it is")
			return false
		}
	}
}

// giveBack has the Lease be free.
func (w *Writer) giveBack(ctx context.Context, lease *coordinationv1.Lease) error {
	lease = lease.DeepCopy()
	lease.Spec.HolderIdentity = new(string)
	lease.Spec.LeaseDurationSeconds = new(int32(1))
	lease.Spec.RenewTime = new(metav1.NowMicro())
	_, err := w.leases.Leases(w.options.Namespace).Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// sleep returns false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
