// Package listener bounds what a client of HTTP can do with a connection before
// and around its requests: how many connections one source opens, how long a
// body or an answer takes, and how a head may give the body's length. It also
// finds the user of a connection on this machine.
package listener
