package feature

import (
	"runtime"
	"sync"
	"weak"
)

// interned keeps one T for each text that one is made of, as long as anybody uses it. What the ConfigMap says is read for
// every Ingress anew: a list of thousands of networks is to be held once, not once an Ingress.
type interned[T any] struct {
	mu    sync.Mutex // guards known
	known map[string]weak.Pointer[T]
}

// get returns the T of a text, made now where nobody uses one. Make is called without the lock: it may take a while. Nil,
// from it, is not kept.
func (i *interned[T]) get(text string, make func() *T) *T {
	if found := i.find(text); found != nil {
		return found
	}
	made := make()
	if made == nil {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if found := i.known[text].Value(); found != nil {
		return found // somebody was faster
	}
	if i.known == nil {
		i.known = map[string]weak.Pointer[T]{}
	}
	i.known[text] = weak.Make(made)
	runtime.AddCleanup(made, i.forget, text)
	return made
}

func (i *interned[T]) find(text string) *T {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.known[text].Value()
}

func (i *interned[T]) forget(text string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.known[text].Value() == nil { // else another took its place
		delete(i.known, text)
	}
}
