package main

import (
	"fmt"
	"slices"
	"strings"

	"sallyport/controller"
	"sallyport/proxy"
	"sallyport/proxy/upstream"
	"sallyport/router"
)

// A routeRow is one route of a table as commands and the log show it.
type routeRow struct {
	Host      string      `json:"host"` // empty: any
	Type      string      `json:"type"`
	Path      string      `json:"path"`
	Namespace string      `json:"namespace,omitempty"`
	Service   string      `json:"service,omitempty"` // empty: the proxy answers by itself
	Port      string      `json:"port,omitempty"`
	Endpoints []string    `json:"endpoints"`
	Ingress   string      `json:"ingress,omitempty"` // namespace/name
	RegexBy   string      `json:"regexBy,omitempty"` // the Ingress that makes the host's paths regular expressions
	Canaries  []canaryRow `json:"canaries,omitempty"`
	File      string      `json:"file,omitempty"`
	Line      int         `json:"line,omitempty"`
}

// A canaryRow is an Ingress that takes some of the requests of a route to its own Service.
type canaryRow struct {
	Ingress   string   `json:"ingress"` // namespace/name
	Service   string   `json:"service"`
	Port      string   `json:"port"`
	Endpoints []string `json:"endpoints"`
	Share     float64  `json:"share"` // of the requests that nothing else decides, from 0 to 1
}

// String is the canary as the table has it: its Ingress, Service and share.
func (c canaryRow) String() string {
	return fmt.Sprintf("%s to %s:%s %.4g%%", c.Ingress, c.Service, c.Port, 100*c.Share)
}

// routeRows reads a table in the order in which its routes are tried. Locate, which may be nil, says where they are
// written.
func routeRows(table *router.Table, pools *upstream.Pools, locate func(*controller.Problem)) []routeRow {
	endpoints := endpointsByService(pools)
	rows := make([]routeRow, 0, table.Len())
	for route := range table.All() {
		row := routeRow{Host: route.Host, Type: route.Type.String(), Path: route.Path, Ingress: route.Source, Endpoints: []string{}}
		if info := proxy.InfoOf(route.Handler); info != nil {
			row.Namespace, row.Service, row.Port, row.RegexBy = info.Namespace, info.Service, info.Port, info.RegexBy
			row.Endpoints = append(row.Endpoints, endpoints[upstream.ID{Namespace: info.Namespace, Service: info.Service, Port: info.Pool}]...)
			for _, c := range info.Canaries {
				addresses := endpoints[upstream.ID{Namespace: info.Namespace, Service: c.Service, Port: c.Pool}]
				row.Canaries = append(row.Canaries, canaryRow{c.Ingress, c.Service, c.Port, append([]string{}, addresses...), c.Share})
			}
			row.findPlace(info, locate)
		}
		rows = append(rows, row)
	}
	return rows
}

func endpointsByService(pools *upstream.Pools) map[upstream.ID][]string {
	all := make(map[upstream.ID][]string)
	for _, pool := range pools.All() {
		var addresses []string
		for _, endpoint := range pool.Endpoints() {
			addresses = append(addresses, endpoint.String())
		}
		slices.Sort(addresses)
		all[pool.ID()] = addresses
	}
	return all
}

// findPlace fills in where the route is written.
func (r *routeRow) findPlace(info *proxy.RouteInfo, locate func(*controller.Problem)) {
	if locate == nil || info.Ingress == "" {
		return
	}
	at := controller.Problem{Object: controller.Ref{Kind: "Ingress", Namespace: info.Namespace, Name: info.Ingress}, Field: info.Field}
	locate(&at)
	r.File, r.Line = at.File, at.Line
}

// target is the Service and port behind the route; empty when the proxy answers by itself.
func (r routeRow) target() string {
	if r.Service == "" {
		return ""
	}
	target := r.Service
	if r.Namespace != "default" {
		target = r.Namespace + "/" + target
	}
	if r.Port != "" {
		target += ":" + r.Port
	}
	return target
}

// canaries are those of the route in words; empty: it has none.
func (r routeRow) canaries() string {
	var all []string
	for _, c := range r.Canaries {
		all = append(all, c.String())
	}
	return strings.Join(all, ", ")
}

// place is file:line, as far as it is known.
func (r routeRow) place() string {
	if r.Line == 0 {
		return r.File
	}
	return fmt.Sprintf("%s:%d", r.File, r.Line)
}
