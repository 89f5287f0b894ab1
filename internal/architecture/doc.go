// Package architecture holds no code: its test parses the sources and checks
// how the house is built. Which package may import which, and why, stands there.
package architecture
