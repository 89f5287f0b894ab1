package machine

import (
	"net"
	"net/http"
	"strconv"
	"strings"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/ignition"
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
	// Local reports whether a request has come over a connection within this machine, which need not be encrypted.
	Local func(r *http.Request) bool
}

// isPlain reports whether the answer to a request would cross the network in the clear. A trusted proxy says
// how its client has asked.
func (h *HTTPS) isPlain(r *http.Request, req *request) bool {
	isProxied := req.Caller.Proxied && strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
	return r.TLS == nil && !isProxied && !h.Local(r)
}

// base returns this server's URL over HTTPS for the sender of a request, without a slash at its end.
func (h *HTTPS) base(r *http.Request) string {
	if h.URL != "" {
		return h.URL
	}
	host := h.Host
	if host == "" {
		host = localAddr(r).Addr().WithZone("").String()
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(int(h.Port)))
}

// overHTTPSAlone begins the refusal of a config over plain HTTP.
const overHTTPSAlone = " is served over HTTPS alone (--configs-over-https): "

// servePointer answers a request over plain HTTP for a config that is served over HTTPS alone: with a pointer
// config for Ignition, and with a refusal for installers that cannot be told a CA. The answer has nothing of
// the config.
func (h *HTTPS) servePointer(s *Server, w *response, r *http.Request, req *request, res result) result {
	config, base := res.Config, h.base(r)
	res.Config, res.Form = nil, nil // which are not in the answer
	if config.Type != decide.Ignition || req.Claims.Raw {
		if res.Host != nil && !req.Caller.Believed {
			s.notify(decide.PlainHTTP(res.Host, req.Caller.Addr, config.Ref))
		}
		return w.fail(res, fault.New(fault.Refused, "config "+config.Ref.String()+overHTTPSAlone+
			"ask at "+base+r.URL.Path+", with a certificate that the client trusts"))
	}
	target := base + r.URL.Path
	if r.URL.RawQuery != "" {
		target += "?" + r.URL.RawQuery
	}
	body, reason := ignition.Pointer(ignition.ParseAccept(req.Accept), req.UserAgent, req.Claims.Spec, target,
		h.Authorities())
	if body == nil {
		return w.fail(res, fault.New(fault.NotAcceptable, "config "+config.Ref.String()+overHTTPSAlone+reason))
	}
	res.boots = "pointer to HTTPS"
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Vary", "Accept, User-Agent")
	s.checkNeighbor(w, r, req, res.Host)
	w.write(http.StatusOK, ignitionType, body)
	return res
}
