package main

import "strings"

// A benchCase is one kind of request, with how many connections bring it.
type benchCase struct {
	name        string
	title       string // as the report has it
	path        string
	body        int // bytes that are sent; 0: a GET
	tls         bool
	streams     int // at once on a connection, over HTTP/2; 0: HTTP/1.1
	connections int
	rate        int // requests a second when latency is measured
}

// host is the one that is routed.
const host = "bench.test"

const (
	kibibyte = 1 << 10
	mebibyte = 1 << 20
)

// allCases are every case there is. The path of those that end in "-buffered" is served by nginx with its answers
// buffered, as it does by default, and by the others as ever.
var allCases = []benchCase{
	{name: "small-1", title: "small GET, 1 connection", path: "/", connections: 1, rate: 500},
	{name: "small", title: "small GET, 64 connections", path: "/", connections: 64, rate: 2000},
	{name: "small-1000", title: "small GET, 1,000 connections", path: "/", connections: 1000, rate: 2000},
	{name: "64k", title: "GET of 64 KiB, 64 connections", path: "/64k", connections: 64, rate: 1000},
	{name: "1m", title: "GET of 1 MiB, 64 connections", path: "/1m", connections: 64, rate: 200},
	{name: "post", title: "POST of 16 KiB, 64 connections", path: "/post", body: 16 * kibibyte, connections: 64, rate: 1000},
	{name: "tls", title: "small GET over TLS, 64 connections", path: "/", tls: true, connections: 64, rate: 2000},
	{name: "h2", title: "small GET over HTTP/2, 64 connections with 4 streams each", path: "/", tls: true, streams: 4, connections: 64, rate: 2000},
	{name: "64k-buffered", title: "GET of 64 KiB, 64 connections, nginx with proxy_buffering on", path: "/buffered/64k", connections: 64, rate: 1000},
	{name: "1m-buffered", title: "GET of 1 MiB, 64 connections, nginx with proxy_buffering on", path: "/buffered/1m", connections: 64, rate: 200},
}

// tlsOnly is the name for handshakes and idle connections.
const tlsOnly = "tls-only"

// usualCases are those that are measured when nothing is said.
var usualCases = []string{"small-1", "small", "small-1000", "64k", "1m", "post", "tls", "h2", tlsOnly}

func caseNames() (names []string) {
	for _, c := range allCases {
		names = append(names, c.name)
	}
	return names
}

// browserFields are the header of every request, as a browser sends it, without Host.
var browserFields = [][2]string{
	{"User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"},
	{"Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"},
	{"Accept-Language", "en-US,en;q=0.7,de;q=0.3"},
	{"Accept-Encoding", "gzip, deflate, br"},
	{"Referer", "https://bench.test/catalogue?page=2&sort=price"},
	{"Cookie", "session=4f1d8b2c6e9a47d0b3c5f8e1a2d4c6b8; theme=dark; consent=1"},
	{"Sec-Fetch-Dest", "document"},
	{"Sec-Fetch-Mode", "navigate"},
	{"Sec-Fetch-Site", "same-origin"},
	{"Cache-Control", "max-age=0"},
}

// smallAnswer is the body of what / answers.
const smallAnswer = `{"id":4711,"name":"a thing of some name","price":"19.90","currency":"EUR","stock":12,"tags":["one","two","three"],"links":{"self":"/things/4711","all":"/things"}}`

// buffered reports whether nginx is to buffer large answers.
func (c benchCase) buffered() bool { return strings.HasPrefix(c.path, "/buffered/") }
