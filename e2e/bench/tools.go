package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// tools are the programs that are used, with the Debian packages they come in.
var tools = [][2]string{{"nginx", "nginx"}, {"haproxy", "haproxy"}, {"wrk", "wrk"}, {"h2load", "nghttp2-client"}}

// findTools installs what is missing where that can be done without asking, as root of a Debian machine, and says what
// to install elsewhere.
func findTools(ctx context.Context) error {
	// Debian has servers in sbin, which is not in everybody's path.
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/usr/local/sbin")
	packages := missing()
	if len(packages) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Getuid() != 0 {
		return fmt.Errorf("install what is missing: apt-get install --no-install-recommends %s", strings.Join(packages, " "))
	}
	fmt.Fprintln(os.Stderr, "installing", strings.Join(packages, ", "))
	install := append([]string{"install", "-y", "--no-install-recommends"}, packages...)
	for _, args := range [][]string{{"update"}, install} {
		command := exec.CommandContext(ctx, "apt-get", args...)
		command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	if packages = missing(); len(packages) > 0 {
		return fmt.Errorf("%s installed, but a program of them is not found", strings.Join(packages, ", "))
	}
	return nil
}

func missing() (packages []string) {
	for _, tool := range tools {
		if _, err := exec.LookPath(tool[0]); err != nil {
			packages = append(packages, tool[1])
		}
	}
	return packages
}

// versionOf is the first line that a program says when it is asked for its version.
func versionOf(program, argument string) string {
	out, err := exec.Command(program, argument).CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil && line == "" {
		return "unknown version"
	}
	return strings.TrimPrefix(strings.TrimSuffix(line, " - https://haproxy.org/"), "nginx version: ")
}
