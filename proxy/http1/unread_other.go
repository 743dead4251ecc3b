//go:build !unix

package http1

import "syscall"

// unread cannot look here.
func unread(syscall.RawConn) bool { return true }
