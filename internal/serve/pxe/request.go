package pxe

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"

	"glowplug/internal/serve/tftp"
)

// request sends a request of a client of TFTP to the handler of machines, as if it had come over HTTP. The answer is
// read as it is written; no more of it is in memory than a client may ask for again.
func (s *Server) request(ctx context.Context, path string, client netip.Addr) (tftp.File, int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	local := &net.TCPAddr{IP: s.opts.Address.AsSlice(), Port: int(s.opts.Port)}
	ctx = context.WithValue(ctx, http.LocalAddrContextKey, net.Addr(local))
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.opts.URL+path, nil)
	if err != nil {
		cancel()
		return nil, 0, err
	}
	r.RemoteAddr = netip.AddrPortFrom(client, portTFTP).String()
	reader, writer := io.Pipe()
	a := &responseWriter{header: http.Header{}, pipe: writer, begun: make(chan struct{})}
	stream := &stream{reader: reader, cancel: cancel}
	stream.running.Go(func() {
		s.opts.Boots(a, r)
		a.WriteHeader(http.StatusOK)
		_ = writer.Close()
	})
	<-a.begun
	size, err := strconv.ParseInt(a.header.Get("Content-Length"), 10, 64)
	if a.status != http.StatusOK || err != nil {
		_ = stream.Close()
		return nil, 0, fmt.Errorf("the answer to %s is %d", r.URL.Path, a.status)
	}
	return stream, size, nil
}

// responseWriter takes the answer of a handler.
type responseWriter struct {
	header http.Header
	pipe   *io.PipeWriter
	once   sync.Once
	// begun is closed once there is a status.
	begun  chan struct{}
	status int
}

// Header implements http.ResponseWriter.
func (a *responseWriter) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *responseWriter) WriteHeader(status int) {
	a.once.Do(func() {
		a.status = status
		close(a.begun)
	})
}

// Write implements http.ResponseWriter.
func (a *responseWriter) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.pipe.Write(p)
}

// stream is an answer as a file that is read from its beginning to its end, a little of it again.
type stream struct {
	reader  *io.PipeReader
	cancel  context.CancelFunc
	running sync.WaitGroup
	// kept is the newest part that was read; it ends at end.
	kept []byte
	end  int64
}

// ReadAt reads what begins at most tftp.Behind before the largest position that was read.
func (s *stream) ReadAt(p []byte, off int64) (int, error) {
	for s.end < off+int64(len(p)) {
		part := make([]byte, off+int64(len(p))-s.end)
		n, err := io.ReadFull(s.reader, part)
		s.kept, s.end = append(s.kept, part[:n]...), s.end+int64(n)
		if err != nil {
			return 0, err
		}
	}
	if extra := len(s.kept) - 2*tftp.Behind; extra > 0 {
		s.kept = append(s.kept[:0], s.kept[extra:]...)
	}
	from := off - (s.end - int64(len(s.kept)))
	if from < 0 {
		return 0, io.ErrUnexpectedEOF
	}
	return copy(p, s.kept[from:]), nil
}

// Close ends the handler.
func (s *stream) Close() error {
	s.cancel()
	err := s.reader.Close()
	s.running.Wait()
	return err
}
