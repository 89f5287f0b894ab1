package decide

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/singleflight"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/store/snapshot"
)

// Form is a config in another spec version than its own.
type Form struct {
	Version string
	// Bytes is the body of the answer; nil where the config cannot be given so.
	Bytes []byte
	// Hash is "sha256:" and the hex digest of Bytes; ETag is Hash in quotes.
	Hash, ETag string

	// refused says why there are no bytes.
	refused string
}

// maxForms bounds the forms that are kept, in bytes.
const maxForms = 64 << 20

// formCost is the memory of a form beside its bytes, about.
const formCost = 512

// forms caches the forms of configs, so that a config is converted once for a version
// and not for every machine that asks for it. The key has the config's hash, which
// changes with its bytes.
type forms struct {
	converting singleflight.Group

	mu     sync.Mutex
	cached map[formKey]*Form
	// order has the keys of cached, the oldest first.
	order []formKey
	// size is the memory of the forms, and limit its bound.
	size, limit int
}

type formKey struct {
	hash, version string
}

func newForms() *forms { return &forms{cached: map[formKey]*Form{}, limit: maxForms} }

// of returns a config in a version. Many who ask at once wait for one conversion.
func (f *forms) of(config *snapshot.Config, version string) *Form {
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
	return f.cached[key]
}

// put adds a form, and removes the oldest ones until the rest is within the bound.
func (f *forms) put(key formKey, form *Form) {
	key.hash = strings.Clone(key.hash) // which may be a part of the config's bytes
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cached[key] = form
	f.order = append(f.order, key)
	for f.size += form.cost(); f.size > f.limit && len(f.order) > 1; {
		f.size -= f.cached[f.order[0]].cost()
		delete(f.cached, f.order[0])
		f.order = f.order[1:]
	}
}

func (f *Form) cost() int { return len(f.Bytes) + len(f.refused) + formCost }

func convert(artifact []byte, version string) (form *Form) {
	// The libraries that hold a form against its spec are other people's code: a
	// fault in them is one of this form, not of the server.
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
		form.refused = reasons(losses)
	default:
		sum := sha256.Sum256(out)
		form.Hash = "sha256:" + hex.EncodeToString(sum[:])
		form.ETag = `"` + form.Hash + `"`
	}
	return form
}

// maxReasons bounds the fields that a client is told of.
const maxReasons = 5

func reasons(losses []ignition.Loss) string {
	var b strings.Builder
	for i, l := range losses {
		if i == maxReasons {
			b.WriteString("; and more")
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(l.String())
	}
	return b.String()
}

// form chooses the version that the client is given: the config as it is, where the
// client accepts that, else the first accepted version that it can be converted to.
func (q *configQuestion) form(accept ignition.Accept) *fault.Error {
	config, req := q.dec.Config, q.req
	asIs := req.Claims.Spec == "" && !ignition.Misleads(req.UserAgent)
	if asIs && accept.IsTaken(config.IgnitionVersion) {
		return nil
	}
	wanted, reason := ignition.Negotiate(accept, req.UserAgent, req.Claims.Spec, config.IgnitionVersion)
	for i, version := range wanted {
		if version == config.IgnitionVersion {
			return nil
		}
		form := q.forms.of(config, version)
		if form.Bytes != nil {
			q.dec.Form = form
			return nil
		}
		if i == 0 {
			reason = "the client takes spec " + strings.Join(wanted, " or ") + ", the config is of spec " +
				config.IgnitionVersion + ", and in the way of " + version + " stands " + form.refused
		}
	}
	return fault.New(fault.NotAcceptable, "config "+config.Ref.String()+" cannot be given: "+reason)
}
