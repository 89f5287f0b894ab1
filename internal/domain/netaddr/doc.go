// Package netaddr parses what identifies a machine on a network, in every
// notation that firmware, DHCP servers and people use: hardware addresses, IP
// addresses, prefixes, host names and system UUIDs. It is pure.
package netaddr
