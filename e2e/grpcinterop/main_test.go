// Package grpcinterop tests gRPC through the product with gRPC's own interop client and server, as every implementation of
// gRPC is tested against every other (https://github.com/grpc/grpc/blob/master/doc/interop-test-descriptions.md).
//
//	go test -count=1 .
//
// Their source comes from the Go module proxy, at the version in go.mod; this is a module of its own so that gRPC stays
// out of the product's own. Go keeps the built programs in its cache: they are compiled once, which takes minutes.
// Neither they nor the product's binary is an input that `go test` can see, hence -count=1.
//
// The cases that are left out test nothing of a proxy: those with credentials need an account at a cloud, orca_oob and
// orca_per_rpc are about the balancer inside of a client, and pick_first_unary asks that all calls reach one server.
package grpcinterop

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"sallyport/e2e"
)

// tools are the variables that tell the test program which runs inside the namespace where gRPC's programs are.
var tools = map[string]string{
	"GRPCINTEROP_CLIENT": "google.golang.org/grpc/interop/client",
	"GRPCINTEROP_SERVER": "google.golang.org/grpc/interop/server",
}

func TestMain(m *testing.M) {
	for variable, tool := range tools {
		if os.Getenv(variable) != "" {
			continue
		}
		path, err := build(tool)
		if err != nil {
			fmt.Fprintln(os.Stderr, "grpcinterop:", err)
			os.Exit(2)
		}
		os.Setenv(variable, path)
	}
	os.Exit(e2e.Main(m))
}

// build compiles a tool of go.mod and says where it is: -n prints that, and does not run it.
func build(tool string) (string, error) {
	command := exec.Command("go", "tool", "-n", tool)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(command.Args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}
