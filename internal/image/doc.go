// Package image keeps the ISO files that machines boot from: it finds, receives
// or downloads the file of every ISCSICdrom, checks it, says in the object's
// status what became of it, and gives out disks with kernel arguments set.
//
// A file is never changed. What comes from outside grows beside it and takes its
// place in one step, once it is whole and has been found to be an ISO image;
// whoever reads the old one goes on reading it.
package image
