package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// inProcess passes the requests of a client to the handler as those of the program itself. A
// request from outside cannot have the key in its context.
type inProcess struct{ server *Server }

// RoundTrip implements http.RoundTripper. The body of the answer is a stream, for watches.
func (t inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	r := req.Clone(context.WithValue(req.Context(), internalKey{}, true))
	r.RequestURI = r.URL.RequestURI()
	r.RemoteAddr = "127.0.0.1:0"
	r.Host = r.URL.Host
	if r.Body == nil {
		r.Body = http.NoBody
	}
	reader, writer := io.Pipe()
	answer := &pipedAnswer{header: http.Header{}, body: writer, begun: make(chan struct{})}
	go answer.serve(t.server.handler, r)
	select {
	case <-answer.begun:
	case <-req.Context().Done():
		reader.CloseWithError(req.Context().Err())
		return nil, req.Context().Err()
	}
	return &http.Response{
		Status: http.StatusText(answer.status), StatusCode: answer.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: answer.sent, Body: reader, ContentLength: -1, Request: req,
	}, nil
}

// pipedAnswer is the answer to one request.
type pipedAnswer struct {
	header http.Header
	body   *io.PipeWriter
	once   sync.Once
	begun  chan struct{} // closed when status and sent are set
	status int
	sent   http.Header
}

func (a *pipedAnswer) serve(h http.Handler, r *http.Request) {
	defer func() {
		if p := recover(); p != nil {
			a.WriteHeader(http.StatusInternalServerError)
			a.body.CloseWithError(fmt.Errorf("the handler failed: %v", p))
			return
		}
		a.WriteHeader(http.StatusOK)
		a.body.Close()
	}()
	h.ServeHTTP(a, r)
}

func (a *pipedAnswer) Header() http.Header { return a.header }

func (a *pipedAnswer) WriteHeader(status int) {
	a.once.Do(func() {
		a.status, a.sent = status, a.header.Clone()
		close(a.begun)
	})
}

func (a *pipedAnswer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// Flush sends the header; the body is never held back.
func (a *pipedAnswer) Flush() { a.WriteHeader(http.StatusOK) }

// CloseNotify is required by filters of the library, which watch the context as well.
func (a *pipedAnswer) CloseNotify() <-chan bool { return make(chan bool) }
