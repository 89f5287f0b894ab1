// Package listener bounds what a client of HTTP can do with a connection before
// and around its requests: how many connections one source opens, how long a
// body or an answer takes, and what a head may say of the body's length. It also
// tells which user a connection on this machine is of.
package listener
