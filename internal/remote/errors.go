package remote

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"glowplug/internal/egress"
)

// Kind is a way in which a config cannot be rendered.
type Kind uint8

// The kinds.
const (
	Invalid   Kind = iota // a config that a machine would fail on, or out of bounds
	Refused               // a place that may not be fetched from
	Failed                // a place that answers with an error
	TimedOut              // a place that has not answered in time
	Malformed             // a spec version that there is none of
	Unfit                 // a config that cannot be given in the spec version
)

// Error says why a config cannot be rendered. Its text has no header, no password and
// no query of a URL: these may be secrets.
type Error struct {
	Kind Kind
	// Chain has the configs on the way to the one that failed, the first being the
	// one that was asked for; URLs in it are redacted.
	Chain []string
	// Message is a sentence without a full stop.
	Message string
}

func (e *Error) Error() string {
	if len(e.Chain) == 0 {
		return e.Message
	}
	return strings.Join(e.Chain, " → ") + ": " + e.Message
}

// Hint implements the command line's remedy.
func (e *Error) Hint() string {
	if e.Kind == Refused {
		return "nothing is fetched but from the hosts and CIDRs of --allow-fetch"
	}
	return ""
}

func failf(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// asRefused returns the error of the egress guard as an Error; any other error stays.
func asRefused(err error) error {
	var refused *egress.RefusedError
	if errors.As(err, &refused) {
		return failf(Refused, "%v", refused)
	}
	return err
}

// redact shows a URL without what may be secret in it: user, password, query and
// fragment, and the content of a data: URL.
func redact(source string) string {
	u, err := url.Parse(source)
	if err != nil {
		return "(not a URL)"
	}
	if u.Scheme == "data" {
		return "data:…"
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	switch {
	case u.Scheme == "arn":
		shown.Opaque = u.Opaque
	case u.Opaque != "": // without the slashes a password may be anywhere
		shown.Opaque = "…"
	}
	text := shown.String()
	if u.RawQuery != "" {
		text += "?…"
	}
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}

// plain says why a request failed, without what may be secret: the URL, with its query.
func plain(err error) string {
	var own *Error
	if errors.As(err, &own) {
		return own.Message
	}
	return egress.Plain(err)
}

// isFinal reports whether trying again is of no use: an Error is final. A machine would
// go on for ever where a certificate is not to be trusted; here that ends at once, with
// the reason.
func isFinal(err error) bool {
	return errors.As(err, new(*Error)) || errors.As(err, new(*tls.CertificateVerificationError))
}

// withChain returns an error as an Error that has a chain.
func withChain(chain []string, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		e = failf(Failed, "%s", plain(err))
	}
	if e.Chain == nil {
		out := *e
		out.Chain = slices.Clone(chain)
		return &out
	}
	return e
}

func isData(source string) bool { return strings.HasPrefix(strings.ToLower(source), "data:") }
