package testkit

import (
	"io"
	"net"
	"os"
	"sync/atomic"
)

// KernelListener counts the bytes that its TCP connections are given as parts of files, which the kernel sends.
type KernelListener struct {
	net.Listener
	Sent atomic.Int64
}

// Accept waits for a connection.
func (l *KernelListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return kernelConn{conn.(*net.TCPConn), l}, nil
}

type kernelConn struct {
	*net.TCPConn
	l *KernelListener
}

// ReadFrom sends what r has.
func (c kernelConn) ReadFrom(r io.Reader) (int64, error) {
	n, err := c.TCPConn.ReadFrom(r)
	if part, ok := r.(*io.LimitedReader); ok {
		if _, ok := part.R.(*os.File); ok {
			c.l.Sent.Add(n)
		}
	}
	return n, err
}
