//go:build !race

package feature

import (
	"net/http/httptest"
	"testing"

	"sallyport/proxy"
)

func TestChoosingASideAllocatesNothing(t *testing.T) {
	route, next := new(counting), new(counting)
	var sides []Side
	for range 3 {
		c := canaryOf(t, "canary-weight: 10", "canary-by-header: X-A", "canary-by-header-pattern: ^a[bc]+d", "canary-by-cookie: side")
		sides = append(sides, Side{Canary: c, Share: 0.1, Info: new(proxy.RouteInfo), Pool: poolWith(1), Handler: next})
	}
	h := Split(Side{Pool: poolWith(1), Handler: route}, sides)
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-A", "abcbcbx")
	r.Header.Set("Cookie", "a=b; side=maybe")
	r = proxy.With(r, new(proxy.Exchange))
	if n := testing.AllocsPerRun(1000, func() { h.ServeHTTP(nil, r) }); n != 0 {
		t.Errorf("%v allocations a request", n)
	}
	if route.n == 0 || next.n == 0 {
		t.Errorf("the route took %d requests and the canaries %d; want some for both", route.n, next.n)
	}
}
