// Package vmcheck stands in for a module that is no longer to be had. It says that
// the machine is none of VMware's, which is all that Ignition's platform metal asks.
package vmcheck

// IsVirtualWorld reports whether the machine is one of VMware's.
func IsVirtualWorld() bool { return false }
