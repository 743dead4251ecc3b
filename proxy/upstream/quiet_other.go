//go:build !unix

package upstream

// quiet reports whether an idle connection is still good. Where one cannot look without waiting, no connection is used
// twice: a stray answer would reach the wrong client.
func (c *conn) quiet() bool { return false }

func (c *conn) readNow(p []byte) (int, error) { return 0, errDeadline }

// asking is for systems where one can look without waiting.
type asking struct{}

func (c *conn) ask([]byte) ([]byte, error) { return nil, errStale }
