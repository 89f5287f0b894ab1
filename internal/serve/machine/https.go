package machine

import (
	"cmp"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/match"
)

// HTTPS is the way in which machines receive their configs over HTTPS alone.
type HTTPS struct {
	// Host is the name or address of this server in URLs; "": the address that the machine has reached.
	Host string
	// Port is that of HTTPS.
	Port uint16
	// URL is this server's over HTTPS, without a slash at its end, where that is not made of Host and Port.
	URL string
	// Authorities returns the CAs of the server's certificate, each in PEM.
	Authorities func() [][]byte
	// Verify returns why the server's certificate is not valid for a name or an address; nil: it is.
	Verify func(host string) error
	// Local reports whether a request has come over a connection within this machine, which need not be encrypted.
	Local func(r *http.Request) bool
}

// isPlain reports whether the answer to a request would cross the network in the clear. Behind a trusted proxy, that
// depends on how the client has asked the proxy, which says so.
func (h *HTTPS) isPlain(r *http.Request, req *request) bool {
	if !req.Caller.Proxied {
		return r.TLS == nil && !h.Local(r)
	}
	// A client may have sent a line of its own, which the proxy has passed on.
	lines := r.Header["X-Forwarded-Proto"]
	isHTTP := func(line string) bool { return !strings.EqualFold(strings.TrimSpace(line), "https") }
	return len(lines) == 0 || slices.ContainsFunc(lines, isHTTP)
}

// host returns this server's name or address over HTTPS for the sender of a request.
func (h *HTTPS) host(r *http.Request) string {
	if h.Host != "" {
		return h.Host
	}
	return localAddr(r).Addr().WithZone("").String()
}

// base returns this server's URL over HTTPS, without a slash at its end.
func (h *HTTPS) base(host string) string {
	if h.URL != "" {
		return h.URL
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(int(h.Port)))
}

// verify returns why a pointer to this server would lead nowhere; nil: it would not, as far as the server knows.
func (h *HTTPS) verify(host string) error {
	if h.URL != "" { // which may be that of a proxy with a certificate of its own
		return nil
	}
	return h.Verify(host)
}

// pointer is what a machine receives that is referred to HTTPS.
const pointer = "pointer to HTTPS"

// overHTTPSAlone begins the refusal of a config over plain HTTP.
const overHTTPSAlone = " is served over HTTPS alone (--configs-over-https): "

// servePointer answers a request over plain HTTP for a config that is served over HTTPS alone: with a pointer
// config for Ignition, and with a refusal for installers that cannot be told a CA. The answer has nothing of
// the config.
func (h *HTTPS) servePointer(s *Server, w *response, r *http.Request, req *request, res result) result {
	config, host := res.Config, h.host(r)
	res.Config, res.Tier = nil, match.None // the answer has nothing of the config
	switch {
	case config.Type != decide.Ignition || req.Claims.Raw:
		if res.Host != nil && !req.Caller.Believed {
			s.notify(decide.PlainHTTP(res.Host, req.Caller.Addr, config.Ref))
		}
		return w.fail(res, fault.New(fault.Refused, "config "+config.Ref.String()+overHTTPSAlone+
			"send the same request to "+h.base(host)+r.URL.Path+", whose certificate the client has to trust"))
	case cmp.Or(h.URL, h.Host) == "" && req.Caller.Proxied:
		return w.fail(res, fault.New(fault.Unavailable, "config "+config.Ref.String()+overHTTPSAlone+
			"behind a proxy, the server needs its own URL over HTTPS (--http-url)"))
	}
	if err := h.verify(host); err != nil {
		failure := fault.New(fault.Unavailable, "config "+config.Ref.String()+overHTTPSAlone+
			"the server's certificate is not valid for "+host+"; add it with --tls-san, or set --http-url")
		failure.Cause = err
		return w.fail(res, failure)
	}
	target := h.base(host) + r.URL.Path
	if r.URL.RawQuery != "" {
		target += "?" + r.URL.RawQuery
	}
	body, reason := ignition.Pointer(ignition.ParseAccept(req.Accept), req.UserAgent, req.Claims.Spec, target,
		h.Authorities())
	if body == nil {
		return w.fail(res, fault.New(fault.NotAcceptable, "config "+config.Ref.String()+overHTTPSAlone+reason))
	}
	res.boots = pointer
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Vary", "Accept, User-Agent")
	w.write(http.StatusOK, ignitionType, body)
	return res
}
