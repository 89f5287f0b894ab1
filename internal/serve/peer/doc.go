// Package peer finds out who sent a request: the client behind trusted proxies, its
// hardware address from the kernel's neighbour table, and the user of a local client.
package peer
