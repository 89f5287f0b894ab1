// Package iscsi is a read-only iSCSI target (RFC 7143): many CD-ROM drives on
// one portal, over disks that the caller supplies. Every session has a drive of
// its own: one machine's eject or lock never shows to another.
//
// DESIGN.md has the states of a connection and which goroutine owns what.
package iscsi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"glowplug/internal/limit"
)

// Defaults of Options.
const (
	DefaultMaxConnections = 4096
	DefaultMaxPerSource   = 256
	DefaultLoginTimeout   = 15 * time.Second
	DefaultPingAfter      = 5 * time.Minute
	DefaultIdleTimeout    = 30 * time.Minute
	DefaultSendTimeout    = 2 * time.Minute
)

// complaintsPerSecond bounds the log lines of refused and broken connections.
const complaintsPerSecond = 10

// Options are the options of a server. Zero values are defaults.
type Options struct {
	// Resolve returns the target of a login; it must not be nil. Errors that wrap
	// ErrNotFound or ErrForbidden are final for the initiator, others are not.
	Resolve func(Login) (*Target, error)
	// Discover returns the names of the targets for an initiator; nil: none.
	Discover func(Login) []string
	Hooks    Hooks
	// Portal is the address in answers to discovery, host:port, an IPv6 host in
	// brackets; empty: the server's address in that connection.
	Portal string
	// Logger gets a line for each session's begin and end and each refusal; nil: slog's default.
	Logger *slog.Logger

	// MaxConnections bounds all connections, MaxPerSource those of one address
	// (IPv6: of one /64; of one link-local address on one interface). Others are
	// closed at once.
	MaxConnections, MaxPerSource int
	// LoginTimeout is the maximum duration of a login.
	LoginTimeout time.Duration
	// PingAfter is the silence of an initiator before the server pings it, and
	// IdleTimeout before its connection is closed. Boot loaders answer no pings and
	// are silent while they show a menu: be generous.
	PingAfter, IdleTimeout time.Duration
	// SendTimeout is the maximum time in which an initiator accepts no data.
	SendTimeout time.Duration
}

func (o *Options) setDefaults() error {
	if o.Resolve == nil {
		return errors.New("iscsi: Options.Resolve is nil")
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.MaxConnections = cmp.Or(o.MaxConnections, DefaultMaxConnections)
	o.MaxPerSource = cmp.Or(o.MaxPerSource, DefaultMaxPerSource)
	o.LoginTimeout = cmp.Or(o.LoginTimeout, DefaultLoginTimeout)
	o.PingAfter = cmp.Or(o.PingAfter, DefaultPingAfter)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, DefaultIdleTimeout)
	o.SendTimeout = cmp.Or(o.SendTimeout, DefaultSendTimeout)
	if least := min(o.LoginTimeout, o.PingAfter, o.IdleTimeout, o.SendTimeout); least < 0 {
		return fmt.Errorf("iscsi: a timeout of %v", least)
	}
	return nil
}

// Server serves targets on any number of listeners. It is safe for concurrent use.
type Server struct {
	options  Options
	log      *slog.Logger
	sessions sessions
	guesses  guesses
	lastID   atomic.Uint64
	// complaints bounds the log lines that any machine on the network can cause.
	complaints  *rate.Limiter
	connections sync.WaitGroup // with the calls of Serve and watch

	mu        sync.Mutex
	closed    bool
	stop      chan struct{} // closed with the server
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	sources   limit.Counts[netip.Addr]
}

// New returns a server, which listens on nothing before Serve. Shutdown or Close end it.
func New(options Options) (*Server, error) {
	if err := options.setDefaults(); err != nil {
		return nil, err
	}
	s := &Server{
		options: options, log: options.Logger, sessions: newSessions(), stop: make(chan struct{}),
		guesses:    newGuesses(options.MaxConnections),
		complaints: rate.NewLimiter(complaintsPerSecond, complaintsPerSecond),
		listeners:  map[net.Listener]struct{}{}, conns: map[*conn]struct{}{}, sources: limit.Counts[netip.Addr]{},
	}
	s.connections.Go(s.watch)
	return s, nil
}

// ErrServerClosed is returned by Serve after Shutdown or Close.
var ErrServerClosed = errors.New("iscsi: server closed")

