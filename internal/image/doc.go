// Package image keeps the images that are served now: it opens the files of ISCSICdroms,
// and gives machines disks with kernel arguments set. A volume stays open, and its bytes
// the same, for as long as somebody reads it.
package image
