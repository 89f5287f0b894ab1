package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/net/netutil"

	"glowplug/internal/apiserver"
	"glowplug/internal/bootserver"
)

// Limits of a connection: a client that sends its request a byte a minute does
// not hold one for ever. One that never reads the answer: see stall.go.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 30 * time.Second
	maxHeaderBytes    = 64 << 10
)

// ListenError is an address that cannot be listened on.
type ListenError struct {
	Flag, Address string
	Err           error
}

func (e *ListenError) Error() string {
	return fmt.Sprintf("--%s %s: %v", e.Flag, e.Address, e.Err)
}

func (e *ListenError) Unwrap() error { return e.Err }

// Hint is what to do about it.
func (e *ListenError) Hint() string {
	switch {
	case errors.Is(e.Err, syscall.EADDRINUSE):
		return fmt.Sprintf("another program listens there; 'ss -ltnp' names it, or give another address with --%s", e.Flag)
	case errors.Is(e.Err, syscall.EACCES):
		return "ports below 1024 need root or CAP_NET_BIND_SERVICE"
	case errors.Is(e.Err, syscall.EADDRNOTAVAIL):
		return "this machine has no such address"
	}
	return ""
}

// door is an open listener with its HTTP server.
type door struct {
	name     string
	rule     apiserver.Door
	listener net.Listener
	server   *http.Server
}

// open listens on the address that a flag gives; --listen-tls is an HTTPS door,
// whose certificate is yet to be set.
func open(flag, address string, maxConnections int, rule apiserver.Door, log *slog.Logger) (*door, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return nil, &ListenError{Flag: flag, Address: address, Err: err}
	}
	d := &door{name: "http", rule: rule, listener: unstalled(netutil.LimitListener(l, maxConnections), writeTimeout, writeRearm)}
	d.server = &http.Server{
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return apiserver.WithDoor(context.Background(), rule) },
		Protocols:         new(http.Protocols),
	}
	d.server.Protocols.SetHTTP1(true)
	if flag == "listen-tls" {
		d.name = "https"
		d.server.Protocols.SetHTTP2(true)
	} else {
		d.server.Protocols.SetUnencryptedHTTP2(true)
		d.listener, d.server.ConnContext = bootserver.Gather(d.listener), bootserver.ConnContext
	}
	return d, nil
}

// serve answers requests until the door is shut.
func (d *door) serve(handler http.Handler) error {
	d.server.Handler = handler
	var err error
	if d.name == "https" {
		err = d.server.ServeTLS(d.listener, "", "")
	} else {
		err = d.server.Serve(d.listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving %s: %w", d.listener.Addr(), err)
}

// shut lets requests in flight finish, until ctx ends; then it cuts them off.
func (d *door) shut(ctx context.Context) {
	if err := d.server.Shutdown(ctx); err != nil {
		_ = d.server.Close()
	}
}
