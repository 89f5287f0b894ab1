package bootserver

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"glowplug/internal/netaddr"
)

// Bounds of what others wrote, in bytes of a log line.
const (
	maxAgent = 128
	maxCause = 512
)

// zeroMAC is no hardware address.
var zeroMAC netaddr.MAC

// log writes the request's line: who asked, what was found of it, what was
// decided and what was answered. The query itself is not in it, nor is a body.
func (s *Server) log(r *http.Request, x *exchange, took time.Duration) {
	level := slog.LevelInfo
	if x.failure != nil {
		level = x.failure.Kind.Level()
	}
	if s.opts.Log == nil || !s.opts.Log.Enabled(context.Background(), level) {
		return
	}
	l := s.opts.Log.Line(x.start, level, "request").Str("endpoint", x.endpoint.String()).Str("method", clip(r.Method, 16))

	caller := &x.request.Caller
	if caller.Addr.IsValid() {
		l.Addr("client", caller.Addr)
	} else {
		l.Str("client", "unknown")
	}
	if caller.MAC != zeroMAC {
		l.Str("neighbor", caller.MAC.String())
	}
	if caller.Proxied {
		l.Bool("proxied", true)
	}
	if caller.ForgedForward {
		l.Str("x_forwarded_for", "ignored")
	}
	if caller.Believed {
		l.Bool("believed", true)
	}

	claims := &x.request.Claims
	if claims.MAC != (netaddr.MAC{}) {
		l.Str("claim_mac", claims.MAC.String())
	}
	if claims.IP.IsValid() {
		l.Addr("claim_ip", claims.IP)
	}
	if claims.UUID != "" {
		l.Str("claim_uuid", claims.UUID)
	}
	if claims.Hostname != "" {
		l.Str("claim_hostname", claims.Hostname)
	}
	if claims.Role != "" {
		l.Str("claim_role", claims.Role)
	}
	if claims.Raw {
		l.Str("format", "raw")
	}

	if host := x.decision.Host; host != nil {
		l.Pair("host", host.Namespace, host.Name).Str("found", x.decision.FoundBy)
	}
	if x.boots != "" {
		l.Str("boots", x.boots)
	}
	if config := x.decision.Config; config != nil {
		l.Str("tier", x.decision.Tier.String()).Pair("config", config.Namespace, config.Name).
			Uint("revision", config.Revision)
		if !config.Template || x.request.Claims.Raw {
			l.Str("hash", x.hash())
		}
		if form := x.decision.Form; form != nil {
			l.Str("spec", form.Version)
		}
		if config.Stale {
			l.Bool("stale", true)
		}
	}
	l.Uint("status", uint64(x.status)).Uint("bytes", uint64(x.bytes)).Duration("duration", took)
	if agent := r.Header["User-Agent"]; len(agent) > 0 {
		l.Str("agent", clip(agent[0], maxAgent))
	}
	if x.failure != nil {
		l.Str("error", oneLine(x.failure.Sentence))
		if x.failure.Cause != nil {
			l.Str("cause", clip(x.failure.Cause.Error(), maxCause))
		}
	}
	if x.broken != nil {
		l.Str("broken", clip(x.broken.Error(), maxCause))
	}
	l.End()
}
