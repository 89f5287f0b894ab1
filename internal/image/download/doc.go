// Package download brings files here over a network that fails: what has come is
// kept and gone on from, also after a restart, from whichever mirror answers; and
// a file gets its name only when it is whole and its digest, and its signature
// where that is asked for, are right.
package download
