// Package egress guards what the server fetches for others: whoever may write an object
// that holds a URL must not reach what the server can reach. A policy, which the
// operator sets, is held against each address that is connected to, after the name was
// resolved and for every hop of a redirect.
package egress
