package main

import (
	"fmt"
	"slices"
	"strings"

	"sallyport/controller/manifests"
)

// mostShown is how many changes of one kind a log line names; the rest are counted.
const mostShown = 10

// describeChanges says in one line each which objects a reload changed, by file and line.
func describeChanges(changes []manifests.Change) []string {
	var all []string
	for _, change := range changes {
		all = append(all, change.String())
	}
	return all
}

// describeRoutes says what became of the requests of each route, oldest table first:
//
//	shop.localhost/cart: cart:8081 -> myapp:80 (2-shop.yaml:20)
//	new.localhost/: new, web:80 (3-new.yaml:1)
//	old.localhost/: gone, was web:80 (3-new.yaml:1)
//	myapp.localhost/: myapp:80 has 2 endpoints, had 3
func describeRoutes(before, after []routeRow) []string {
	was := make(map[string]routeRow, len(before))
	for _, row := range before {
		was[row.request()] = row
	}
	var all []string
	for _, row := range after {
		old, known := was[row.request()]
		delete(was, row.request())
		switch target := row.answer(); {
		case !known:
			all = append(all, row.label()+": new, "+target+row.at())
		case old.answer() != target:
			all = append(all, row.label()+": "+old.answer()+" -> "+target+row.at())
		case len(old.Endpoints) != len(row.Endpoints):
			all = append(all, fmt.Sprintf("%s: %s has %s, had %d", row.label(), target, count(len(row.Endpoints), "endpoint"), len(old.Endpoints)))
		case !slices.Equal(old.Endpoints, row.Endpoints):
			all = append(all, row.label()+": "+target+" has other endpoints")
		case old.Ingress != row.Ingress:
			all = append(all, row.label()+": by "+old.Ingress+" -> by "+row.Ingress+row.at())
		}
	}
	for _, row := range before {
		if _, gone := was[row.request()]; gone {
			all = append(all, row.label()+": gone, was "+row.answer()+row.at())
		}
	}
	return all
}

// request is what makes two rows routes of the same requests.
func (r routeRow) request() string { return r.Host + " " + r.Type + " " + r.Path }

// label is what people call the route: host and path, the type where it is not the usual one.
func (r routeRow) label() string {
	label := or(r.Host, "*") + r.Path
	if r.Type != "Prefix" {
		label += " (" + r.Type + ")"
	}
	return label
}

func (r routeRow) answer() string { return or(r.target(), "answered by the proxy") }

func (r routeRow) at() string {
	if r.File == "" {
		return ""
	}
	return " (" + r.place() + ")"
}

// joinShort joins what fits a log line and counts the rest.
func joinShort(all []string) string {
	if len(all) <= mostShown {
		return strings.Join(all, "; ")
	}
	return strings.Join(all[:mostShown], "; ") + fmt.Sprintf("; and %d more", len(all)-mostShown)
}
