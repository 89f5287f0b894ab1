// Package app wires the program: options in, a running server out. New opens
// what can fail, the listeners among it; Run serves until its context ends and
// takes everything down in reverse.
package app
