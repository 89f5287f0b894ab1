// Package image reconciles ISCSICdroms: it finds, receives or downloads the file of each,
// has it served, and is the one writer of its status.
//
// A file is never changed. What comes from outside grows beside it and takes its
// place in one step, once it is whole and has been found to be an ISO image;
// whoever reads the old one goes on reading it.
package image
