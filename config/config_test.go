package config

import (
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"
)

// flagSet is a flag set with every flag there is, writing to the returned Config.
func flagSet() (*pflag.FlagSet, *Config) {
	c := Default()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.AddSources(flags)
	c.AddMap(flags)
	c.AddClasses(flags)
	c.AddServices(flags)
	c.AddNearness(flags)
	c.AddACME(flags)
	c.AddReports(flags)
	c.AddListeners(flags)
	c.AddProcess(flags)
	return flags, &c
}

func environment(pairs map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := pairs[name]
		return value, ok
	}
}

// parse reads a command line and an environment the way a command does.
func parse(args []string, env map[string]string) (*Config, error) {
	flags, c := flagSet()
	if err := flags.Parse(args); err != nil {
		return c, Explain(flags, err)
	}
	return c, Environment(flags, environment(env))
}

func TestEveryFlagReachesItsField(t *testing.T) {
	got, err := parse([]string{
		"--manifests=a,b", "--manifests", "c", "--kubeconfig=k", "--map=web=localhost:3000,shop/api:http=[::1]:81",
		"--watch-namespace=a,b", "--watch-namespace-selector=team=web",
		"--controller-class=k8s.io/ingress-nginx", "--ingress-class=nginx", "--ingress-class-by-name",
		"--watch-ingress-without-class=true", "--default-backend-service=a/b", "--default-ssl-certificate=c/d.e",
		"--disable-catch-all", "--bind-address=::", "--http-port=0", "--https-port=443", "--admin-address=127.0.0.1",
		"--admin-port=65535", "--trusted-proxies=10.1.2.3/8,::1", "--proxy-connect-timeout=1s", "--proxy-send-timeout=2m",
		"--proxy-read-timeout=3", "--drain-delay=0", "--shutdown-grace-period=300", "--access-log=off",
		"--log-level=error", "--log-format=json", "--profiling",
		"--publish-service=a/b", "--publish-status-address=192.0.2.7,lb.example.org", "--report-node-internal-ip-address",
		"--update-status=false", "--update-status-on-shutdown=false", "--disable-sync-events", "--election-id=x.y",
		"--election-ttl=3", "--leader-elect=false",
		"--tcp-services-configmap=a/tcp", "--udp-services-configmap=b/udp", "--disable-svc-external-name", "--allow-external-name-addresses=127.0.0.0/8,::1", "--resolv-conf=r",
		"--enable-topology-aware-routing", "--zone=z", "--node-name=n", "--max-connections=9", "--max-connections-per-address=3",
		"--enable-ssl-passthrough", "--state-dir=s",
		"--acme-accept-terms", "--acme-directory=https://ca.test/dir", "--acme-email=a@b.test", "--acme-ca-bundle=ca", "--acme-eab-kid=i", "--acme-eab-hmac-key-file=m", "--acme-challenges=tls-alpn-01,http-01", "--acme-orders-per-hour=7",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Manifests: []string{"a,b", "c"}, Kubeconfig: "k",
		Map: []Mapping{
			{Service: Name{"default", "web"}, Host: "localhost", HostPort: 3000},
			{Service: Name{"shop", "api"}, Port: "http", Host: "::1", HostPort: 81},
		},
		WatchNamespaces: []string{"a", "b"}, WatchNamespaceSelector: "team=web",
		ControllerClasses: []string{"k8s.io/ingress-nginx"}, IngressClass: "nginx", IngressClassByName: true,
		WatchIngressWithoutClass: true, DefaultBackendService: Name{"a", "b"}, DefaultSSLCertificate: Name{"c", "d.e"},
		DisableCatchAll: true, BindAddress: netip.IPv6Unspecified(), HTTPPort: 0, HTTPSPort: 443,
		AdminAddress: netip.MustParseAddr("127.0.0.1"), AdminPort: 65535,
		TrustedProxies:      []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")},
		ProxyConnectTimeout: time.Second, ProxySendTimeout: 2 * time.Minute, ProxyReadTimeout: 3 * time.Second,
		DrainDelay: 0, ShutdownGracePeriod: 5 * time.Minute, AccessLog: "off", LogLevel: slog.LevelError, LogFormat: "json",
		Profiling: true, MaxConnections: 9, MaxConnectionsPerAddress: 3, StateDir: "s", EnableSSLPassthrough: true,

		ACMEAcceptTerms: true, ACMEDirectory: "https://ca.test/dir", ACMEEmail: "a@b.test", ACMECABundle: "ca", ACMEEABKeyID: "i", ACMEEABHMACKeyFile: "m",
		ACMEChallenges: []string{"tls-alpn-01", "http-01"}, ACMEOrdersPerHour: 7,

		PublishService: Name{"a", "b"}, PublishStatusAddress: []string{"192.0.2.7", "lb.example.org"}, ReportNodeInternalIPAddress: true,
		DisableSyncEvents: true, ElectionID: "x.y", ElectionTTL: 3 * time.Second, DisableLeaderElection: true,

		TCPServices: Name{"a", "tcp"}, UDPServices: Name{"b", "udp"}, DisableSvcExternalName: true, ResolvConf: "r", EnableTopologyAwareRouting: true, Zone: "z", NodeName: "n",
		AllowExternalNameAddresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
		t.Errorf("fields differ (-want +got):\n%s", diff)
	}
}

func TestCommandLineBeatsEnvironmentBeatsDefault(t *testing.T) {
	env := map[string]string{
		"SALLYPORT_HTTP_PORT": "1", "SALLYPORT_ADMIN_PORT": "2", "SALLYPORT_HTTPS_PORT": "3",
		"SALLYPORT_MANIFESTS": "x,y", "SALLYPORT_CONTROLLER_CLASS": "a.example/b", "SALLYPORT_PROFILING": "true",
		"SALLYPORT_HEALTHZ_PORT": "9", "SALLYPORT_HELP": "true",
	}
	for _, test := range []struct {
		name string
		args []string
		want func(*Config)
	}{
		{"the environment fills what the command line leaves", nil, func(c *Config) {
			c.HTTPPort, c.AdminPort, c.HTTPSPort = 1, 2, 3
			c.Manifests, c.ControllerClasses, c.Profiling = []string{"x", "y"}, []string{"a.example/b"}, true
		}},
		{"the command line replaces, lists too", []string{"--http-port=5", "--manifests=z", "--controller-class=c.example/d", "--profiling=false"}, func(c *Config) {
			c.HTTPPort, c.AdminPort, c.HTTPSPort = 5, 2, 3
			c.Manifests, c.ControllerClasses = []string{"z"}, []string{"c.example/d"}
		}},
		{"a flag's second name counts as the flag", []string{"--healthz-port=7"}, func(c *Config) {
			c.HTTPPort, c.AdminPort, c.HTTPSPort = 1, 7, 3
			c.Manifests, c.ControllerClasses, c.Profiling = []string{"x", "y"}, []string{"a.example/b"}, true
		}},
		{"one that sets two flags counts as both", []string{"--metrics-bind-address=127.0.0.1:8"}, func(c *Config) {
			c.HTTPPort, c.AdminPort, c.HTTPSPort = 1, 8, 3
			c.AdminAddress = netip.MustParseAddr("127.0.0.1")
			c.Manifests, c.ControllerClasses, c.Profiling = []string{"x", "y"}, []string{"a.example/b"}, true
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parse(test.args, env)
			if err != nil {
				t.Fatal(err)
			}
			want := Default()
			test.want(&want)
			if diff := cmp.Diff(&want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
				t.Errorf("fields differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryFlagHasAVariable(t *testing.T) {
	flags, _ := flagSet()
	count := 0
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden {
			return
		}
		count++
		one, _ := flagSet()
		const nonsense = "\x00 nonsense"
		err := Environment(one, environment(map[string]string{Variable(flag.Name): nonsense}))
		free := flag.Name == "kubeconfig" || flag.Name == "resolv-conf" || flag.Name == "state-dir" || flag.Name == "acme-email" || flag.Name == "acme-ca-bundle" || flag.Name == "acme-eab-kid" || flag.Name == "acme-eab-hmac-key-file" || flag.Name == "manifests" || flag.Name == "ingress-class" || flag.Name == "watch-namespace-selector"
		switch {
		case free && err != nil:
			t.Errorf("%s: %v, want any text taken", Variable(flag.Name), err)
		case free && !strings.Contains(one.Lookup(flag.Name).Value.String(), nonsense):
			t.Errorf("%s=%q left the flag at %q", Variable(flag.Name), nonsense, one.Lookup(flag.Name).Value)
		case !free && (err == nil || !strings.HasPrefix(err.Error(), Variable(flag.Name)+`: "`)):
			t.Errorf("%s=%q gives the error %v, want one that begins with the variable and the value", Variable(flag.Name), nonsense, err)
		}
	})
	if count < 25 {
		t.Errorf("looked at %d flags, want all", count)
	}
}

func TestMistakesNameFlagValueAndExpectation(t *testing.T) {
	for _, test := range []struct{ arg, want string }{
		{"--http-port=abc", `--http-port: "abc" is not a port, a whole number from 0 to 65535`},
		{"--https-port=65536", `--https-port: "65536" is not a port, a whole number from 0 to 65535`},
		{"--admin-port=-1", `--admin-port: "-1" is not a port, a whole number from 0 to 65535`},
		{"--bind-address=localhost", `--bind-address: "localhost" is not an IP address, as in 127.0.0.1 or ::1`},
		{"--metrics-bind-address=10254", `--metrics-bind-address: "10254" is not an address and a port, as in :10254 or 127.0.0.1:10254`},
		{"--drain-delay=soon", `--drain-delay: "soon" is not a length of time, as in 10s or 1m30s`},
		{"--drain-delay=-5s", `--drain-delay: "-5s" is not a length of time, as in 10s or 1m30s`},
		{"--proxy-read-timeout=0", `--proxy-read-timeout: "0" is not a length of time above zero, as in 10s or 1m30s`},
		{"--max-connections=-1", `--max-connections: "-1" is not a whole number from 0 to 2147483647`},
		{"--access-log=yes", `--access-log: "yes" is not one of off, text, json`},
		{"--log-level=loud", `--log-level: "loud" is not one of debug, info, warn, error`},
		{"--v=x", `--v: "x" is not a whole number from 0 to 2147483647`},
		{"--profiling=maybe", `--profiling: "maybe" is not true or false`},
		{"--default-backend-service=web", `--default-backend-service: "web" is not a namespace and a name, as in default/web`},
		{"--default-ssl-certificate=a/B", `--default-ssl-certificate: "a/B" is not a namespace and a name, as in default/web`},
		{"--controller-class=nginx", `--controller-class: "nginx" is not the name of a controller, as in example.org/controller`},
		{"--watch-namespace=a,B", `--watch-namespace: "B" is not the name of a namespace: small letters, digits and dashes, 63 at most`},
		{"--trusted-proxies=10.0.0.0/33", `--trusted-proxies: "10.0.0.0/33" is not an address or a network, as in 192.0.2.7 or 10.0.0.0/8`},
		{"--map=web", `--map: "web" is not a Service and where to send its traffic, as in default/web:80=localhost:3000`},
		{"--map=web=localhost", `--map: "web=localhost" is not a Service and where to send its traffic, as in default/web:80=localhost:3000`},
		{"--map=web:0=localhost:1", `--map: "web:0=localhost:1" is not a Service and where to send its traffic, as in default/web:80=localhost:3000`},
		{"--map=web=localhost:0", `--map: "web=localhost:0" is not a Service and where to send its traffic, as in default/web:80=localhost:3000`},
		{"--manifests=", `--manifests: "" is not the name of a folder`},
		{"--http-port", `--http-port: the value is missing, expected PORT`},
		{"--htp-port=1", `--htp-port: there is no such flag, did you mean --http-port?`},
		{"--watch-namespaces=a", `--watch-namespaces: there is no such flag, did you mean --watch-namespace?`},
		{"--frobnicate", `--frobnicate: there is no such flag`},
		{"--status-update-interval=60", `--status-update-interval: there is no such flag here: the status of Ingresses is written when it changes; leave it out`},
		{"--publish-status-address=a_b", `--publish-status-address: "a_b" is not an IP address or the name of a host, as in 192.0.2.7 or lb.example.org`},
		{"--election-id=", `--election-id: "" is not the name of a Lease: small letters, digits, dashes and dots`},
		{"--election-ttl=1s", `--election-ttl: "1s" is not a length of time of 3s or more, as in 15s`},
		{"--maxmind-license-key=x", `--maxmind-license-key: there is no such flag here: there are no GeoIP databases, leave it out`},
		{"--zap-log-level=debug", `--zap-log-level: there is no such flag here: use --log-level`},
		{"-x", `unknown shorthand flag: 'x' in -x`},
	} {
		if _, err := parse([]string{test.arg}, nil); err == nil || err.Error() != test.want {
			t.Errorf("%s\n got %v\nwant %s", test.arg, err, test.want)
		}
	}
}

func TestAMistakeLeavesAListAsItWas(t *testing.T) {
	flags, c := flagSet()
	if err := flags.Parse([]string{"--trusted-proxies=10.0.0.0/8,nonsense"}); err == nil {
		t.Error("nonsense was taken for a network")
	}
	if len(c.TrustedProxies) != 0 {
		t.Errorf("trusted proxies are %v, want none", c.TrustedProxies)
	}
}

func TestForeignFlagsAreNotOurs(t *testing.T) {
	flags, _ := flagSet()
	for name, advice := range foreign {
		if flags.Lookup(name) != nil {
			t.Errorf("--%s is a flag of ours and cannot be foreign", name)
		}
		for word := range strings.FieldsSeq(advice) {
			ours, isFlag := strings.CutPrefix(strings.TrimRight(word, ".,;"), "--")
			ours, _, _ = strings.Cut(ours, "=")
			if isFlag && flags.Lookup(ours) == nil {
				t.Errorf("--%s: the advice %q names --%s, which does not exist", name, advice, ours)
			}
		}
	}
}

func TestEveryFlagPrintsAValueItTakes(t *testing.T) {
	flags, _ := flagSet()
	if err := flags.Parse([]string{"--map=a/b:80=h:1", "--trusted-proxies=::1", "--default-backend-service=a/b", "--bind-address=::1", "--manifests=x", "--watch-namespace=n"}); err != nil {
		t.Fatal(err)
	}
	flags.VisitAll(func(flag *pflag.Flag) {
		before := flag.Value.String()
		fresh, _ := flagSet()
		if err := fresh.Set(flag.Name, before); err != nil {
			t.Errorf("--%s prints %q and does not take it: %v", flag.Name, before, err)
		} else if after := fresh.Lookup(flag.Name).Value.String(); after != before {
			t.Errorf("--%s=%s prints %q", flag.Name, before, after)
		}
	})
}

func TestHelpShowsNoSecondNames(t *testing.T) {
	flags, _ := flagSet()
	usage := flags.FlagUsages()
	for alias, names := range aliases {
		if strings.Contains(usage, "--"+alias+" ") {
			t.Errorf("help shows --%s", alias)
		}
		if flags.Lookup(alias) == nil || !slices.ContainsFunc(names, func(name string) bool { return flags.Lookup(name) != nil }) {
			t.Errorf("--%s or what it stands for, %v, does not exist", alias, names)
		}
	}
}
