// Package architecture holds no code: its test parses the sources and checks
// the layout of the packages: which may import which, and why.
package architecture
