package main

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sallyport/config"
)

func newDemo(w world) *cobra.Command {
	c, folder := config.Default(), ""
	c.BindAddress, c.AdminAddress = netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.1")
	c.HTTPPort, c.HTTPSPort = demoPort, demoTLSPort
	c.AccessLog, c.DrainDelay, c.ShutdownGracePeriod = "off", 0, 5*time.Second
	command := &cobra.Command{
		Use:   "demo",
		Short: "Serve an example on this machine",
		Long: "Demo serves a few Ingresses with nothing installed: the manifests, which are in the program, are written to a new\n" +
			"folder that is watched, and the endpoints are servers inside this process. It says what to try.",
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return demo(command, w, c, folder) },
	}
	command.Flags().StringVar(&folder, "dir", "", "write the manifests to `DIR`, new or empty, and leave it there; a temporary folder when not given")
	c.AddListeners(command.Flags())
	c.AddProcess(command.Flags())
	return command
}

func demo(command *cobra.Command, w world, c config.Config, folder string) error {
	log := newLogger(w.err, c)
	for _, message := range strangers(w, command) {
		log.Warn(message)
	}
	listeners, err := listen(c)
	if err != nil {
		return err
	}
	defer listeners.close()
	pods, err := startEchoes()
	if err != nil {
		return err
	}
	defer pods.stop()
	folder, remove, err := demoFolder(folder)
	if err != nil {
		return err
	}
	defer remove()
	ca := openLocalCA(w, c, log)
	caPath, err := writeDemo(folder, pods.all, ca)
	if err != nil {
		return err
	}
	c.Manifests = []string{folder}
	source, err := openSource(w, c, log)
	if err != nil {
		return err
	}
	s, err := newServer(w, c, listeners, log)
	if err != nil {
		return err
	}
	s.useLocalCA(ca)
	s.ready = func(rows []routeRow) { introduce(w.out, folder, caPath, listeners, rows) }
	ctx, stop := untilSignal(command.Context(), w)
	defer stop()
	return s.serve(ctx, source)
}

// demoFolder makes the folder for the demo's manifests. Remove takes a temporary one away again.
func demoFolder(name string) (folder string, remove func(), err error) {
	if name == "" {
		folder, err = os.MkdirTemp("", "sallyport-demo-")
		return folder, func() { os.RemoveAll(folder) }, err
	}
	if err := os.MkdirAll(name, 0o755); err != nil {
		return "", nil, fmt.Errorf("--dir: %w", err)
	}
	if entries, err := os.ReadDir(name); err != nil || len(entries) > 0 {
		return "", nil, fmt.Errorf("--dir: %q is not an empty folder", name)
	}
	return name, func() {}, nil
}

// A trial is a command line that the demo proposes, and what it shows.
type trial struct{ command, shows string }

// trials are command lines that work as they stand.
func trials(caPath string, http, https, admin int) []trial {
	h, s, a := strconv.Itoa(http), strconv.Itoa(https), strconv.Itoa(admin)
	return []trial{
		{"curl http://myapp.localhost:" + h + "/", "one Service, three endpoints: ask again and the next one answers"},
		{"curl http://shop.localhost:" + h + "/cart/items", "one host, several Services by path: this one goes to cart"},
		{"curl http://shop.localhost:" + h + "/", "and this one to web"},
		{"curl http://blue.apps.localhost:" + h + "/", "a wildcard host: any name one label below apps.localhost"},
		{"curl -i http://secure.localhost:" + h + "/", "a host with TLS sends plain HTTP to HTTPS: 308"},
		{"curl --cacert " + quote(caPath) + " https://secure.localhost:" + s + "/", "HTTPS, with a certificate of the local CA, which stays: a browser needs to import it once"},
		{"curl -k https://shop.localhost:" + s + "/", "every host has one; this does not check it"},
		{"curl -i http://nobody.localhost:" + h + "/", "a host that no Ingress names: 404, with the reason"},
		{"curl http://localhost:" + a + "/routes", "the table that is being served"},
		{"curl http://localhost:" + a + "/metrics", "what it has served so far"},
	}
}

// quote makes a word of a shell's command line of s.
func quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+@%:=", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// introduce says what is served and what to try.
func introduce(out io.Writer, folder, caPath string, l *listeners, rows []routeRow) {
	http, https := portOf(l.http), portOf(l.https)
	fmt.Fprintf(out, "Sallyport serves the manifests in %s\non http://localhost:%d and https://localhost:%d:\n\n", folder, http, https)
	printRoutes(out, rows, false, true)
	fmt.Fprint(out, "\nTry:\n\n")
	for _, t := range trials(caPath, http, https, portOf(l.admin)) {
		fmt.Fprintf(out, "  # %s\n  %s\n\n", t.shows, t.command)
	}
	fmt.Fprint(out, "Edit the manifests and save: what changes is said here. Ctrl-C ends the demo.\n")
}
