//go:build !unix

package http1

import "errors"

const readsSockets = false

// ReadSocket and WriteSocket are for systems whose sockets are read without waiting.
func ReadSocket(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }

func WriteSocket(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }
