// Package spelling answers one question: which of the words that are known did somebody mean?
//
//	spelling.Nearest("serviceNmae", slices.Values(fields)) // "serviceName"
//
// Flags, annotations and fields of manifests are all told this way: an unknown name, and the nearest one that exists. It
// guesses nothing when no word is near: a wrong suggestion is worse than none.
package spelling

import (
	"iter"
	"strings"
)

// longest is the length in bytes of the longest word that is compared; a longer one is like no other.
const longest = 64

// Nearest returns the known word that is the fewest slips away from word, whatever the case; the first of several. It
// returns "" when the nearest is more slips away than a third of the word's letters, one at least.
func Nearest(word string, known iter.Seq[string]) string {
	best, least := "", min(1+max(1, len(word)/3), longest)
	for candidate := range known {
		if d := Slips(word, candidate); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// Slips is how many letters must be put in, left out, replaced or swapped with their neighbour to make a of b (optimal
// string alignment distance), whatever the case; at least 64 when one of them is longer than that. above[j] is that number for the letters of a so far and the first j letters of b.
func Slips(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if len(a) > longest || len(b) > longest {
		return longest
	}
	var before, above, row [longest + 1]int
	for j := range len(b) + 1 {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above = above, row
	}
	return above[len(b)]
}
