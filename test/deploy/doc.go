// Package deploy has the tests of the files in deploy/ that need no server.
package deploy
