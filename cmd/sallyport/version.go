package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker (-X main.version=...); empty in a plain go build, which the module's own version or the
// commit stands in for.
var version string

// build says what this binary was made from.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`   // of version control, when the build had one
	Modified bool   `json:"modified,omitempty"` // the working tree differed from the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion(w world) *cobra.Command {
	form := newForm(formText)
	command := &cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			b := readBuild()
			return form.print(w.out, b, func(out io.Writer, _ bool) { fmt.Fprintln(out, b) })
		},
	}
	form.addFlag(command.Flags())
	return command
}

func readBuild() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b.named()
	}
	if b.Version == "" && info.Main.Version != "(devel)" {
		b.Version = info.Main.Version
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Commit = setting.Value
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
	return b.named()
}

func (b build) named() build {
	if b.Version == "" {
		b.Version = "devel"
	}
	return b
}

func (b build) String() string {
	s := "sallyport " + b.Version
	if b.Commit != "" {
		s += " commit " + b.Commit
	}
	if b.Modified {
		s += " (modified)"
	}
	return s + " " + b.Go + " " + b.Platform
}