// Serve accepts connections until the server is closed or the listener fails,
// and closes the listener.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrServerClosed
	}
	s.listeners[l] = struct{}{}
	s.connections.Add(1)
	s.mu.Unlock()
	defer s.connections.Done()
	for {
		conn, err := l.Accept()
		if err == nil {
			s.admit(conn)
			continue
		}
		select {
		case <-s.stop:
			return ErrServerClosed
		default:
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		// Out of file descriptors, or the like: it passes.
		s.log.Warn("iscsi: accepting a connection failed", "error", err)
		select {
		case <-s.stop:
			return ErrServerClosed
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// admit starts a connection, if there is room for it.
func (s *Server) admit(nc net.Conn) {
	c := &conn{
		server: s, net: nc, out: newSender(nc), params: defaultParams(),
		done: make(chan struct{}), gone: make(chan struct{}),
		remote: addrPort(nc.RemoteAddr()), local: addrPort(nc.LocalAddr()),
		buf: make([]byte, readBuffer), loginBy: time.Now().Add(s.options.LoginTimeout),
	}
	c.active.Store(time.Now().UnixNano())
	if tcp, ok := nc.(*net.TCPConn); ok {
		// A boot loader at its menu answers no keepalive; watch pings instead.
		tcp.SetKeepAlive(false)
	}
	if err := s.enlist(c); err != nil {
		nc.Close()
		if s.complaints.Allow() {
			s.log.Warn("iscsi: connection refused", "remote", c.remote, "error", err)
		}
		return
	}
	go func() {
		defer s.connections.Done()
		defer close(c.gone)
		defer s.delist(c)
		s.run(c)
	}()
}

// run serves a connection and logs its end.
func (s *Server) run(c *conn) {
	cause := c.serve()
	if errors.Is(cause, errLogout) {
		cause = nil
	}
	if c.tsih != 0 {
		s.sessions.remove(c)
	}
	switch {
	case c.announced:
		s.log.Info("iscsi: session ended", "id", c.session.ID, "initiator", c.initiator, "remote", c.remote,
			"target", c.session.Target, "bytes", c.session.BytesRead(), "error", cause)
		if s.options.Hooks.Logout != nil {
			s.options.Hooks.Logout(c.session, cause)
		}
	case errors.Is(cause, errChapRefused): // logged by prove
	case cause != nil && s.complaints.Allow():
		s.log.Warn("iscsi: connection ended", "initiator", c.initiator, "remote", c.remote, "error", cause)
	}
	s.refused(c, cause)
	if c.target != nil && c.target.Release != nil {
		c.target.Release()
	}
}

// refused passes on that a login to a target was refused.
func (s *Server) refused(c *conn, cause error) {
	var no *refusal
	if c.announced || c.target == nil || s.options.Hooks.Refused == nil || !errors.As(cause, &no) {
		return
	}
	cause = no.cause
	if no.status == statusAuth {
		cause = fmt.Errorf("%w: %w", ErrUnauthenticated, cause)
	}
	s.options.Hooks.Refused(c.loginTo(c.target.IQN), c.target.Tag, cause)
}

// announce logs the beginning of a session.
func (s *Server) announce(c *conn) {
	c.announced = true
	s.log.Info("iscsi: session began", "id", c.session.ID, "initiator", c.initiator, "remote", c.remote,
		"target", c.session.Target)
	if s.options.Hooks.Login != nil {
		s.options.Hooks.Login(c.session)
	}
}

// Drop ends the sessions that match and returns their number. It does not wait until
// they have released their targets. Initiators may log in again.
func (s *Server) Drop(match func(*Session) bool) (n int) {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	for _, c := range s.sessions.tsih {
		if session := c.public.Load(); session != nil && match(session) {
			c.end(ErrDropped)
			n++
		}
	}
	return n
}

// Shutdown closes the listeners, lets each connection finish its answer, tells
// initiators to come back later, and waits for the end of all connections. When the
// context ends it closes what is left.
func (s *Server) Shutdown(ctx context.Context) error {
	s.closeEach(func(c *conn) { c.nudge(nudgeStop) })
	stop := context.AfterFunc(ctx, s.Close)
	s.connections.Wait()
	if !stop() {
		return ctx.Err()
	}
	return nil
}

// Close closes everything at once.
func (s *Server) Close() {
	s.closeEach(func(c *conn) { c.end(ErrShutdown) })
	s.connections.Wait()
}

// closeEach closes the listeners, and calls end for each connection.
func (s *Server) closeEach(end func(*conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.stop)
	}
	for l := range s.listeners {
		l.Close()
	}
	for c := range s.conns {
		end(c)
	}
}
