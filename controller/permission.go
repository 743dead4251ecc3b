package controller

// A Permission is something that a cluster must allow.
type Permission struct {
	Group    string // "" is the core group
	Resource string
	Verbs    []string
	Why      string
}
