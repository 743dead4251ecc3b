package feature

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"

	"sallyport/proxy"
)

// drafting runs features over annotations, without prefix, and the ConfigMap.
func drafting(annotations, config map[string]string, features ...func(*Annotations, *Draft)) (*Draft, []Problem) {
	p := passage{annotations: annotations, config: config, features: features}
	d := p.drafted()
	return d, p.problems
}

// answerTo is the status and the reason that a draft has for a client.
func answerTo(t *testing.T, d *Draft, client string) (int, proxy.Reason) {
	t.Helper()
	e := new(proxy.Exchange)
	if client != "" {
		e.Client = netip.MustParseAddr(client)
	}
	answer, _ := ask(t, d.Around(d.Handler(Place{}, say("in"))), e)
	return answer.StatusCode, e.Reason
}

type pairs = map[string]string

func TestAccessLists(t *testing.T) {
	many := make([]string, 12)
	for i := range many {
		many[i] = fmt.Sprintf("10.%d.0.0/16", i)
	}
	long := strings.Join(many, ",")
	for _, c := range []struct {
		claim               string
		annotations, config pairs
		client              string
		want                int
	}{
		{"in the allow list", pairs{"allowlist-source-range": "192.0.2.0/24, 10.0.0.1"}, nil, "10.0.0.1", 200},
		{"not in it", pairs{"allowlist-source-range": "192.0.2.0/24, 10.0.0.1"}, nil, "10.0.0.2", 403},
		{"an address mapped into IPv6", pairs{"allowlist-source-range": "192.0.2.0/24"}, nil, "::ffff:192.0.2.9", 200},
		{"a network written so", pairs{"allowlist-source-range": "::ffff:192.0.2.0/120"}, nil, "192.0.2.9", 200},
		{"IPv6", pairs{"allowlist-source-range": "2001:db8::/32"}, nil, "2001:db8:1::1", 200},
		{"all of IPv4 is not IPv6", pairs{"allowlist-source-range": "0.0.0.0/0"}, nil, "2001:db8::1", 403},
		{"a zone does not count", pairs{"denylist-source-range": "fe80::/10"}, nil, "fe80::1%eth0", 403},
		{"an address that nobody knows is not allowed", pairs{"allowlist-source-range": "0.0.0.0/0,::/0"}, nil, "", 403},
		{"nor is it not denied", pairs{"denylist-source-range": "10.0.0.0/8"}, nil, "", 403},
		{"bits behind the network do not count", pairs{"allowlist-source-range": "10.1.2.3/8"}, nil, "10.200.0.1", 200},

		{"the former name", pairs{"whitelist-source-range": "10.0.0.0/8"}, nil, "192.0.2.1", 403},
		{"the new name wins", pairs{"whitelist-source-range": "10.0.0.0/8", "allowlist-source-range": "192.0.2.1"}, nil, "10.0.0.1", 403},
		{"in the deny list", pairs{"denylist-source-range": "10.0.0.0/8"}, nil, "10.0.0.1", 403},
		{"not in it", pairs{"denylist-source-range": "10.0.0.0/8"}, nil, "192.0.2.1", 200},
		{"deny before allow", pairs{"denylist-source-range": "10.0.0.1", "allowlist-source-range": "10.0.0.0/8"}, nil, "10.0.0.1", 403},
		{"deny and allow", pairs{"denylist-source-range": "10.0.0.1", "allowlist-source-range": "10.0.0.0/8"}, nil, "10.0.0.2", 200},

		{"the ConfigMap's allow list", nil, pairs{"whitelist-source-range": "10.0.0.0/8"}, "192.0.2.1", 403},
		{"the ConfigMap's deny list", nil, pairs{"denylist-source-range": "10.0.0.0/8"}, "10.0.0.1", 403},
		{"is replaced by the new name", pairs{"allowlist-source-range": "192.0.2.1"}, pairs{"whitelist-source-range": "10.0.0.0/8"}, "10.0.0.1", 403},
		{"and lets in whom that lets in", pairs{"allowlist-source-range": "192.0.2.1"}, pairs{"whitelist-source-range": "10.0.0.0/8"}, "192.0.2.1", 200},
		{"is replaced by the former", pairs{"whitelist-source-range": "192.0.2.1"}, pairs{"whitelist-source-range": "10.0.0.0/8"}, "192.0.2.1", 200},
		{"the deny list likewise", pairs{"denylist-source-range": "192.0.2.1"}, pairs{"denylist-source-range": "10.0.0.0/8"}, "10.0.0.1", 200},
		{"one list leaves the other", pairs{"denylist-source-range": "192.0.2.1"}, pairs{"whitelist-source-range": "10.0.0.0/8"}, "192.0.2.2", 403},

		{"a long list", pairs{"allowlist-source-range": long}, nil, "10.9.0.1", 200},
		{"behind its end", pairs{"allowlist-source-range": long}, nil, "10.12.0.1", 403},
		{"mapped", pairs{"denylist-source-range": long}, nil, "::ffff:10.9.0.1", 403},
	} {
		d, problems := drafting(c.annotations, c.config, accessLists)
		status, reason := answerTo(t, d, c.client)
		if status != c.want || (status == 403) != (reason == proxy.AddressDenied) || len(problems) > 0 {
			t.Errorf("%s: %v with %v answers %s with %d %s, want %d; problems %v", c.claim, c.annotations, c.config, c.client, status, reason, c.want, problems)
		}
	}
}

