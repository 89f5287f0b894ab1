package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
)

// serveConfig answers PathIgnition and PathKickstart: the config of a machine.
func (s *Server) serveConfig(typ string) handler {
	return func(w *response, r *http.Request, req *request) result {
		req.Type = typ
		if failure := s.readClaims(r, req); failure != nil {
			return w.fail(result{}, failure)
		}
		req.Accept = strings.Join(r.Header["Accept"], ", ")
		req.UserAgent = r.Header.Get("User-Agent")
		req.Pointer = s.opts.HTTPS != nil && s.opts.HTTPS.isPlain(r, req)
		installs := isInstaller(r, req)
		req.Pointer = req.Pointer || installs
		req.Gone, req.Reveal = r.Context().Done(), !req.Pointer
		res := result{ConfigDecision: s.opts.Decider.Config(&req.Request)}
		s.record(r, req, &res.Identity)
		if installs && res.Err == nil && res.Config != nil {
			return s.serveInstaller(w, r, req, res)
		}
		if req.Pointer && res.Err == nil && res.Config != nil {
			return s.opts.HTTPS.servePointer(s, w, r, req, res)
		}
		if res.Err == nil {
			res.Err = s.compareNeighbor(r, req, &res)
		}
		if res.Err == nil {
			res.Err = s.countFetch(r, req, &res)
		}
		if res.Err != nil {
			if machine := req.machine(res.Host); machine != nil && !req.Caller.Believed && s.opts.Journal != nil {
				identity := res.Identity
				s.opts.Journal.Refused(machine, res.Err.Sentence, noteRequest(req, &identity))
			}
			return w.fail(res, res.Err)
		}
		return s.writeConfig(w, r, req, res)
	}
}

// zeroMAC is no hardware address.
var zeroMAC netaddr.MAC

// compareNeighbor compares the neighbour entry of a host's machine with that before the
// decision, which may have waited for a rendering. A change is an event, and the reason to
// refuse the config where that is enforced.
func (s *Server) compareNeighbor(r *http.Request, req *request, res *result) *fault.Error {
	then, now := &req.Caller, s.opts.Resolver.Caller(r)
	flipped := now.Former != zeroMAC && now.Former != then.Former
	if res.Host == nil || then.Believed || then.MAC == zeroMAC || now.MAC == zeroMAC || now.MAC == then.MAC && !flipped {
		return nil
	}
	if !flipped {
		now.Former = then.MAC
	}
	then.MAC, then.Former = now.MAC, now.Former
	notice, refusal := decide.NeighborChanged(res.Host, now.Addr, now.MAC, now.Former)
	res.Notices = append(res.Notices, notice)
	s.notify(notice)
	if !s.opts.Enforce {
		return nil
	}
	return refusal
}

// countFetch counts a config that is about to be served, and refuses it outside the limits of the host:
// the decision did not know of requests that have arrived at the same moment.
func (s *Server) countFetch(r *http.Request, req *request, res *result) *fault.Error {
	if res.Limits == (model.Limits{}) || s.opts.Journal == nil || r.Method != http.MethodGet {
		return nil
	}
	if match := r.Header["If-None-Match"]; len(match) > 0 {
		if _, etag := content(&res.ConfigDecision, req.Claims.Raw); matchesAny(match, etag) {
			return nil // the answer is 304, without the config
		}
	}
	notice, closed := s.opts.Journal.Fetch(&req.Request, res.Host, res.Limits)
	if notice != nil {
		res.Notices = append(res.Notices, *notice)
		s.notify(*notice)
	}
	if closed == "" {
		return nil
	}
	return decide.RefusedByLimits(res.Host, closed)
}

// writeConfig writes the config of a decision. It sets every header itself: a client that
// boots follows no redirect and decodes no encoding.
func (s *Server) writeConfig(w *response, r *http.Request, req *request, res result) result {
	body, etag := content(&res.ConfigDecision, req.Claims.Raw)
	if len(body) == 0 { // an empty 200 would be a success with an empty config
		return w.fail(res, fault.New(fault.Unavailable,
			"there is no compiled config for this machine yet; ask again in a moment"))
	}
	config, raw := res.Config, req.Claims.Raw
	h := w.Header()
	if config.Stale && !raw {
		h.Set("X-Glowplug-Stale", "true")
		s.metrics.stale.Inc()
	}
	h.Set("Etag", etag)
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept, User-Agent")
	h.Set("X-Glowplug-Config", headerSafe(config.Ref.String()))
	h.Set("X-Glowplug-Match", res.Tier.String())
	if !w.notModified(r, etag) {
		contentType := ignitionType
		if config.Type != decide.Ignition || raw {
			contentType = textType
			h.Set("X-Content-Type-Options", "nosniff")
		}
		w.writeAtOnce(r, http.StatusOK, contentType, body)
	}
	given := w.status == http.StatusNotModified || !w.head && w.broken == nil
	// A believed caller asks about a machine and is not the machine: an operator who reads
	// a config with curl has booted nothing.
	machine := req.machine(res.Host)
	if given && !raw && machine != nil && !req.Caller.Believed && s.opts.Journal != nil {
		decision := res.ConfigDecision // what is noted outlives the answer
		hash, note := s.noteServed(req, &decision)
		s.opts.Journal.Served(machine, config.Ref, hash, note)
	}
	return res
}

// content returns the bytes of a config for the client, and their ETag.
func content(d *decide.ConfigDecision, raw bool) (body []byte, etag string) {
	switch {
	case d.Config == nil:
		return nil, ""
	case raw:
		body = []byte(d.Config.Source)
		sum := sha256.Sum256(body)
		return body, `"sha256:` + hex.EncodeToString(sum[:]) + `"`
	case d.Form != nil:
		return d.Form.Bytes, d.Form.ETag
	}
	return d.Config.Artifact, d.Config.ETag
}

// headerSafe replaces what could end a header line. The API refuses such names; another
// program may have written them into the store.
func headerSafe(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}
