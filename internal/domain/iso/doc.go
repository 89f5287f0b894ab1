// Package iso reads bootable ISO images and sets kernel arguments in them
// without writing to them: the outcome is an Overlay, a few replaced ranges and
// a tail over the untouched image.
//
// An image is read from an io.ReaderAt that may hold anything: every offset,
// length, depth and loop in it is bounded, and what cannot be patched whole is
// refused with the name of the file. The package knows no clock, no network and
// no disk.
package iso
