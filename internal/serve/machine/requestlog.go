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

// Bounds of texts of clients and libraries, in bytes of a log line.
const (
	maxAgent = 128
	maxCause = 512
)

// failureLevel returns the level of the line of a request that failed. A stranger without
// a config is usual; for the machine of a known host a 404 is final.
func failureLevel(kind fault.Kind, isHost bool) slog.Level {
	switch {
	case kind == fault.Internal:
		return slog.LevelError
	case kind == fault.NoMatch && !isHost:
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// log writes the request's line: the sender, the decision and the answer. It has neither
// the query itself nor a body.
func (s *Server) log(endpoint string, w *response, r *http.Request, req *request, res *result, took time.Duration) {
	level := slog.LevelInfo
	if res.Err != nil {
		level = failureLevel(res.Err.Kind, res.Host != nil)
	}
	// Whether a sender is believed is known already where the request has claims.
	refused := len(r.Header["Authorization"]) > 0 && !req.Caller.Believed && (req.Claims.Any() || !s.opts.Believe(r))
	alarm := alarmOf(res)
	if refused || alarm != "" {
		level = max(level, slog.LevelWarn)
	}
	if s.opts.Log == nil || !s.opts.Log.Enabled(context.Background(), level) {
		return
	}
	if source := sourceOf(w.status, &req.Caller, res); !s.opts.Limiter.Allow(req.At, &source) {
		return
	}
	attrs := make(attributes, 0, 24)
	attrs.add("endpoint", endpoint)
	attrs.add("method", clip(r.Method, 16))
	attrs.addCaller(&req.Caller, alarm)
	attrs.addIf(refused, slog.String("credential", "refused"))
	attrs.addClaims(&req.Claims)
	attrs.addResult(res, req.Claims.Raw)
	attrs = append(attrs, slog.Int("status", w.status), slog.Int("bytes", w.bytes), slog.Duration("duration", took))
	attrs.add("agent", clip(r.Header.Get("User-Agent"), maxAgent))
	if res.Err != nil {
		attrs.add("error", oneLine(res.Err.Sentence))
		attrs.addError("cause", res.Err.Cause)
	}
	attrs.addError("broken", w.broken)
	record := slog.NewRecord(req.At, level, "request", 0) // the time is the request's
	record.AddAttrs(attrs...)
	_ = s.opts.Log.Handle(context.Background(), record)
}

// alarmOf returns the reason of a notice that is an alarm; "": there was none.
func alarmOf(res *result) (reason string) {
	for i := range res.Notices {
		if n := &res.Notices[i]; n.IsAlarm() {
			reason = n.Reason
		}
	}
	return reason
}

// attributes are those of a line.
type attributes []slog.Attr

// add adds a text, unless it is empty.
func (a *attributes) add(key, value string) { a.addIf(value != "", slog.String(key, value)) }

func (a *attributes) addError(key string, err error) {
	if err != nil {
		a.add(key, clip(err.Error(), maxCause))
	}
}

func (a *attributes) addMAC(key string, mac netaddr.MAC) {
	if mac != zeroMAC {
		a.add(key, mac.String())
	}
}

func (a *attributes) addIf(cond bool, attr slog.Attr) {
	if cond {
		*a = append(*a, attr)
	}
}

func (a *attributes) addCaller(caller *identity.Caller, alarm string) {
	client := "unknown"
	if caller.Addr.IsValid() {
		client = caller.Addr.String()
	}
	a.add("client", client)
	a.addMAC("neighbor", caller.MAC)
	a.add("alarm", alarm)
	a.addIf(caller.Proxied, slog.Bool("proxied", true))
	a.addIf(caller.ForgedForward, slog.String("x_forwarded_for", "ignored"))
	a.addIf(caller.Believed, slog.Bool("believed", true))
}

func (a *attributes) addClaims(claims *identity.Claims) {
	a.addMAC("claim_mac", claims.MAC)
	a.add("claim_other_mac", claims.OtherMAC)
	if claims.IP.IsValid() {
		a.add("claim_ip", claims.IP.String())
	}
	a.add("claim_uuid", claims.UUID)
	a.add("claim_hostname", claims.Hostname)
	a.add("claim_role", claims.Role)
	a.addIf(claims.Raw, slog.String("format", "raw"))
}

func (a *attributes) addResult(res *result, raw bool) {
	if res.Host != nil {
		a.add("host", res.Host.Ref.String())
		*a = append(*a, slog.String("found", res.FoundBy))
	}
	a.add("boots", res.boots)
	config := res.Config
	if config == nil {
		return
	}
	a.add("tier", res.Tier.String())
	a.add("config", config.Ref.String())
	*a = append(*a, slog.Uint64("revision", config.Revision))
	hash, version := config.Hash, ""
	if res.Form != nil {
		hash, version = res.Form.Hash, res.Form.Version
	}
	a.addIf(!config.Template || raw, slog.String("hash", hash))
	a.add("spec", version)
	a.addIf(config.Stale, slog.Bool("stale", true))
}

// sourceOf returns the source that a line is counted by. That of a host has its sender as
// well, so that no sender uses up the lines of another.
func sourceOf(status int, caller *identity.Caller, res *result) logs.Origin {
	switch {
	case res.Host != nil:
		return logs.Origin{
			Kind: logs.Known, Namespace: res.Host.Namespace, Name: res.Host.Name,
			Source: netaddr.Source{Addr: netaddr.Network(caller.Addr), MAC: caller.MAC},
		}
	case caller.Believed:
		return logs.Origin{Kind: logs.Known, Source: netaddr.SourceOf(caller.Addr, netaddr.MAC{})}
	case status < http.StatusBadRequest:
		return logs.Stranger(logs.Served, caller.Addr, caller.MAC)
	}
	return logs.Stranger(logs.Refused, caller.Addr, caller.MAC)
}
