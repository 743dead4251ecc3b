package feedback

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Keys of session tickets, which all replicas share, so that a client resumes its session at whichever it reaches. They are
// in a Secret, by the second of their making. The replica that leads makes another now and then and takes the oldest away.
//
// A key does not make tickets before every replica has had the time to read it: a ticket that another replica cannot open
// costs a full handshake. So the first of the keys that a replica uses is the youngest of those that are old enough.

// TicketSecret is the name of the Secret.
const TicketSecret = "sallyport-session-tickets"

const (
	ticketKeys   = 3              // that there are at a time
	ticketRotate = 12 * time.Hour // how long one is the youngest
	ticketLook   = time.Minute    // between two looks at the Secret
	ticketReady  = 5 * time.Minute
	ticketRetry  = 10 * time.Second
)

// followTickets reads the keys for as long as ctx lasts, on every replica.
func (w *Writer) followTickets(ctx context.Context) {
	said := ""
	for {
		pause := ticketLook
		secret, err := w.core.Secrets(w.options.Namespace).Get(ctx, TicketSecret, metav1.GetOptions{})
		switch {
		case err == nil:
			said = ""
			if keys := usable(secret.Data, time.Now()); len(keys) > 0 {
				w.options.Tickets(keys)
			}
		case apierrors.IsNotFound(err): // the leader makes it
			pause = ticketRetry / 10
		case err.Error() != said && ctx.Err() == nil:
			said = err.Error()
			w.failed("read the keys of session tickets; sessions are resumed at this replica alone", err)
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

// rotateTickets sees to it that there are keys, and young ones, while this replica leads.
func (w *Writer) rotateTickets(ctx context.Context) {
	said := ""
	for {
		pause := ticketLook
		if err := w.rotateOnce(ctx, time.Now()); err != nil && ctx.Err() == nil {
			if pause = ticketRetry; err.Error() != said {
				said = err.Error()
				w.failed("write the keys of session tickets; it is tried again", err)
			}
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

func (w *Writer) rotateOnce(ctx context.Context, now time.Time) error {
	secrets := w.core.Secrets(w.options.Namespace)
	secret, err := secrets.Get(ctx, TicketSecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		data, err := rotated(nil, now)
		if err != nil {
			return err
		}
		_, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: TicketSecret, Labels: map[string]string{"app.kubernetes.io/name": "sallyport", "app.kubernetes.io/managed-by": "sallyport"}},
			Data:       data,
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	data, err := rotated(secret.Data, now)
	if err != nil || data == nil {
		return err
	}
	secret.Data = data
	_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{}) // which fails where somebody was faster
	return err
}

// rotated is the data of the Secret with another key; nil: it is as it should be.
func rotated(data map[string][]byte, now time.Time) (map[string][]byte, error) {
	made := ages(data, now)
	if len(made) == len(data) && len(made) > 0 && len(made) <= ticketKeys && now.Sub(time.Unix(made[0], 0)) < ticketRotate {
		return nil, nil
	}
	next := make(map[string][]byte)
	if len(made) == 0 || now.Sub(time.Unix(made[0], 0)) >= ticketRotate {
		key := make([]byte, 32)
		if _, err := rand.Read(key); err != nil {
			return nil, fmt.Errorf("make a key: %w", err)
		}
		made = slices.Insert(made, 0, now.Unix())
		next[strconv.FormatInt(now.Unix(), 10)] = key
	}
	for _, at := range made[:min(len(made), ticketKeys)] {
		if name := strconv.FormatInt(at, 10); next[name] == nil {
			next[name] = data[name]
		}
	}
	return next, nil
}

// ages are when the keys were made, the youngest first. What is no key of ours, or of a time that has not come, is none.
func ages(data map[string][]byte, now time.Time) []int64 {
	var made []int64
	for name := range maps.Keys(data) {
		at, err := strconv.ParseInt(name, 10, 64)
		if err == nil && strconv.FormatInt(at, 10) == name && len(data[name]) == 32 && at <= now.Add(ticketReady).Unix() {
			made = append(made, at)
		}
	}
	slices.Sort(made)
	slices.Reverse(made)
	return made
}

// usable are the keys in the order in which they are used: the first makes tickets, all open them.
func usable(data map[string][]byte, now time.Time) [][32]byte {
	made := ages(data, now)
	if len(made) > ticketKeys {
		made = made[:ticketKeys]
	}
	first := max(0, len(made)-1)
	for i, at := range made {
		if now.Sub(time.Unix(at, 0)) >= ticketReady {
			first = i
			break
		}
	}
	keys := make([][32]byte, 0, len(made))
	for i := range made {
		at := made[i]
		switch {
		case i == 0 && first < len(made):
			at = made[first]
		case i <= first:
			at = made[i-1]
		}
		keys = append(keys, [32]byte(data[strconv.FormatInt(at, 10)]))
	}
	return keys
}
