package controller

import (
	"cmp"
	"fmt"
	"strings"
)

// A Ref names an object of the snapshot.
type Ref struct {
	Kind      string // "Ingress", "Service", ...; empty when a file could not be read far enough to tell
	Namespace string // empty for kinds without one
	Name      string
}

func (r Ref) String() string {
	switch {
	case r.Namespace == "" && r.Name == "":
		return r.Kind
	case r.Namespace == "":
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Compare orders by kind, namespace and name.
func (r Ref) Compare(o Ref) int {
	return cmp.Or(strings.Compare(r.Kind, o.Kind), strings.Compare(r.Namespace, o.Namespace), strings.Compare(r.Name, o.Name))
}

// A Severity says what a problem does to traffic.
type Severity uint8

const (
	// Warning: everything that can be served is served as asked, but somebody will be surprised.
	Warning Severity = iota
	// Error: something that was asked for is not served, or not as asked.
	Error
)

func (s Severity) String() string {
	if s == Error {
		return "error"
	}
	return "warning"
}

// A Problem is a user's mistake, told to the user: a line of check, an Event, a metric; never a crash and never silence.
type Problem struct {
	Object   Ref
	Severity Severity
	// Reason is one UpperCamel word from a fixed list, which a user can search for: see the Reason constants.
	Reason string
	// Field is where in the object, as in "spec.rules[0].http.paths[1].backend.service.port.name"; a key with dots or
	// slashes stands in brackets: `metadata.annotations[nginx.ingress.kubernetes.io/ssl-redirect]`. Empty: the object.
	Field string
	// Message is one sentence with the value and what was expected. It need not repeat object and field.
	Message string

	File string // of the manifest; empty on a cluster
	Line int    // in File, from 1; 0 when not known
}

// String is the line that check prints: place, severity, object, field, message, reason.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		b.WriteString(": ")
	}
	fmt.Fprintf(&b, "%s: ", p.Severity)
	if p.Object != (Ref{}) {
		fmt.Fprintf(&b, "%s: ", p.Object)
	}
	if p.Field != "" {
		fmt.Fprintf(&b, "%s: ", p.Field)
	}
	fmt.Fprintf(&b, "%s (%s)", p.Message, p.Reason)
	return b.String()
}

// The reasons of problems. They are part of what users rely on: searchable, documented, never renamed.
const (
	// Files.
	ReasonFileUnreadable = "FileUnreadable" // not a regular readable file, or too large
	ReasonBadYAML        = "BadYAML"        // does not parse as YAML or JSON
	ReasonBadObject      = "BadObject"      // parses, but does not decode into its kind
	ReasonUnknownField   = "UnknownField"
	ReasonDuplicateField = "DuplicateField"
	ReasonUnknownVersion = "UnknownVersion" // a kind of ours in an apiVersion that is not
	ReasonDuplicate      = "DuplicateObject"

	// Objects.
	ReasonInvalid               = "InvalidValue" // a field's value is not what the API server would take
	ReasonUnknownClass          = "UnknownIngressClass"
	ReasonMissingBackend        = "MissingBackend"
	ReasonServiceNotFound       = "ServiceNotFound"
	ReasonPortNotFound          = "PortNotFound"
	ReasonUnsupportedBackend    = "UnsupportedBackend"
	ReasonNoEndpoints           = "NoEndpoints"
	ReasonNameNotResolved       = "NameNotResolved" // of a Service of type ExternalName
	ReasonAddressRefused        = "AddressRefused"  // that such a name leads to
	ReasonUnknownProtocol       = "UnknownProtocol" // appProtocol is none that is spoken
	ReasonSecretNotFound        = "SecretNotFound"
	ReasonConfigMapNotFound     = "ConfigMapNotFound"
	ReasonBadCertificate        = "BadCertificate"
	ReasonBrokenChain           = "BrokenChain" // of a certificate: an issuer is missing, or expired
	ReasonUnfitCertificate      = "UnfitCertificate"
	ReasonCertificateExpires    = "CertificateExpires"
	ReasonHostNotCovered        = "HostNotCovered"        // by the certificate
	ReasonNotOrdered            = "CertificateNotOrdered" // of an authority, although somebody asks for it
	ReasonNotIssued             = "CertificateNotIssued"  // by an authority that was asked for it
	ReasonConflict              = "PathConflict"          // an older Ingress has the same host, path and type
	ReasonSharedHost            = "SharedHost"            // Ingresses of several namespaces serve one host
	ReasonSharedService         = "SharedService"         // an older Ingress asks for something else of one Service port
	ReasonClientAuth            = "ClientAuthConflict"    // Ingresses of one host disagree about client certificates
	ReasonBadAnnotation         = "BadAnnotation"
	ReasonUnknownAnnotation     = "UnknownAnnotation"
	ReasonUnsupportedAnnotation = "UnsupportedAnnotation" // ingress-nginx has it, we do not
	ReasonUnknownKey            = "UnknownKey"            // of the controller's ConfigMap
	ReasonIgnoredAnnotation     = "IgnoredAnnotation"     // has no effect on a canary
	ReasonCanaryUnused          = "CanaryUnused"          // there is no route that the canary could follow
	ReasonAliasTaken            = "AliasTaken"            // another Ingress has the host, or asked for it before
	ReasonPathAsText            = "PathAsText"            // the host's paths are regular expressions, and this is none
	ReasonPassedThrough         = "PassedThrough"         // what TLS connections meet that are passed on, or do not meet
	ReasonCatchAllDisabled      = "CatchAllDisabled"
	ReasonInternal              = "InternalFault" // a fault of ours, met while this object was looked at
)
