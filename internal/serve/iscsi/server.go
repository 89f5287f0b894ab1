package iscsi

import (
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

// Options says what a server serves. Zero values are defaults.
type Options struct {
	// Resolve finds the target of a login; it must not be nil. Errors that wrap
	// ErrNotFound or ErrForbidden are final for the initiator, others are not.
	Resolve func(Login) (*Target, error)
	// Discover names the targets that an initiator is shown; nil: none.
	Discover func(Login) []string
	Hooks    Hooks
	// Portal is the address told in discovery, host:port, an IPv6 host in
	// brackets; empty: the address that the initiator has reached.
	Portal string
	// Logger gets a line for each session's begin and end and each refusal; nil: slog's default.
	Logger *slog.Logger

	// MaxConnections bounds all connections, MaxPerSource those of one address
	// (IPv6: of one /64; of one link-local address on one interface). What comes
	// beyond is closed at once.
	MaxConnections, MaxPerSource int
	// LoginTimeout is how long a login may take.
	LoginTimeout time.Duration
	// PingAfter is how long an initiator may be silent before it is asked for a
	// sign of life, and IdleTimeout before its connection is closed. Boot
	// loaders answer no pings and are silent while they show a menu: be generous.
	PingAfter, IdleTimeout time.Duration
	// SendTimeout is how long an initiator may refuse to take an answer.
	SendTimeout time.Duration
}

func (o *Options) setDefaults() error {
	if o.Resolve == nil {
		return errors.New("iscsi: Options.Resolve is nil")
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	for _, each := range []struct {
		value    *int
		fallback int
	}{{&o.MaxConnections, DefaultMaxConnections}, {&o.MaxPerSource, DefaultMaxPerSource}} {
		if *each.value == 0 {
			*each.value = each.fallback
		}
	}
	for _, each := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&o.LoginTimeout, DefaultLoginTimeout}, {&o.PingAfter, DefaultPingAfter},
		{&o.IdleTimeout, DefaultIdleTimeout}, {&o.SendTimeout, DefaultSendTimeout},
	} {
		if *each.value == 0 {
			*each.value = each.fallback
		}
		if *each.value < 0 {
			return fmt.Errorf("iscsi: a timeout of %v", *each.value)
		}
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
	// complaints bounds the log lines that anybody on the network can cause.
	complaints *rate.Limiter
	doors      sync.WaitGroup // Serve calls, connections and the watchman

	mu        sync.Mutex
	closed    bool
	stop      chan struct{} // closed with the server
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	sources   map[netip.Addr]int
}

// New makes a server. It listens on nothing until Serve; Shutdown or Close end it.
func New(options Options) (*Server, error) {
	if err := options.setDefaults(); err != nil {
		return nil, err
	}
	s := &Server{
		options: options, log: options.Logger, sessions: newSessions(), stop: make(chan struct{}),
		guesses:    newGuesses(options.MaxConnections),
		complaints: rate.NewLimiter(complaintsPerSecond, complaintsPerSecond),
		listeners:  map[net.Listener]struct{}{}, conns: map[*conn]struct{}{}, sources: map[netip.Addr]int{},
	}
	s.doors.Go(s.watch)
	return s, nil
}

// ErrServerClosed is what Serve gives after Shutdown or Close.
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
	s.doors.Add(1)
	s.mu.Unlock()
	defer s.doors.Done()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, l)
	}()
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
		// A boot loader at its menu answers no keepalive; the watchman asks instead.
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
		defer s.doors.Done()
		defer close(c.gone)
		defer s.delist(c)
		s.run(c)
	}()
}

// run serves a connection and tells of it.
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
	case errors.Is(cause, errChapRefused): // which prove has told of
	case cause != nil && s.complaints.Allow():
		s.log.Warn("iscsi: connection ended", "initiator", c.initiator, "remote", c.remote, "error", cause)
	}
	if c.target != nil && c.target.Release != nil {
		c.target.Release()
	}
}

// announce tells that a session has begun.
func (s *Server) announce(c *conn) {
	c.announced = true
	c.public.Store(c.session)
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
// initiators to come back later, and waits until all is over. When the context
// ends it closes what is left.
func (s *Server) Shutdown(ctx context.Context) error {
	s.shut(func(c *conn) { c.nudge(nudgeStop) })
	over := make(chan struct{})
	go func() {
		s.doors.Wait()
		close(over)
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
	}
	s.shut(func(c *conn) { c.end(ErrShutdown) })
	<-over
	return ctx.Err()
}

// Close closes everything at once.
func (s *Server) Close() {
	s.shut(func(c *conn) { c.end(ErrShutdown) })
	s.doors.Wait()
}

func (s *Server) shut(each func(*conn)) {
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
		each(c)
	}
}
