package upstream

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestGapRunsOnlyWhileSomethingIsOwed(t *testing.T) {
	const never = time.Duration(-1)
	for name, c := range map[string]struct {
		limit time.Duration
		do    func(g *gap)
		late  time.Duration // from the start
	}{
		"wanted":                  {time.Minute, func(g *gap) { g.want(true) }, time.Minute},
		"came":                    {time.Minute, func(g *gap) { g.want(true); time.Sleep(59 * time.Second); g.want(false) }, never},
		"came and wanted again":   {time.Minute, func(g *gap) { g.want(true); time.Sleep(59 * time.Second); g.want(false); g.want(true) }, 119 * time.Second},
		"wanted again much later": {time.Minute, func(g *gap) { g.want(true); g.want(false); time.Sleep(170 * time.Second); g.want(true) }, 230 * time.Second},
		"held":                    {time.Minute, func(g *gap) { g.hold(true); g.want(true) }, never},
		"held, then owed":         {time.Minute, func(g *gap) { g.hold(true); g.want(true); time.Sleep(90 * time.Second); g.hold(false) }, 150 * time.Second},
		"stopped":                 {time.Minute, func(g *gap) { g.want(true); g.stop() }, never},
		"no limit":                {-1, func(g *gap) { g.want(true) }, never},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun, late := time.Now(), never
			g := gap{limit: c.limit, late: func() { late = time.Since(begun) }}
			c.do(&g)
			time.Sleep(time.Hour)
			g.stop()
			synctest.Wait()
			if late != c.late {
				t.Errorf("%s: late after %v, want %v", name, late, c.late)
			}
		})
	}
}
