// Command sallyport is a Kubernetes Ingress controller that is its own reverse proxy.
//
//	sallyport run               serve the cluster this pod runs in
//	sallyport run --manifests DIR   serve a folder of manifests, without a cluster
//	sallyport check DIR...      say what is wrong with manifests
//	sallyport routes DIR...     print the table that manifests would make
//	sallyport demo              serve an example on this machine
//	sallyport version           say which version this is
//
// This package joins the parts and holds no rule of its own about traffic: a source (a folder or a cluster) hands
// snapshots to the controller's builder, whose table goes to the proxy and whose certificates go to the store that the
// TLS listener asks. See serve.go for the joints, and docs/architecture.md for the picture.
//
// # The rule of order
//
// What a person asked for goes to standard output, what the program has to say goes to standard error. The exit code is
// 0 when all is well, 1 when a check found something, 2 when it was used wrongly or cannot run.
package main

import (
	"io"
	"os"
	"runtime"
)

// world is what a command may touch of its surroundings; tests give it another one.
type world struct {
	out, err io.Writer
	lookup   func(string) (string, bool) // of environment variables
	environ  func() []string             // all of them; nil: nobody may ask
}

func main() {
	w := world{os.Stdout, os.Stderr, os.LookupEnv, os.Environ}
	ballast := takeBallast(w)
	code := execute(w, os.Args[1:])
	runtime.KeepAlive(ballast)
	os.Exit(code)
}
