//go:build !unix

package config

import "os"

// inode is known on Unix only; elsewhere names, sizes and times must do.
func inode(os.FileInfo) uint64 { return 0 }
