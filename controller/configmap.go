package controller

import (
	"fmt"
	"maps"

	"sallyport/proxy/feature"
)

// updateConfig reads the ConfigMap of the controller again where it, or what it names, may be another. Every Ingress
// depends on it. It may hold what keeps clients out: one that goes away is remembered, and while one that was asked for was
// never there, no route is open.
func (b *Builder) updateConfig(s *Snapshot, w *work) {
	key := b.options.ConfigMap
	if key == (Key{}) || !w.configMaps {
		return
	}
	object := s.ConfigMap(key)
	if object == nil {
		b.missConfig(s, w, key)
		return
	}
	config, problems := feature.NewConfig(object.Data, feature.Input{
		Namespace: key.Namespace, Name: key.Name, Settings: b.options.Settings,
		Objects: lookup{&translation{translated: new(translated), builder: b, snapshot: s}},
	})
	b.configProblems = nil
	for _, p := range problems {
		b.configProblems = append(b.configProblems, configProblem(key, p))
	}
	if b.configSeen && maps.Equal(b.configData, object.Data) {
		return
	}
	b.configSeen, b.configData = true, object.Data
	b.useConfig(s, w, config)
}

// missConfig is for a ConfigMap that does not exist.
func (b *Builder) missConfig(s *Snapshot, w *work, key Key) {
	p := Problem{Object: Ref{"ConfigMap", key.Namespace, key.Name}, Severity: Error, Reason: ReasonConfigMapNotFound,
		Message: "the ConfigMap of the controller (--configmap) was deleted; what it said last counts on, and nothing of it after a restart: create it again, without data if there is nothing to say"}
	if !b.configSeen {
		p.Message = "the ConfigMap of the controller (--configmap) does not exist; it may be meant to keep clients out, so every route is answered 503: create it, without data if there is nothing to say"
		if b.config == nil {
			b.useConfig(s, w, feature.MissingConfig())
		}
	}
	b.configProblems = []Problem{p}
}

// useConfig has every Ingress be translated with another Config.
func (b *Builder) useConfig(s *Snapshot, w *work, config *feature.Config) {
	b.config = config
	addKeys(w.ingresses, s.ingresses.objects)
	addKeys(w.ingresses, b.ingresses)
}

// configProblem is what a feature found in the ConfigMap. A key that nobody knows harms nothing, unless it may have been
// meant to keep clients out.
func configProblem(key Key, p feature.Problem) Problem {
	severity, reason := severityOf(p)
	if reason == ReasonUnknownAnnotation || reason == ReasonUnsupportedAnnotation {
		reason = ReasonUnknownKey
		if !p.Denies {
			severity = Warning
		}
	}
	if reason == ReasonBadAnnotation {
		reason = ReasonInvalid
	}
	return Problem{Object: Ref{"ConfigMap", key.Namespace, key.Name}, Severity: severity, Reason: reason,
		Field: fmt.Sprintf("data[%s]", p.Annotation), Message: p.Message}
}
