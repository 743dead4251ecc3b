package proxy

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// TestQuietStreamsAreNotCut has an event stream and an upload over HTTP/2 that are quiet for longer than a client may
// stall: nobody waits for the client meanwhile, so nothing is cut.
func TestQuietStreamsAreNotCut(t *testing.T) {
	const timeout = 50 * time.Millisecond
	next := make(chan struct{})
	_, secure := front(t, &Server{BodyTimeout: timeout}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first := make([]byte, 5)
		io.ReadFull(r.Body, first)
		w.Write(first)
		http.NewResponseController(w).Flush()
		<-next
		rest, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("the rest of the upload: %v", err)
		}
		w.Write(rest)
	}))
	body, send := io.Pipe()
	r, err := http.NewRequest(http.MethodPost, "https://"+secure+"/", body)
	if err != nil {
		t.Fatal(err)
	}
	go io.WriteString(send, "first")
	answer, err := client(t).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	go func() {
		io.WriteString(send, " second")
		send.Close()
	}()
	quiet := time.NewTimer(4 * timeout)
	<-quiet.C
	close(next)
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "first second" {
		t.Errorf("the stream sent %q, %v; want %q", text, err, "first second")
	}
}

func TestSilentBodyOfAStreamIsGivenUp(t *testing.T) {
	got := make(chan error, 1)
	_, secure := front(t, &Server{BodyTimeout: 50 * time.Millisecond}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		got <- err
	}))
	body, send := io.Pipe()
	defer send.Close()
	r, err := http.NewRequest(http.MethodPost, "https://"+secure+"/", io.MultiReader(strings.NewReader("hel"), body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client(t).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if err := <-got; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading a body that stalls: %v, want a deadline exceeded", err)
	}
}

// TestClientThatTakesNothingIsGivenUp sends more than all windows and buffers hold to clients that read nothing.
func TestClientThatTakesNothingIsGivenUp(t *testing.T) {
	failed := make(chan error, 2)
	plain, secure := front(t, &Server{BodyTimeout: 50 * time.Millisecond}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		chunk := make([]byte, 1<<20)
		for range 100 {
			if _, err := w.Write(chunk); err != nil {
				failed <- err
				return
			}
		}
		failed <- errors.New("everything was written")
	}))
	for _, url := range []string{"http://" + plain + "/", "https://" + secure + "/"} {
		answer, err := client(t).Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if err := <-failed; err.Error() == "everything was written" {
			t.Errorf("%s: %v", url, err)
		}
	}
}
