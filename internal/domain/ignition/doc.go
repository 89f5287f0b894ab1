// Package ignition validates Ignition configs of spec 2.0.0 to 3.6.0 with positions,
// converts and merges them, and parses Accept headers of clients. It is pure and bounded:
// no input makes it work for long.
package ignition
