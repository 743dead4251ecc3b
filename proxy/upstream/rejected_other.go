//go:build !linux

package upstream

// rejected reports whether nothing of the request that was written last reached the endpoint. Only Linux says.
func (c *conn) rejected(error) bool { return false }
