package main

import (
	"os"
	"testing"

	"sallyport/e2e"
)

// The tests of this package run the built binary, in a network namespace of their own, where every port is free.
func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }
