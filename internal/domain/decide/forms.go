package decide

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/template"
)

// Form is a config in another spec version than its own.
type Form struct {
	Version string
	// Bytes is the body of the answer; nil where the config cannot be converted.
	Bytes []byte
	// Hash is "sha256:" and the hex digest of Bytes; ETag is Hash in quotes.
	Hash, ETag string
	// Masked has placeholders in place of the values of Secrets, and the same Hash; nil: there are none.
	Masked *Form

	// refused is the reason why there are no bytes.
	refused string
}

// maxForms bounds the forms that are kept, in bytes.
const maxForms = 64 << 20

// formCost is the memory of a form beside its bytes, about.
const formCost = 512

// forms caches the forms of configs, so that a config is converted once for a version
// and not for every machine. The key has the config's hash, which changes with its bytes.
type forms struct {
	converting singleflight.Group

	mu     sync.Mutex
	cached *simplelru.LRU[formKey, *Form]
	// size is the memory of the forms, and limit its bound.
	size, limit int
}

type formKey struct {
	hash, version string
}

func newForms() *forms {
	f := &forms{limit: maxForms}
	f.cached, _ = simplelru.NewLRU(math.MaxInt, func(_ formKey, form *Form) { f.size -= form.cost() })
	return f
}

// of returns a config in a version. Concurrent callers wait for one conversion.
func (f *forms) of(config *model.Config, version string) *Form {
	key := formKey{config.Hash, version}
	if form := f.get(key); form != nil {
		return form
	}
	form, _, _ := f.converting.Do(key.hash+" "+key.version, func() (any, error) {
		form := f.get(key)
		if form == nil {
			form = convert(config.Artifact, version)
			f.put(key, form)
		}
		return form, nil
	})
	return form.(*Form)
}

func (f *forms) get(key formKey) *Form {
	f.mu.Lock()
	defer f.mu.Unlock()
	form, _ := f.cached.Get(key)
	return form
}

// put adds a form, and removes those that were unused for longest until the rest is
// within the bound.
func (f *forms) put(key formKey, form *Form) {
	key.hash = strings.Clone(key.hash) // which may be a part of the config's bytes
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cached.Add(key, form)
	for f.size += form.cost(); f.size > f.limit && f.cached.Len() > 1; {
		f.cached.RemoveOldest()
	}
}

func (f *Form) cost() int { return len(f.Bytes) + len(f.refused) + formCost }

func convert(artifact []byte, version string) (form *Form) {
	// A panic of the libraries that check a form is an error of this form, and does not
	// end the server.
	defer func() {
		if failure := recover(); failure != nil {
			form = &Form{Version: version,
				refused: fmt.Sprintf("a fault of the library, which the config sets off: %.200v", failure)}
		}
	}()
	out, losses, err := ignition.Convert(artifact, version)
	form = &Form{Version: version, Bytes: out}
	switch {
	case err != nil:
		form.refused = err.Error()
	case len(losses) > 0:
		form.refused = strings.Join(ignition.Listed(losses, ignition.Loss.String), "; ")
	default:
		sum := sha256.Sum256(out)
		form.Hash = "sha256:" + hex.EncodeToString(sum[:])
		form.ETag = `"` + form.Hash + `"`
	}
	return form
}

// form chooses the version of the answer: the config as it is, where any entry of the client's
// header accepts that, else the first accepted version to which it can be converted.
func (q *configQuestion) form(accept ignition.Accept) *fault.Error {
	config, req := q.dec.Config, q.req
	if req.Claims.Spec == "" && !ignition.Misleads(req.UserAgent) && accept.IsTaken(config.IgnitionVersion) {
		return nil
	}
	wanted, reason := ignition.Negotiate(accept, req.UserAgent, req.Claims.Spec, config.IgnitionVersion)
	for i, version := range wanted {
		if version == config.IgnitionVersion {
			return nil
		}
		form := q.decider.Form(config, version)
		if form.Bytes != nil {
			q.dec.Form = form
			return nil
		}
		if i == 0 {
			reason = "the client takes spec " + strings.Join(wanted, " or ") + ", the config is of spec " +
				config.IgnitionVersion + ", and it cannot be converted to spec " + version + ": " + form.refused
		}
	}
	return fault.New(fault.NotAcceptable, "config "+config.Ref.String()+" cannot be given: "+reason)
}

