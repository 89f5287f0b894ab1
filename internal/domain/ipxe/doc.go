// Package ipxe renders the scripts that iPXE runs: the one that collects the facts of a
// machine, those that boot an image or the disk, the menu for an unknown machine, and
// operators' scripts. It is pure. iPXE has no quoting: a line has only words, operators
// and variables. So every value in a script passes through word, text or secret, which
// refuse or replace characters that could end a word or a line.
package ipxe
