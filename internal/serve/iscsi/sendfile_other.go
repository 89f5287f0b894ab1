//go:build !linux

package iscsi

import "errors"

// platformZeroCopy: on this platform all data goes through buffers.
const platformZeroCopy = false

type transfer struct{}

func (s *sender) send([]byte, int, int64, int, bool) error { return errors.ErrUnsupported }
