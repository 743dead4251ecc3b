package main

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"sallyport/controller"
)

// A reporter says in the log what each build changed: for traffic in one line, and each problem when it comes and when
// it is solved.
type reporter struct {
	log *slog.Logger

	mu       sync.Mutex
	rows     []routeRow // of the last build; guarded by mu
	problems problemSet // of the last build; used by report alone, nil before the first
	idle     []string   // used by reportIdle alone: said of the last build
}

// routes are the rows of the last build.
func (r *reporter) routes() []routeRow {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rows
}

// report compares a build with the one before. Rows are nil for a cluster, whose changes are too many to be told.
func (r *reporter) report(now state, result controller.Result, problems []controller.Problem, rows []routeRow) {
	before, known := r.routes(), r.problems
	r.mu.Lock()
	r.rows = rows
	r.mu.Unlock()
	if rows == nil && result.OnlyEndpoints {
		r.log.Debug("endpoints changed", "took", result.Took.String())
		return // the problems are the same
	}
	r.problems = newProblemSet(problems)
	switch {
	case known == nil:
		r.log.Info("first table", "routes", result.Table.Len(), "problems", len(problems), "took", result.Took.String())
	case rows != nil:
		r.reportTraffic(now, before, rows)
	default:
		r.log.Debug("built", "generation", result.Generation, "changed", result.TableChanged, "took", result.Took.String())
	}
	r.reportProblems(r.problems.without(known), known.without(r.problems))
}

// reportIdle says what is new about each --map that sends nothing anywhere.
func (r *reporter) reportIdle(idle []string) {
	for _, message := range idle {
		if !slices.Contains(r.idle, message) {
			r.log.Warn(message)
		}
	}
	r.idle = idle
}

// reportTraffic says in one line what objects changed, by file and line, and what that changes for requests.
func (r *reporter) reportTraffic(now state, before, after []routeRow) {
	routes, changes := describeRoutes(before, after), describeChanges(now.changes)
	if len(routes) == 0 && len(changes) == 0 {
		return
	}
	attributes := []slog.Attr{}
	if len(changes) > 0 {
		attributes = append(attributes, slog.String("objects", joinShort(changes)))
	}
	message := "changed, traffic goes where it went"
	if len(routes) > 0 {
		message = "traffic changed"
		attributes = append(attributes, slog.String("routes", joinShort(routes)))
	}
	r.log.LogAttrs(context.Background(), slog.LevelInfo, message, attributes...)
}

// reportProblems says each new problem and each that is gone. Of a flood the first are told and the rest is counted.
func (r *reporter) reportProblems(appeared, solved []controller.Problem) {
	for i, p := range appeared {
		if i == mostShown {
			r.log.Warn("more problems, see: sallyport check", "count", len(appeared)-i)
			break
		}
		level := slog.LevelWarn
		if p.Severity == controller.Error {
			level = slog.LevelError
		}
		r.log.Log(context.Background(), level, "problem", "problem", p.String())
	}
	for i, p := range solved {
		if i == mostShown {
			r.log.Info("more problems are solved", "count", len(solved)-i)
			break
		}
		r.log.Info("solved", "problem", p.String())
	}
}
