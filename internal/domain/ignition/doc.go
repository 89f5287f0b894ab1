// Package ignition knows the Ignition spec family: it validates JSON configs of spec
// 2.0.0 to 3.6.0 with positions, converts a config between any two of these versions
// or says which fields stand in the way, and reads what a client's Accept header says
// that it takes. It is pure, and bounded: no input makes it work for long.
package ignition
