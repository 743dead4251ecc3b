package feature

import (
	"strconv"

	"sallyport/proxy"
)

// hsts reads what browsers are told about HTTP in the clear (reference A9). The front sets the field, since every answer
// has it, also those that no route makes.
func (a *Annotations) hsts() string {
	a.Section("HTTPS only", ReachProcess, "Every answer over a TLS connection that ends here has Strict-Transport-Security, those of the proxy among them, in place of the endpoint's own: "+
		"browsers then ask for the host over HTTPS alone. It is not sent where a load balancer in front ends TLS. "+
		"Unlike in ingress-nginx a field that custom-headers or add-headers sets stands. With hsts off the endpoint's own passes.")
	a = a.Config()
	on := a.Bool("hsts", true, "whether answers over TLS say Strict-Transport-Security")
	age := a.Int("hsts-max-age", 31536000, "for how many seconds browsers remember it; 0 has them forget it")
	below := a.Bool("hsts-include-subdomains", true, "whether it is for the hosts below, too")
	preload := a.Bool("hsts-preload", false, "whether it says preload, which asks browsers to ship with it")
	if !on {
		return proxy.NoHSTS
	}
	text := "max-age=" + strconv.Itoa(age)
	if below {
		text += "; includeSubDomains"
	}
	if preload {
		text += "; preload"
	}
	return text
}
