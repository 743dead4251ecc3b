package main

import (
	"errors"
	"path/filepath"

	"sallyport/config"
)

// stateDir is the folder for what outlives a process that serves a folder of manifests: that of --state-dir, else that of
// the user (XDG Base Directory Specification). It may not exist yet, and nobody may be able to make it.
func stateDir(w world, c config.Config) (string, error) {
	if c.StateDir != "" {
		return filepath.Abs(c.StateDir)
	}
	if state, _ := w.lookup("XDG_STATE_HOME"); filepath.IsAbs(state) { // others are to be ignored, says the specification
		return filepath.Join(state, "sallyport"), nil
	}
	if home, _ := w.lookup("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "sallyport"), nil
	}
	return "", errors.New("neither --state-dir nor XDG_STATE_HOME nor HOME names a folder")
}
