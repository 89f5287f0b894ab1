package machine

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/ipxe"
	"glowplug/internal/domain/model"
)

// maxNoted bounds what a machine says of itself in a boot, in bytes of each value.
const maxNoted = 256

// noteRequest returns what notes in a boot what a machine said of itself.
func noteRequest(req *request, i *decide.Identity) func(*v1.Boot) {
	return func(b *v1.Boot) {
		if req.Caller.Addr.IsValid() {
			b.Client = req.Caller.Addr.String()
		}
		if req.UserAgent != "" {
			b.UserAgent = clip(req.UserAgent, maxNoted)
		}
		c := &req.Claims
		facts := &v1.BootFacts{FoundBy: i.FoundBy, Claimed: noted("mac", c.OtherMAC, "uuid", c.UUID, "hostname", c.Hostname,
			"role", c.Role, "arch", c.Arch), Believed: noted()}
		if c.MAC != zeroMAC {
			facts.Claimed["mac"] = c.MAC.String()
		}
		if c.IP.IsValid() {
			facts.Claimed["ip"] = c.IP.String()
		}
		if i.Neighbor != zeroMAC {
			facts.Believed["neighbor"] = i.Neighbor.String()
		} else if req.Caller.MAC != zeroMAC {
			facts.Believed["neighbor"] = req.Caller.MAC.String()
		}
		b.Facts = facts
	}
}

// noted returns the values of names that have one.
func noted(pairs ...string) map[string]string {
	values := map[string]string{}
	for k := 0; k < len(pairs); k += 2 {
		if value := pairs[k+1]; value != "" {
			values[pairs[k]] = clip(value, maxNoted)
		}
	}
	return values
}

// noteScript returns what notes in a boot the script of a machine, with what it boots, and keeps the script without
// what is secret in it. base is the URL of this server.
func (s *Server) noteScript(req *request, d *decide.BootDecision, script, base string) func(*v1.Boot) {
	request := noteRequest(req, &d.Identity)
	return func(b *v1.Boot) {
		request(b)
		kept := []byte(ipxe.Masked(script, req.Claims.Token))
		sum := sha256.Sum256(kept)
		b.Script = "sha256:" + hex.EncodeToString(sum[:])
		s.keep(req, model.ScriptContent(b), kept)
		b.Match = &v1.BootMatch{Reason: d.Reason}
		if b.Image = nil; d.Image != nil && !d.Local {
			b.Image = imageOf(d.Image)
			b.KernelArguments = explain.Line(d.Image, d.Args, base)
		}
	}
}

func imageOf(image *model.Image) *v1.BootImage {
	return &v1.BootImage{Name: image.Ref.String(), Release: image.Release, Digest: image.Sum}
}

// noteServed returns what notes in a boot the config that a machine has received, and keeps its content. hash is that
// of the content.
func (s *Server) noteServed(req *request, d *decide.ConfigDecision) (hash string, note func(*v1.Boot)) {
	content, hash := contentOf(d)
	request := noteRequest(req, &d.Identity)
	return hash, func(b *v1.Boot) {
		request(b)
		b.Config.Generation, b.Config.Version = d.Config.Compiled, d.Config.IgnitionVersion
		if d.Form != nil {
			b.Config.Version = d.Form.Version
		}
		if b.Match == nil {
			b.Match = &v1.BootMatch{}
		}
		b.Match.Tier = d.Tier.String()
		if token := []byte(req.Claims.Token); len(token) > 0 && bytes.Contains(content, token) {
			content = bytes.ReplaceAll(content, token, []byte("<token>"))
		}
		s.keep(req, model.ConfigContent(b), content)
	}
}

// contentOf returns the bytes of a config for a machine, with placeholders for the values of Secrets, and their hash.
func contentOf(d *decide.ConfigDecision) (content []byte, hash string) {
	config, form := d.Config, d.Form
	switch {
	case form != nil && config.Revealed:
		if form.Masked != nil {
			content = form.Masked.Bytes
		}
		return content, form.Hash
	case form != nil:
		return form.Bytes, form.Hash
	case config.Masked != nil:
		config = config.Masked
	}
	return config.Artifact, config.Hash
}

// keep has kept what a host was given. An unknown machine can have very many contents made.
func (s *Server) keep(req *request, name string, content []byte) {
	if s.opts.Keep != nil && req.stranger == nil {
		s.opts.Keep(name, content)
	}
}
