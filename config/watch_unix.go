//go:build unix

package config

import (
	"os"
	"syscall"
)

// inode tells a file from another of the same name, size and time.
func inode(info os.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Ino)
	}
	return 0
}
