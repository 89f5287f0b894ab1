package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
)

// RefusedError says that a place may not be fetched from, and what allows it.
type RefusedError struct{ what, reason string }

func (e *RefusedError) Error() string { return e.what + " " + e.reason }

// Redirected is the same of a place that a server redirects to, without its name: who
// writes a URL need not be one who may read what the server answers.
func (e *RefusedError) Redirected() *RefusedError {
	return &RefusedError{"what it redirects to", e.reason}
}

// Plain says in a few words why a request failed. It has nothing in it of what a server
// sent, nor any name or address, except a *RefusedError's: the error of a library may
// quote the first line of an answer, a redirect, the names in a certificate or the
// address of a name server.
func Plain(err error) string {
	var (
		refused *RefusedError
		dns     *net.DNSError
		invalid x509.CertificateInvalidError
		number  syscall.Errno
		timeout net.Error
	)
	switch {
	case errors.As(err, &refused):
		return refused.Error()
	case errors.As(err, &dns) && dns.IsNotFound:
		return "there is no such host"
	case errors.As(err, &dns):
		return "its name cannot be resolved"
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "its certificate is signed by an unknown authority"
	case errors.As(err, new(x509.HostnameError)):
		return "its certificate is for another name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired, or is not valid yet"
	case errors.As(err, &invalid), errors.As(err, new(*tls.CertificateVerificationError)):
		return "its certificate is not valid"
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, new(tls.RecordHeaderError)):
		return "it does not speak TLS"
	case errors.As(err, new(tls.AlertError)):
		return "the TLS handshake failed"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "there was no answer in time"
	case errors.As(err, &number):
		return number.Error()
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "the server hung up"
	}
	return "its answer cannot be read"
}