// Form returns a config in an Ignition version. A config with the values of Secrets is not cached, its
// hash is that with placeholders, and no reason quotes a value.
func (d *Decider) Form(config *model.Config, version string) *Form {
	if !config.Revealed {
		return d.forms.of(config, version)
	}
	form := convert(config.Artifact, version)
	form.Hash = config.Hash
	if config.Masked != nil {
		if form.Masked = d.forms.of(config.Masked, version); form.Masked.Bytes != nil {
			form.Hash = form.Masked.Hash
		}
	}
	if form.refused != "" {
		form.refused = "it has values of Secrets, and cannot be converted with them"
	}
	return form
}

// Renderer renders templates for machines.
type Renderer interface {
	// Render returns the config with the rendering instead of its template: Artifact,
	// Hash, ETag and IgnitionVersion, and Stale where it is an earlier rendering. host is
	// the machine, nil where it is no known host; nil facts are those of the host.
	Render(config *model.Config, host *model.Host, facts *template.Facts, asker Asker) (
		*model.Config, *fault.Error)
}

// Asker is the client that waits for a rendering.
type Asker struct {
	// Caller identifies a machine that is no known host, for limits.
	Caller identity.Caller
	// Gone is closed when the client has gone away; nil: never.
	Gone <-chan struct{}
	// Reveal is true where the rendering is for the machine itself: it has the values of Secrets, and no
	// placeholders for them.
	Reveal bool
	// Last is true for a client of the API that asks about a machine: machines go before it.
	Last bool
}

// renderChosen renders the chosen config if it is a template.
func (q *configQuestion) renderChosen() {
	if q.dec.Err == nil && q.dec.Config != nil && q.dec.Config.Template && !q.req.Claims.Raw && !q.req.Pointer {
		q.dec.Template = true
		q.dec.Err = q.render()
	}
}

// render replaces the template by its rendering for the machine, and chooses the Ignition
// version of the answer.
func (q *configQuestion) render() *fault.Error {
	dec := &q.dec
	if q.decider.opts.Renderer == nil {
		return fault.New(fault.Unavailable, "config "+dec.Config.Ref.String()+" is a template, which nothing renders here")
	}
	asker := Asker{Caller: q.req.Caller, Gone: q.req.Gone, Reveal: q.req.Reveal, Last: q.req.Last}
	rendered, err := q.decider.opts.Renderer.Render(dec.Config, dec.Host, q.facts(), asker)
	if err != nil {
		return err
	}
	dec.Config = rendered
	if rendered.Type != Ignition {
		return nil
	}
	return q.form(q.accept())
}

// facts returns the facts of the template. Those of a known host are in its object, so
// that it receives the rendering that was checked before (nil); those of another machine
// are its claims and address.
func (q *configQuestion) facts() *template.Facts {
	if h := q.dec.Host; h != nil && (q.role == "" || q.role == h.Labels[match.RoleLabel]) {
		return nil
	}
	f := &template.Facts{Hostname: q.hostname}
	switch {
	case q.dec.Host != nil:
		f = q.dec.Host.Facts()
	case q.mac != zeroMAC:
		f.MAC = q.mac.String()
	case q.neighbor != zeroMAC:
		f.MAC = q.neighbor.String()
	}
	if q.dec.Host == nil && q.addr.IsValid() {
		f.IP = q.addr.String()
	}
	if q.role != "" {
		labels := map[string]string{}
		maps.Copy(labels, f.Labels)
		labels[match.RoleLabel] = q.role
		f.Labels = labels
	}
	return f
}
