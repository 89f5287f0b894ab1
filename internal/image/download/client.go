// Package download brings files here over a network that fails: what has come is
// kept and gone on from, also after a restart, from whichever mirror answers; and
// a file gets its name only when it is whole and its digest, and its signature
// where that is asked for, are right.
package download

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"glowplug/internal/egress"
)

const (
	// idleDefault ends an answer that brings nothing for so long, and one that brings less
	// than leastBytes in twice that: a server that sends a byte now and then would keep
	// others waiting for ever.
	idleDefault = time.Minute
	leastBytes  = 128 << 10
	// roomStep is how many bytes of an answer of unknown length come between two looks
	// at whether there is room for more.
	roomStep = 16 << 20
)

var (
	// ErrSlow says that an answer came, but so slowly that another mirror is better.
	ErrSlow = errors.New("it comes too slowly")
	// errEndless says that an answer of unknown length has taken all the room.
	errEndless = errors.New("the server does not say how long it is, and there is no room for more")
)

// Client asks web servers for files. It is safe for concurrent use.
type Client struct {
	// HTTP makes the requests.
	HTTP *http.Client
	// Agent is the User-Agent.
	Agent string
	// Idle ends an answer that brings nothing for so long, or next to nothing for twice
	// as long; 0: a minute.
	Idle time.Duration
	// Room is asked once an answer has begun and, where its length is not known, again
	// and again while it comes; nil: there is room.
	Room func(*Part) error
	// Received is called with the number of bytes that came; may be nil.
	Received func(bytes float64)
}

// A PermanentError is not likely to pass: the pause before the next try is long.
type PermanentError struct{ error }

func (e PermanentError) Unwrap() error { return e.error }

// Permanent makes a PermanentError.
func Permanent(format string, args ...any) error { return PermanentError{fmt.Errorf(format, args...)} }

// IsPermanent reports whether an error is, or wraps, a PermanentError.
func IsPermanent(err error) bool { return errors.As(err, new(PermanentError)) }

// A LocalError is of this machine's disk, and of no server.
type LocalError struct{ error }

func (e LocalError) Unwrap() error { return e.error }

// Fill makes one request for what is missing of a file and takes the answer. What
// it has brought counts, also where it fails. Errors name no URL: its query may
// hold a secret.
func (c *Client) Fill(ctx context.Context, p *Part, from string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := c.request(ctx, from)
	if err != nil {
		return err
	}
	if p.State.Offset > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", p.State.Offset))
		// What another server calls the file says nothing here; the digest does.
		if p.State.Validator != "" && p.State.From == keyOf(from) {
			req.Header.Set("If-Range", p.State.Validator)
		}
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return unquoted(err)
	}
	defer resp.Body.Close()
	if err := begin(p, resp); err != nil {
		return err
	}
	p.State.From = keyOf(from)
	if p.State.Total > MaxBytes {
		return PermanentError{ErrTooLarge}
	}
	if c.Room != nil {
		if err := c.Room(p); err != nil {
			return LocalError{err}
		}
	}
	return c.readBody(ctx, cancel, p, resp)
}

// readBody reads the body of an answer into the part. Too few bytes for too long end it.
func (c *Client) readBody(ctx context.Context, cancel context.CancelCauseFunc, p *Part, resp *http.Response) error {
	idle := cmp.Or(c.Idle, idleDefault)
	errIdle := fmt.Errorf("nothing came for %s", idle)
	timer := time.AfterFunc(idle, func() { cancel(errIdle) })
	defer timer.Stop()
	slow := time.AfterFunc(2*idle, func() {
		cancel(fmt.Errorf("%w: less than %d KiB in %s", ErrSlow, leastBytes>>10, 2*idle))
	})
	defer slow.Stop()
	came := 0.0
	body := &Counted{Context: ctx, Reader: resp.Body, Count: func(n float64) {
		timer.Reset(idle)
		if came += n; came >= leastBytes {
			came = 0
			slow.Reset(2 * idle)
		}
		if c.Received != nil {
			c.Received(n)
		}
	}}
	_, err := io.CopyBuffer(&roomy{client: c, part: p}, body, make([]byte, copyBuffer))
	var local *fs.PathError
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errIdle) || errors.Is(cause, ErrSlow):
		return cause
	case errors.Is(err, ErrTooLarge), errors.Is(err, ErrTooMuch), errors.Is(err, errEndless):
		return PermanentError{err}
	case errors.As(err, &local):
		return LocalError{local.Err}
	case err != nil:
		return fmt.Errorf("it was cut off after %d bytes: %w", p.State.Offset, unquoted(err))
	case p.State.Total >= 0 && !p.Whole():
		return fmt.Errorf("it was cut off after %d of %d bytes", p.State.Offset, p.State.Total)
	}
	p.State.Total = p.State.Offset
	return nil
}

// roomy writes an answer into a part, and looks whether there is room for one that
// does not say how long it is.
type roomy struct {
	client *Client
	part   *Part
	came   int
}

func (r *roomy) Write(b []byte) (int, error) {
	if r.came += len(b); r.came >= roomStep && r.part.State.Total < 0 && r.client.Room != nil {
		r.came = 0
		if err := r.client.Room(r.part); err != nil {
			return 0, fmt.Errorf("%w: %v", errEndless, err)
		}
	}
	return r.part.Write(b)
}

