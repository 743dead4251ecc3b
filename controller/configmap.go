package controller

import (
	"fmt"
	"maps"

	"sallyport/proxy/feature"
)

// updateConfig reads the ConfigMap of the controller again where it, or what it names, may be another. Every Ingress
// depends on it.
func (b *Builder) updateConfig(s *Snapshot, w *work) {
	key := b.options.ConfigMap
	if key == (Key{}) || !w.configMaps {
		return
	}
	var data map[string]string
	object := s.ConfigMap(key)
	if object != nil {
		data = object.Data
	}
	config, problems := feature.NewConfig(data, feature.Input{
		Namespace: key.Namespace, Name: key.Name, Settings: b.options.Settings,
		Objects: lookup{&translation{translated: new(translated), builder: b, snapshot: s}},
	})
	b.configProblems = nil
	if object == nil {
		b.configProblems = []Problem{{Object: Ref{"ConfigMap", key.Namespace, key.Name}, Severity: Warning, Reason: ReasonConfigMapNotFound,
			Message: "the ConfigMap of the controller (--configmap) does not exist; defaults are used"}}
	}
	for _, p := range problems {
		b.configProblems = append(b.configProblems, configProblem(key, p))
	}
	if b.config != nil && maps.Equal(b.configData, data) {
		return
	}
	b.config, b.configData = config, data
	addKeys(w.ingresses, s.ingresses.objects)
	addKeys(w.ingresses, b.ingresses)
}

// configProblem is what a feature found in the ConfigMap. A key that nobody knows harms nothing.
func configProblem(key Key, p feature.Problem) Problem {
	severity, reason := severityOf(p)
	if reason == ReasonUnknownAnnotation || reason == ReasonUnsupportedAnnotation {
		severity, reason = Warning, ReasonUnknownKey
	}
	if reason == ReasonBadAnnotation {
		reason = ReasonInvalid
	}
	return Problem{Object: Ref{"ConfigMap", key.Namespace, key.Name}, Severity: severity, Reason: reason,
		Field: fmt.Sprintf("data[%s]", p.Annotation), Message: p.Message}
}
