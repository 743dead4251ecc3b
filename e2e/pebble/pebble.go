// Package pebble names Pebble, an ACME certificate authority that is made for tests, at the version that they use. It is a
// module of its own so that what Pebble needs stays out of the product's own. See e2e/acme, which runs it.
package pebble
