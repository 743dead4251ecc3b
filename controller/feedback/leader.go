package feedback

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// shortestLease leaves its holder time to try twice before it ends.
const shortestLease = 3 * time.Second

// renewWithin is how long the holder of a Lease tries to renew it before it gives up, and retryEvery how often replicas
// look at it: the proportions that Kubernetes' own components have.
func (o *Options) renewWithin() time.Duration { return o.LeaseDuration * 2 / 3 }
func (o *Options) retryEvery() time.Duration  { return o.LeaseDuration * 2 / 15 }

// takenWithin is when a Lease that was given back has been taken, if there is anybody to take it: whoever waits looks
// after at most retryEvery and its jitter.
func (o *Options) takenWithin() time.Duration {
	return time.Duration((1+leaderelection.JitterFactor)*float64(o.retryEvery())) + 500*time.Millisecond
}

// lead runs work whenever this replica leads, with a context that ends when it no longer does, until ctx ends. The Lease is
// given back after work has returned.
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
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            w.lock(),
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
		work(working)
		unhook()
		stop()
		if leading.Err() == nil {
			w.leave()
		} else {
			w.leading(false)
		}
	case <-ctx.Done():
	}
	release()
	<-ended
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
// of Run ended, and nobody has taken the Lease since. Others are given a moment to take it, no longer than ctx. Call it
// after Run has returned, when no more clients are to come.
func (w *Writer) Withdraw(ctx context.Context) {
	w.mu.Lock()
	left := w.left
	w.mu.Unlock()
	if left.IsZero() || w.options.NoStatus || w.options.KeepStatus {
		return
	}
	if w.options.Lease != "" {
		select {
		case <-time.After(time.Until(left.Add(w.options.takenWithin()))):
		case <-ctx.Done():
			return
		}
		lease, err := w.leases.Leases(w.options.Namespace).Get(ctx, w.options.Lease, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			w.failed("read who leads now; the status of Ingresses stays as it is", err)
			return
		}
		if err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
			return
		}
	}
	w.clearStatus(ctx)
}
