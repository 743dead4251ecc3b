package feature

import (
	"maps"
	"slices"
	"strings"
)

// wordBlocklist refuses Ingresses whose annotations say what the operator does not want said (reference C1).
func wordBlocklist(a *Annotations, d *Draft) {
	a.Section("Words that annotations may not hold", ReachProcess, "An Ingress with one of the words in the value of an annotation under our prefixes is not open: its routes answer 503.")
	words := a.Config().List("annotation-value-word-blocklist", "words", "the words that no value of an annotation may hold, anywhere in it", nil)
	for _, name := range slices.Sorted(maps.Keys(a.written)) {
		w := a.written[name]
		for _, word := range words {
			if strings.Contains(w.value, word) {
				a.problems = append(a.problems, Problem{Annotation: w.key, Value: w.value, Reason: BadValue, Denies: true,
					Message: shown(w.value) + ": the ConfigMap of the controller forbids " + shown(word) + " in annotations (annotation-value-word-blocklist); the routes of the Ingress answer 503"})
				break
			}
		}
	}
}
