package e2e_test

import (
	"os"
	"path/filepath"
	"testing"

	"sallyport/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }

// TestConversations holds every conversation of testdata with the built binary.
func TestConversations(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no conversations in testdata: %v", err)
	}
	for _, script := range scripts {
		conversation, err := e2e.ReadConversation(script)
		if err != nil {
			t.Error(err)
			continue
		}
		t.Run(conversation.Name, conversation.Run)
	}
}
