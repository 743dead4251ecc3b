package e2e_test

import (
	"os"
	"testing"

	"sallyport/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }

// TestConversations holds every conversation of testdata with the built binary.
func TestConversations(t *testing.T) {
	for conversation := range e2e.Conversations(t, "testdata") {
		t.Run(conversation.Name, conversation.Run)
	}
}
