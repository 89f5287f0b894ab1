// Package host writes the status of BareMetalHosts: the progress of their boots from the
// boot log, and the conditions IdentityUnique and ConfigReadable.
package host
