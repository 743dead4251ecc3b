package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// load sends requests of the case as fast as they are answered, for so long, and returns how many were. An answer that is not
// 200, or a connection that breaks, is an error: it would cost less than what is to be measured.
func (c benchCase) load(ctx context.Context, r *running, long time.Duration) (int, error) {
	command := c.wrk
	read := readWrk
	if c.streams > 0 {
		command, read = c.h2load, readH2load
	}
	args, err := command(r, long)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, long+20*time.Second)
	defer cancel()
	client := exec.CommandContext(ctx, args[0], args[1:]...)
	client.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := client.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", args[0], errors.Join(err, ctx.Err()), out)
	}
	n, err := read(string(out))
	if err != nil {
		return 0, fmt.Errorf("%s of %s: %w\n%s", args[0], r.contender, err, out)
	}
	return n, nil
}

func (c benchCase) wrk(r *running, long time.Duration) ([]string, error) {
	seconds := max(1, int(long.Round(time.Second).Seconds())) // it takes whole ones only
	args := []string{"wrk", "-t", strconv.Itoa(min(runtime.NumCPU(), c.connections)), "-c", strconv.Itoa(c.connections),
		"-d", strconv.Itoa(seconds) + "s", "--timeout", "10s", "-H", "Host: " + host}
	for _, field := range browserFields {
		args = append(args, "-H", field[0]+": "+field[1])
	}
	if c.body > 0 {
		script := filepath.Join(r.folder, "post.lua")
		text := fmt.Sprintf("wrk.method = \"POST\"\nwrk.headers[\"Content-Type\"] = \"application/octet-stream\"\nwrk.body = string.rep(\"x\", %d)\n", c.body)
		if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
			return nil, err
		}
		args = append(args, "-s", script)
	}
	return append(args, c.url(r)), nil
}

func (c benchCase) h2load(r *running, long time.Duration) ([]string, error) {
	args := []string{"h2load", "-t", strconv.Itoa(min(runtime.NumCPU(), c.connections)), "-c", strconv.Itoa(c.connections),
		"-m", strconv.Itoa(c.streams), "-D", strconv.Itoa(max(1, int(long.Round(time.Second).Seconds()))),
		"--connect-to=" + r.https}
	for _, field := range browserFields {
		args = append(args, "-H", strings.ToLower(field[0])+": "+field[1])
	}
	return append(args, "https://"+net.JoinHostPort(host, portOf(r.https))+c.path), nil
}

// url is that of the case at a contender, by address.
func (c benchCase) url(r *running) string {
	if c.tls {
		return "https://" + r.https + c.path
	}
	return "http://" + r.http + c.path
}

var (
	wrkRequests = regexp.MustCompile(`(?m)^\s*(\d+) requests in `)
	wrkTrouble  = regexp.MustCompile(`(?m)^\s*(Socket errors: .*|Non-2xx or 3xx responses: .*)$`)
	h2Requests  = regexp.MustCompile(`(?m)^requests: (\d+) total, \d+ started, (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout`)
	h2Codes     = regexp.MustCompile(`(?m)^status codes: (\d+) 2xx, 0 3xx, 0 4xx, 0 5xx`)
)

// readWrk returns the number of requests in what wrk prints.
func readWrk(out string) (int, error) {
	if trouble := wrkTrouble.FindStringSubmatch(out); trouble != nil {
		return 0, fmt.Errorf("not all went well: %s", trouble[1])
	}
	found := wrkRequests.FindStringSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("no number of requests")
	}
	return positive(found[1])
}

// readH2load returns the number of requests in what h2load prints.
func readH2load(out string) (int, error) {
	found := h2Requests.FindStringSubmatch(out)
	if found == nil || h2Codes.FindString(out) == "" {
		return 0, fmt.Errorf("no number of requests, or an answer that is not 2xx")
	}
	for _, bad := range found[4:] {
		if bad != "0" {
			return 0, fmt.Errorf("not all went well: %s", found[0])
		}
	}
	return positive(found[3])
}

// errNothing is of a machine that has too much to do for a load as short as this.
var errNothing = errors.New("no request was answered")

func positive(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err == nil && n == 0 {
		err = errNothing
	}
	return n, err
}