// TestAListThatCannotBeReadLetsNobodyIn: 503 for everybody, whether or not the good part of the list has them.
func TestAListThatCannotBeReadLetsNobodyIn(t *testing.T) {
	huge := make([]string, 10_000)
	for i := range huge {
		huge[i] = fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)
	}
	for _, name := range []string{"allowlist-source-range", "whitelist-source-range", "denylist-source-range"} {
		for _, value := range []string{
			"", " ", ",", "10.0.0.0/33", "10.0.0.0/8 192.0.2.1", "10.0.0.0/8;192.0.2.1", "10.0.0.0/8,nobody", "10.0.0", "*", "all", "10.0.0.0/8\n192.0.2.1",
			"fe80::1%eth0", "010.0.0.1", "10.0.0.0/-1", "10.0.0.0/", strings.Join(huge, ","),
		} {
			d, problems := drafting(pairs{name: value}, nil, accessLists)
			if status, _ := answerTo(t, d, "10.0.0.1"); status != 503 || len(problems) != 1 || !problems[0].Denies {
				t.Errorf("%s: %.40q answers %d with problems %v, want 503 with one", name, value, status, problems)
			}
			if name == "allowlist-source-range" || strings.TrimSpace(value) != value || value == "" {
				continue // the ConfigMap has none of the first, and takes an empty value for none
			}
			d, problems = drafting(nil, pairs{name: value}, accessLists)
			if status, _ := answerTo(t, d, "10.0.0.1"); status != 503 || len(problems) != 1 || !problems[0].Denies {
				t.Errorf("%s: %.40q in the ConfigMap answers %d with problems %v, want 503 with one", name, value, status, problems)
			}
		}
	}
}

func TestThePrefixThatWinsCountsAlone(t *testing.T) {
	for _, c := range []struct {
		own, nginx string
		want       int
	}{
		{"10.0.0.0/8", "192.0.2.0/24", 200}, {"192.0.2.0/24", "10.0.0.0/8", 403},
		{"", "10.0.0.0/8", 503}, {"nonsense", "10.0.0.0/8", 503}, {"10.0.0.0/8", "nonsense", 200},
	} {
		a := reads(map[string]string{OwnPrefix + "allowlist-source-range": c.own, NginxPrefix + "allowlist-source-range": c.nginx})
		d := new(Draft)
		a.run(d, []func(*Annotations, *Draft){accessLists})
		if status, _ := answerTo(t, d, "10.0.0.1"); status != c.want {
			t.Errorf("own prefix %q, nginx's %q: %d, want %d", c.own, c.nginx, status, c.want)
		}
	}
}

