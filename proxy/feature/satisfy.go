package feature

// satisfy says whether one passed check is enough (reference B5 #58).
func satisfy(a *Annotations, d *Draft) {
	a.Section("Any or all of the checks", ReachPaths, "The checks are the lists of addresses, external authentication, and basic or digest authentication. "+
		"With any, what passes one of them passes, and what passes none gets the answer of the last. Rate limits are none of them. "+
		"Unlike in ingress-nginx, where a value that is neither counts as all, it makes the routes answer 503.")
	if a.Word("satisfy", "all", []string{"all", "any"}, "whether a request must pass all checks, or any one of them") == "any" {
		d.SatisfyAny()
	}
}
