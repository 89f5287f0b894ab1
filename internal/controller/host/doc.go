// Package host has the controllers of what the server says of hosts.
package host
