package iscsi

import (
	"io"

	"golang.org/x/sys/unix"
)

// platformZeroCopy: this platform sends from the page cache.
const platformZeroCopy = true

// transfer is one PDU on its way: bytes, and behind them a stretch of a file.
// File positions are shared by all who read the file, so the offset is given
// with every call.
type transfer struct {
	step func(fd uintptr) bool // made once, as a closure costs an allocation
	head []byte
	more bool // something follows: the kernel holds back what is no full segment
	file int
	off  int64
	left int
	err  error
}

// send sends bytes, then n bytes of an open file at off. The kernel copies the
// file's pages itself. With more, something follows at once.
func (s *sender) send(head []byte, file int, off int64, n int, more bool) error {
	if s.step == nil {
		s.step = s.advance
	}
	s.head, s.file, s.off, s.left, s.more, s.err = head, file, off, n, more, nil
	if err := s.raw.Write(s.step); err != nil {
		return err
	}
	return s.err
}

// advance sends what the socket takes; false: wait until it takes more.
func (s *sender) advance(fd uintptr) bool {
	for len(s.head) > 0 {
		flags := unix.MSG_NOSIGNAL
		if s.left > 0 || s.more {
			flags |= unix.MSG_MORE
		}
		n, err := unix.SendmsgN(int(fd), s.head, nil, nil, flags)
		if again, done := s.failed(err); done {
			return !again
		} else if err == nil {
			s.head = s.head[n:]
		}
	}
	for s.left > 0 {
		n, err := unix.Sendfile(int(fd), s.file, &s.off, s.left)
		if again, done := s.failed(err); done {
			return !again
		} else if err == nil {
			if n == 0 {
				s.err = io.ErrUnexpectedEOF // the file has become shorter
				return true
			}
			s.left -= n
		}
	}
	return true
}

// failed sorts a result: again is to wait for the socket, done to stop here.
func (s *sender) failed(err error) (again, done bool) {
	switch err {
	case nil, unix.EINTR:
		return false, false
	case unix.EAGAIN:
		return true, true
	}
	s.err = err
	return false, true
}
