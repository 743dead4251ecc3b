package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sallyport/config"
	"sallyport/controller"
	"sallyport/proxy/upstream"
	"sallyport/spelling"
)

// idleMappings says of each --map that sends nothing anywhere why that is: a misspelt Service or port is silent
// otherwise, because a mapped Service need not be in the folder.
func idleMappings(all []config.Mapping, snapshot *controller.Snapshot, pools *upstream.Pools) []string {
	if len(all) == 0 {
		return nil
	}
	wanted := wantedPorts(snapshot, pools)
	var told []string
	for _, m := range all {
		if why := idle(m, snapshot, wanted); why != "" {
			told = append(told, "--map "+m.String()+": "+why)
		}
	}
	return told
}

// idle says why a mapping sends nothing anywhere; "": it does.
func idle(m config.Mapping, snapshot *controller.Snapshot, wanted wantedSet) string {
	key := controller.Key(m.Service)
	ports, exists := servicePorts(snapshot, key)
	asked := wanted[key]
	switch {
	case exists && m.Port != "" && !ports.has(m.Port):
		return fmt.Sprintf("Service %s has no port %s%s; it has %s", key, m.Port, meant(m.Port, ports.names()), ports)
	case len(asked) == 0 && !exists:
		return fmt.Sprintf("no manifest has a Service %s, and no Ingress asks for one%s", key, wanted.meant(key))
	case len(asked) == 0:
		return fmt.Sprintf("no Ingress leads to Service %s", key)
	case m.Port != "" && !ports.leadTo(m.Port, asked):
		return fmt.Sprintf("no Ingress leads to port %s of Service %s; asked for is %s", m.Port, key, strings.Join(slices.Sorted(maps.Keys(asked)), ", "))
	}
	return ""
}

// meant proposes the known word that is most like one.
func meant(word string, known []string) string {
	if near := spelling.Nearest(word, slices.Values(known)); near != "" {
		return ", did you mean " + near + "?"
	}
	return ""
}

// A wantedSet is the ports of each Service that somebody leads to, by number or by name.
type wantedSet map[controller.Key]map[string]bool

func (w wantedSet) add(service controller.Key, port string) {
	if w[service] == nil {
		w[service] = make(map[string]bool)
	}
	w[service][port] = true
}

// meant proposes the Service that is most like one: of the same name in another namespace, or of a like name in its own.
func (w wantedSet) meant(service controller.Key) string {
	var alike []string
	for key := range w {
		if key.Name == service.Name {
			return ", did you mean " + key.String() + "?"
		}
		if key.Namespace == service.Namespace {
			alike = append(alike, key.Name)
		}
	}
	slices.Sort(alike)
	if near := spelling.Nearest(service.Name, slices.Values(alike)); near != "" {
		return ", did you mean " + controller.Key{Namespace: service.Namespace, Name: near}.String() + "?"
	}
	return ""
}

// wantedPorts are those of the pools that routes lead to, and those of backends that lead to no pool because their
// Service does not exist: these may be what a mapping was meant for.
func wantedPorts(snapshot *controller.Snapshot, pools *upstream.Pools) wantedSet {
	wanted := make(wantedSet)
	for _, pool := range pools.All() {
		id := pool.ID()
		wanted.add(controller.Key{Namespace: id.Namespace, Name: id.Service}, id.Port)
	}
	for ingress := range snapshot.Ingresses() {
		for _, rule := range ingress.Spec.Rules {
			if rule.HTTP == nil {
				continue
			}
			for _, path := range rule.HTTP.Paths {
				service := path.Backend.Service
				if service == nil {
					continue
				}
				key := controller.Key{Namespace: ingress.Namespace, Name: service.Name}
				if snapshot.Service(key) == nil && service.Name != "" {
					wanted.add(key, portAsked(service.Port.Name, service.Port.Number))
				}
			}
		}
	}
	return wanted
}

func portAsked(name string, number int32) string {
	if name != "" {
		return name
	}
	return strconv.Itoa(int(number))
}

// ports are the ports of a Service, each with its name, which may be empty, and its number.
type ports [][2]string

func servicePorts(snapshot *controller.Snapshot, key controller.Key) (all ports, exists bool) {
	service := snapshot.Service(key)
	if service == nil {
		return nil, false
	}
	for _, p := range service.Spec.Ports {
		all = append(all, [2]string{p.Name, strconv.Itoa(int(p.Port))})
	}
	return all, true
}

func (p ports) has(port string) bool {
	return slices.ContainsFunc(p, func(one [2]string) bool { return one[0] == port || one[1] == port })
}

// leadTo says whether one of the ports asked for is the port, under its other name too.
func (p ports) leadTo(port string, asked map[string]bool) bool {
	return asked[port] || slices.ContainsFunc(p, func(one [2]string) bool {
		return (one[0] == port || one[1] == port) && (asked[one[0]] || asked[one[1]])
	})
}

func (p ports) names() []string {
	var names []string
	for _, one := range p {
		names = append(names, one[0])
	}
	return names
}

// String lists them as Kubernetes people write them: 80 "http", 8443.
func (p ports) String() string {
	if len(p) == 0 {
		return "none"
	}
	var all []string
	for _, one := range p {
		text := one[1]
		if one[0] != "" {
			text += fmt.Sprintf(" %q", one[0])
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}
