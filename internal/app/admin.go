package app

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"glowplug/internal/keyfile"
	"glowplug/internal/option"
	"glowplug/internal/serve/api"
	"glowplug/internal/serve/listener"
	"glowplug/internal/serve/peer"
)

// adminFlag is the flag of the admin listener.
const adminFlag = "admin-listen"

// unixPrefix begins an address that is the path of a Unix socket.
const unixPrefix = "unix:"

// networkOf splits an address of a flag into what net.Listen takes.
func networkOf(address string) (network, rest string) {
	if path, ok := strings.CutPrefix(address, unixPrefix); ok {
		return "unix", path
	}
	return "tcp", address
}

// checkAdmin refuses an address that other machines may reach.
func checkAdmin(address string) error {
	if network, path := networkOf(address); network == "unix" {
		if path == "" {
			return option.Bad(adminFlag, "%q names no path: want unix:/run/glowplug/admin.sock, say", address)
		}
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return option.Bad(adminFlag, "%q is not an address: want 127.0.0.1:8081 or unix:PATH", address)
	}
	if addr, err := netip.ParseAddr(host); err != nil || !addr.Unmap().IsLoopback() {
		return option.Bad(adminFlag, "%q is not a loopback address: callers need no credential there,"+
			" so want 127.0.0.1:PORT, [::1]:PORT or unix:PATH", address)
	}
	return nil
}

// prepareAdmin checks that the kernel reports the users of connections, and makes way for a
// socket.
func prepareAdmin(network, address string) error {
	probe := "127.0.0.1:0"
	if network == "unix" {
		probe = address
		if err := removeStaleSocket(address); err != nil {
			return &ListenError{Flag: adminFlag, Address: address, Err: err}
		}
	}
	if err := probeUser(network, probe); err != nil {
		return option.Bad(adminFlag, "%v, and without that anybody on this machine would be admin", err)
	}
	return nil
}

// removeStaleSocket removes the socket of a server that was killed.
func removeStaleSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s is there already, and is no socket", path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return syscall.EADDRINUSE
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// probeTimeout bounds the connection of probeUser.
const probeTimeout = 5 * time.Second

// probeUser checks that a connection of this process to itself has its user.
func probeUser(network, address string) error {
	l, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	defer l.Close()
	conn, err := net.DialTimeout(network, l.Addr().String(), probeTimeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	seen, err := listener.Users(l).Accept()
	if err != nil {
		return err
	}
	defer seen.Close()
	user, _ := seen.RemoteAddr().(listener.UserAddr)
	if user.Err == nil && int(user.User) != os.Geteuid() {
		return fmt.Errorf("%w: it reports user %d for a connection of user %d", peer.ErrNoUser, user.User, os.Geteuid())
	}
	return user.Err
}

// isOwn reports whether the admin listener admits a user: root, and the server's own.
func isOwn(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

// withUser records in the context of each connection whether its user is admitted.
func withUser(rule api.Listener, next connContext) connContext {
	return func(ctx context.Context, conn net.Conn) context.Context {
		own := rule
		user, ok := conn.RemoteAddr().(listener.UserAddr)
		switch {
		case !ok:
			own.Refusal = peer.ErrNoUser.Error()
		case user.Err != nil:
			own.Refusal = user.Err.Error()
		case isOwn(user.User):
			own.Admitted = true
		default:
			served := "root"
			if own := os.Geteuid(); own != 0 {
				served += fmt.Sprintf(" and user %d, which the server runs as", own)
			}
			own.Refusal = fmt.Sprintf("the admin listener serves %s, and this connection is of user %d", served, user.User)
		}
		return api.WithListener(next(ctx, conn), own)
	}
}

// connContext is what http.Server.ConnContext is.
type connContext = func(context.Context, net.Conn) context.Context

// clientCAs returns the CAs that sign client certificates: the own one, which may be
// renewed, and those of a PEM file, if any, which is read again when it changes.
func (a builder) clientCAs(file string) (func() *x509.CertPool, error) {
	var others atomic.Pointer[[]byte]
	others.Store(new([]byte))
	if file != "" {
		follower, err := keyfile.Follow(keyfile.Trusted, file, a.log, func(content []byte) error {
			if !x509.NewCertPool().AppendCertsFromPEM(content) {
				return fmt.Errorf("%s holds no PEM certificate", file)
			}
			others.Store(&content)
			return nil
		})
		if err != nil {
			return nil, option.Bad("client-ca-file", "%v", err)
		}
		a.clientCAFile = follower
	}
	return func() *x509.CertPool {
		pool := a.creds.ClientCAs()
		pool.AppendCertsFromPEM(*others.Load())
		return pool
	}, nil
}
