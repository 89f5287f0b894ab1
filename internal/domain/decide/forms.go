package decide

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

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

// formCost is what a form takes beside its bytes, about.
const formCost = 512

// forms keeps the forms of configs, so that a config is converted once for a version
// and not for every machine that asks for it. They are kept by the config's hash,
// which changes with its bytes.
type forms struct {
	mu   sync.Mutex
	made map[formKey]*formEntry
	// order has the keys as they came, the oldest first.
	order []formKey
	// size is what they take, and limit what they may.
	size, limit int
}

type formKey struct {
	hash, version string
}

type formEntry struct {
	once sync.Once
	form *Form
}

// of gives a config in a version. Many who ask at once wait for one conversion.
func (f *forms) of(config *snapshot.Config, version string) *Form {
	key := formKey{config.Hash, version}
	f.mu.Lock()
	entry := f.made[key]
	if entry == nil {
		// The key must not keep the config's bytes in memory.
		key.hash = strings.Clone(key.hash)
		entry = &formEntry{}
		if f.made == nil {
			f.made = map[formKey]*formEntry{}
		}
		f.made[key] = entry
		f.order = append(f.order, key)
	}
	f.mu.Unlock()
	entry.once.Do(func() {
		form := convert(config.Artifact, version)
		f.mu.Lock()
		defer f.mu.Unlock()
		entry.form = form
		if f.made[key] == entry {
			f.size += form.cost()
			f.shrink()
		}
	})
	return entry.form
}

// shrink forgets the oldest forms until the rest is within bounds.
func (f *forms) shrink() {
	for f.size > f.limit && len(f.order) > 1 {
		key := f.order[0]
		f.order = f.order[1:]
		if form := f.made[key].form; form != nil {
			f.size -= form.cost()
		}
		delete(f.made, key)
	}
}

func (f *Form) cost() int { return len(f.Bytes) + len(f.refused) + formCost }

func convert(artifact []byte, version string) (form *Form) {
	// The libraries that hold a form against its spec are other people's code: a
	// fault in them is one of this form, not of the server.
	defer func() {
		if failure := recover(); failure != nil {
			form = &Form{Version: version, refused: fmt.Sprintf("a fault of the library, which the config sets off: %.200v", failure)}
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
// client takes that, else the first form that the config has of those it takes.
func (q *question) form(accept ignition.Accept) *fault.Error {
	config, req := q.dec.Config, q.req
	if req.Claims.Spec == "" && !ignition.Misleads(req.UserAgent) {
		if accept.IsTaken(config.IgnitionVersion) {
			return nil
		}
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
