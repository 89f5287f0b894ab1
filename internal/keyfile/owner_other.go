//go:build !unix

package keyfile

import "io/fs"

// ownership says nothing where files have no owner and mode.
func ownership(fs.FileInfo) (uid, group int, ok bool) { return 0, 0, false }

// hasOtherNames is not asked where files have no owner.
func hasOtherNames(fs.FileInfo) bool { return false }