// TestADenyListAloneIsNoWayAroundAPassword: with satisfy: any one passed check is enough, and not to be denied is none.
func TestADenyListAloneIsNoWayAroundAPassword(t *testing.T) {
	for _, c := range []struct {
		lists    pairs
		password bool
		client   string
		want     int
	}{
		{pairs{"denylist-source-range": "10.0.0.0/8"}, false, "192.0.2.1", 401},
		{pairs{"denylist-source-range": "10.0.0.0/8"}, true, "192.0.2.1", 200},
		{pairs{"denylist-source-range": "10.0.0.0/8"}, false, "10.0.0.1", 401},
		{pairs{"allowlist-source-range": "10.0.0.0/8"}, false, "192.0.2.1", 401},
		{pairs{"allowlist-source-range": "10.0.0.0/8"}, false, "10.0.0.1", 200},
		{pairs{"allowlist-source-range": "10.0.0.0/8", "denylist-source-range": "10.0.0.1"}, false, "10.0.0.1", 401},
	} {
		d, _ := drafting(c.lists, nil, accessLists, func(_ *Annotations, d *Draft) {
			d.SatisfyAny()
			d.Guard(func(*http.Request) http.Handler {
				if c.password {
					return nil
				}
				return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
			})
		})
		if status, _ := answerTo(t, d, c.client); status != c.want {
			t.Errorf("%v, password %v: %s gets %d, want %d", c.lists, c.password, c.client, status, c.want)
		}
	}
	d, _ := drafting(pairs{"denylist-source-range": "10.0.0.0/8"}, nil, accessLists, func(_ *Annotations, d *Draft) { d.SatisfyAny() })
	if status, _ := answerTo(t, d, "192.0.2.1"); status != 200 {
		t.Errorf("without another check a client that is not denied gets %d", status)
	}
}

func TestListsThatAreAbsentGuardNothing(t *testing.T) {
	if d, _ := drafting(nil, nil, accessLists); d.guard != nil || len(d.layers) > 0 {
		t.Error("the draft has a guard")
	}
}

func TestAddressesAgreeWithAWalk(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	address := func() netip.Addr {
		var b [16]byte
		if random.IntN(2) == 0 {
			binary.BigEndian.PutUint32(b[:], 10<<24|random.Uint32N(1<<12)<<8)
			return netip.AddrFrom4([4]byte(b[:4]))
		}
		binary.BigEndian.PutUint64(b[:], 0x20010db8<<32|uint64(random.Uint32N(1<<12)))
		return netip.AddrFrom16(b)
	}
	held := 0
	for range 200 {
		networks := make([]netip.Prefix, 1+random.IntN(40))
		for i := range networks {
			a := address()
			networks[i] = netip.PrefixFrom(a, min(a.BitLen(), 64)-random.IntN(16)).Masked()
		}
		set := addressesOf(networks)
		for range 100 {
			client := address()
			want := slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(client) })
			if want {
				held++
			}
			if got := set.holds(client); got != want {
				t.Fatalf("%v holds %v: %v, want %v", networks, client, got, want)
			}
		}
	}
	if held < 1000 || held > 19_000 {
		t.Errorf("%d of 20,000 were held: the comparison saw one answer only", held)
	}
}

func TestOneListIsOneSetHoweverManyIngresses(t *testing.T) {
	networks := networksOf(100)
	first, second := addressesOf(networks), addressesOf(slices.Clone(networks))
	if first != second {
		t.Error("two sets of the same networks")
	}
	if addressesOf(networksOf(99)) == first {
		t.Error("one set of different networks")
	}
	runtime.KeepAlive(first)
}

func networksOf(n int) []netip.Prefix {
	networks := make([]netip.Prefix, n)
	for i := range networks {
		networks[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(10 + i%100), byte(i / 100), 0, 0}), 24)
	}
	return networks
}

func TestHoldsAllocatesNothing(t *testing.T) {
	client := netip.MustParseAddr("fe80::1%eth0")
	for _, n := range []int{1, 4096} {
		set := addressesOf(networksOf(n))
		if n := testing.AllocsPerRun(100, func() { set.holds(client) }); n != 0 {
			t.Errorf("asking a set of %v networks allocates %v times", n, n)
		}
	}
}

// BenchmarkAddresses asks for an address that no network has, the set and a walk through its networks.
func BenchmarkAddresses(b *testing.B) {
	client := netip.MustParseAddr("203.0.113.9")
	for _, n := range []int{1, 2, 4, 8, 16, 4096} {
		networks := networksOf(n)
		set := addressesOf(networks)
		b.Run(fmt.Sprintf("set/%d", n), func(b *testing.B) {
			for b.Loop() {
				set.holds(client)
			}
		})
		b.Run(fmt.Sprintf("walk/%d", n), func(b *testing.B) {
			for b.Loop() {
				if slices.ContainsFunc(networks, func(network netip.Prefix) bool { return network.Contains(client) }) {
					b.Fatal("a network has it")
				}
			}
		})
	}
}
