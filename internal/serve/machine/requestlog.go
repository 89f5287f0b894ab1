package machine

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/logs"
)

// Bounds of what others wrote, in bytes of a log line.
const (
	maxAgent = 128
	maxCause = 512
)

// zeroMAC is no hardware address.
var zeroMAC netaddr.MAC

// failureLevel returns the level of the line of a request that failed: the server's
// own faults are errors, a machine without a config is usual.
func failureLevel(kind fault.Kind) slog.Level {
	switch kind {
	case fault.Internal:
		return slog.LevelError
	case fault.NoMatch:
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// log writes the request's line: who asked, what was found of it, what was
// decided and what was answered. The query itself is not in it, nor is a body.
func (s *Server) log(r *http.Request, x *exchange, took time.Duration) {
	level := slog.LevelInfo
	if x.failure != nil {
		level = failureLevel(x.failure.Kind)
	}
	refused := x.refusedCredential(r)
	if refused || x.alarm != "" {
		level = max(level, slog.LevelWarn)
	}
	if s.opts.Log == nil || !s.opts.Log.Enabled(context.Background(), level) {
		return
	}
	if x.request.Caller == (identity.Caller{}) { // it was answered before anybody asked
		x.request.Caller = s.opts.Resolver.Caller(r)
	}
	if source := x.source(); !s.opts.Limiter.Allow(x.start, &source) {
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
	if x.alarm != "" {
		l.Str("alarm", x.alarm)
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
	if refused {
		l.Str("credential", "refused")
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

// refusedCredential reports whether the sender made a claim, brought a token for it and
// was not believed.
func (x *exchange) refusedCredential(r *http.Request) bool {
	return len(r.Header["Authorization"]) > 0 && !x.request.Caller.Believed && x.request.Claims.Any()
}

// source is whose lines this one is counted with. A host's are counted by who asked for
// it as well: nobody uses up what is written of another.
func (x *exchange) source() logs.Source {
	caller := &x.request.Caller
	host := x.decision.Host
	switch {
	case host != nil:
		return logs.Source{
			Kind: logs.Known, Namespace: host.Namespace, Name: host.Name, Addr: netaddr.Source(caller.Addr), MAC: caller.MAC,
		}
	case caller.Believed:
		return logs.Source{Kind: logs.Known, Addr: netaddr.Source(caller.Addr)}
	case x.status < http.StatusBadRequest:
		return logs.Stranger(logs.Served, caller.Addr, caller.MAC)
	}
	return logs.Stranger(logs.Refused, caller.Addr, caller.MAC)
}
