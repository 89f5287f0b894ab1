// Package ipxe renders the scripts that iPXE runs: the one that gathers what a
// machine knows of itself, the one that boots an image, the one that boots the
// disk, the menu for a machine that nobody knows, and scripts of an operator's
// own. It is pure. iPXE has no quoting: whatever stands in a line is a word, an
// operator or a variable. So no value gets into a script but through word, text
// or secret, which let nothing through that could end a word or a line.
package ipxe