// Small gets a file of at most limit bytes at once, such as a signature.
func (c *Client) Small(ctx context.Context, from string, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, idleDefault)
	defer cancel()
	req, err := c.request(ctx, from)
	if err != nil {
		return nil, err
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, unquoted(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, refusal(resp)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, unquoted(err)
	}
	if int64(len(text)) > limit {
		return nil, Permanent("it has more than %d bytes", limit)
	}
	return text, nil
}

func (c *Client) request(ctx context.Context, from string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, Permanent("it is no URL")
	}
	if !isWeb(req.URL) {
		return nil, Permanent("it is neither an http nor an https URL")
	}
	req.Header.Set("User-Agent", c.Agent)
	req.Header.Set("Accept-Encoding", "identity")
	return req, nil
}

// keyOf identifies a URL in the state of a part.
func keyOf(from string) string {
	sum := sha256.Sum256([]byte(from))
	return hex.EncodeToString(sum[:8])
}

// restart empties a part that does not go on, for the reason that it returns.
func restart(p *Part, reason string) error {
	return cmp.Or(p.Restart(), errors.New(reason))
}

// begin reads the head of a response: it has to be the whole file, or the range that
// was requested.
func begin(p *Part, resp *http.Response) error {
	total, err := totalOf(p, resp)
	if err != nil {
		return err
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return Permanent("the server sends it encoded, which was not asked for")
	}
	p.State.Total = total
	p.State.Validator = ""
	if tag := resp.Header.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		p.State.Validator = tag
	} else if tag == "" {
		p.State.Validator = resp.Header.Get("Last-Modified")
	}
	return nil
}

// totalOf returns the length of the whole file, -1 if the server does not say it. The
// part begins again if the response is not the range that was requested.
func totalOf(p *Part, resp *http.Response) (int64, error) {
	switch {
	case resp.StatusCode == http.StatusOK:
		return resp.ContentLength, p.Restart()
	case resp.StatusCode == http.StatusPartialContent && p.State.Offset > 0:
		first, _, all, ok := ParseContentRange(resp.Header.Get("Content-Range"))
		if !ok || first != p.State.Offset || (p.State.Total >= 0 && all != p.State.Total) {
			return 0, restart(p, "the answer is not the range that was asked for")
		}
		return all, nil
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && p.State.Offset > 0:
		return 0, restart(p, "it has become shorter")
	}
	return 0, refusal(resp)
}

// refusal is the error of an answer that brings nothing.
func refusal(resp *http.Response) error {
	text := strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout ||
		resp.StatusCode >= 500 {
		return fmt.Errorf("the server answered %s", text)
	}
	return Permanent("the server answered %s", text)
}

// ParseContentRange parses a range of a known length, such as "bytes 100-199/200" (RFC
// 9110 section 14.4).
func ParseContentRange(text string) (first, last, total int64, ok bool) {
	const format = "bytes %d-%d/%d"
	_, _ = fmt.Sscanf(text, format, &first, &last, &total) // it accepts more than the format
	ok = text == fmt.Sprintf(format, first, last, total) && first >= 0 && first <= last && last < total
	return first, last, total, ok
}

// unquoted leaves the URL, and all that a server sent, out of an error.
func unquoted(err error) error {
	var refused *egress.RefusedError
	var permanent PermanentError
	switch {
	case errors.As(err, &refused):
		return PermanentError{refused}
	case errors.As(err, &permanent): // of a redirect
		return permanent
	case errors.Is(err, context.Canceled):
		return context.Canceled
	}
	return errors.New(egress.Plain(err))
}

const (
	// maxRedirects bounds the redirects of one request.
	maxRedirects = 10
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 256 << 10
)

// NewHTTPClient is for a command, which runs as its user: it asks every server,
// through the proxies of the environment. The body of an answer may take as long as it
// goes on coming; conns are kept for the next request.
func NewHTTPClient(conns int) *http.Client {
	return &http.Client{Transport: newTransport(conns), CheckRedirect: checkRedirect}
}

// NewGuardedClient is for the server, which asks for whoever has written a URL: it
// connects to what a policy allows. The proxies of the environment are not used, since
// they would connect for it, to what nobody has checked.
func NewGuardedClient(policy egress.Policy, conns int) *http.Client {
	t := newTransport(conns)
	t.Proxy, t.DialContext = nil, egress.NewDialer(policy).Dial
	return &http.Client{Transport: guarded{egress.OnBehalf(t)}, CheckRedirect: checkRedirect}
}

func newTransport(conns int) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = time.Minute
	t.MaxResponseHeaderBytes = maxHeader
	t.DisableCompression = true
	t.MaxIdleConns = conns
	return t
}

// guarded names no place that a server redirects to.
type guarded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (g guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := g.RoundTripper.RoundTrip(req)
	var refused *egress.RefusedError
	if req.Response != nil && errors.As(err, &refused) {
		err = refused.Redirected()
	}
	return resp, err
}

func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return Permanent("it redirects more than %d times", maxRedirects)
	}
	if !isWeb(req.URL) {
		return Permanent("it redirects to what is neither http nor https")
	}
	req.Header.Del("Referer") // a URL's query may be a secret
	return nil
}

func isWeb(u *url.URL) bool { return u.Scheme == "http" || u.Scheme == "https" }
