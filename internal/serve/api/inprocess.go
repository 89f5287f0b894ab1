package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	restclient "k8s.io/client-go/rest"
)

// inProcess passes the requests of a client to the handler as those of the program itself. A
// request from outside cannot have the key in its context.
type inProcess struct{ server *Server }

// RoundTrip implements http.RoundTripper. The body of the answer is a stream, for watches.
func (t inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	r := req.Clone(context.WithValue(req.Context(), internalKey{}, true))
	r.RemoteAddr = "127.0.0.1:0"
	return answerOf(t.server.handler, r)
}

// actingKey is the key of the user for whom the program itself asks the API.
type actingKey struct{}

// actor is a user for whom the program asks, and the request that he has sent to it.
type actor struct {
	who  user.Info
	sent *http.Request
}

// As returns the context of requests to the API for a user who has sent r and is authenticated. The requests go
// through the client of ActingConfig.
func As(r *http.Request, who user.Info) context.Context {
	return context.WithValue(r.Context(), actingKey{}, &actor{who, r})
}

// actorOf returns the user for whom the program asks; nil: it is a request from outside, or of the program itself.
func actorOf(ctx context.Context) *actor {
	a, _ := ctx.Value(actingKey{}).(*actor)
	return a
}

// acting passes the requests of a client to the handler as those of the users in their contexts (As): what holds for
// a request of a user holds for these as well, such as roles, redaction, audit and limits.
type acting struct{ server *Server }

// RoundTrip implements http.RoundTripper.
func (t acting) RoundTrip(req *http.Request) (*http.Response, error) {
	a := actorOf(req.Context())
	if a == nil {
		return nil, errors.New("a request for a user has no user")
	}
	r := req.Clone(req.Context())
	r.RemoteAddr, r.TLS = a.sent.RemoteAddr, a.sent.TLS
	if proxied := a.sent.Header["X-Forwarded-For"]; proxied != nil { // which the audit believes of a trusted proxy
		r.Header["X-Forwarded-For"] = proxied
	}
	return answerOf(t.server.handler, r)
}

// ActingConfig returns the config of clients inside the program that ask for its users, each with the context that As
// returns.
func (s *Server) ActingConfig() *restclient.Config {
	return &restclient.Config{
		Host: "http://glowplug.invalid", Transport: acting{s}, QPS: -1, UserAgent: "glowplug-console",
	}
}

// answerOf has a handler answer a request.
func answerOf(h http.Handler, r *http.Request) (*http.Response, error) {
	r.RequestURI = r.URL.RequestURI()
	r.Host = r.URL.Host
	if r.Body == nil {
		r.Body = http.NoBody
	}
	reader, writer := io.Pipe()
	answer := &pipedAnswer{header: http.Header{}, body: writer, begun: make(chan struct{}), asked: r.Body}
	go answer.serve(h, r)
	select {
	case <-answer.begun:
	case <-r.Context().Done():
		reader.CloseWithError(r.Context().Err())
		return nil, r.Context().Err()
	}
	return &http.Response{
		Status: http.StatusText(answer.status), StatusCode: answer.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: answer.sent, Body: reader, ContentLength: -1, Request: r,
	}, nil
}

// pipedAnswer is the answer to one request.
type pipedAnswer struct {
	header http.Header
	body   *io.PipeWriter
	asked  io.Reader // the body of the request
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

// SetReadDeadline bounds the wait for the body of the request, where that is one with deadlines: an upload.
func (a *pipedAnswer) SetReadDeadline(t time.Time) error {
	if body, ok := a.asked.(interface{ SetReadDeadline(time.Time) error }); ok {
		return body.SetReadDeadline(t)
	}
	return http.ErrNotSupported
}

// CloseNotify is required by filters of the library, which watch the context as well.
func (a *pipedAnswer) CloseNotify() <-chan bool { return make(chan bool) }
