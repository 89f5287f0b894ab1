// Package iscsi is a read-only iSCSI target (RFC 7143): many CD-ROM drives on
// one portal, over disks that the caller supplies. Every session has a drive of
// its own: one machine's eject or lock never shows to another.
//
// DESIGN.md has the states of a connection and which goroutine owns what.
package iscsi
