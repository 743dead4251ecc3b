package main

import (
	"context"
	"io"
	"os"
	"testing"

	"sallyport/e2e"
)

// TestConversationsInside holds every conversation of e2e/testdata with the command in this process, where the race
// detector and a debugger see it. In e2e the same are held with the built binary.
func TestConversationsInside(t *testing.T) {
	for conversation := range e2e.Conversations(t, "../../e2e/testdata") {
		t.Run(conversation.Name, func(t *testing.T) { conversation.RunInside(t, inside) })
	}
}

// TestCorpusOfStreamsInside holds the front's corpus of HTTP/2 likewise.
func TestCorpusOfStreamsInside(t *testing.T) {
	e2e.HoldStreams(t, "../../proxy/testdata/http2.tsv", func(t testing.TB, folder string, args ...string) *e2e.Process {
		return e2e.StartInside(t, inside, folder, args...)
	})
}

func inside(ctx context.Context, out io.Writer, args []string) error {
	root := newRoot(world{out, out, os.LookupEnv, nil})
	root.SetArgs(append(args, "--drain-delay=0s", "--shutdown-grace-period=1s"))
	return root.ExecuteContext(ctx)
}
