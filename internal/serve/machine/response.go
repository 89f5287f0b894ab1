package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"strings"

	"glowplug/internal/domain/fault"
)

// Header values are assigned as slices that are made once: nobody changes them.
var (
	ignitionType = []string{"application/vnd.coreos.ignition+json"}
	textType     = []string{"text/plain; charset=utf-8"}
	noStore      = []string{"no-store"}
	noSniff      = []string{"nosniff"}
	varyAccept   = []string{"Accept, User-Agent"}
	isStale      = []string{"true"}
	allowed      = []string{"GET, HEAD"}
	postAllowed  = []string{"POST"}
	// retryAfter is in seconds. Ignition has a rhythm of its own.
	retryAfter = []string{"5"}
)

// answer writes the config that was decided on. It sets every header itself: a
// client that boots follows no redirect and decodes no encoding.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, x *exchange) {
	config := x.decision.Config
	size := 0
	var body []byte
	if config != nil {
		body = config.Artifact
		if x.decision.Form != nil {
			body = x.decision.Form.Bytes
		}
		if size = len(body); x.request.Claims.Raw {
			size = len(config.Source)
		}
	}
	if size == 0 { // an empty 200 would be a success with an empty config
		fail(w, r, x, fault.New(fault.Unavailable, "there is no compiled config for this machine yet; ask again in a moment"))
		return
	}
	h, prepared := w.Header(), s.headers.of(config)
	etag, length := prepared.etag, prepared.length
	if form := x.decision.Form; form != nil {
		etag, length = []string{form.ETag}, []string{strconv.Itoa(size)}
	}
	if x.request.Claims.Raw {
		sum := sha256.Sum256([]byte(config.Source))
		etag = []string{`"sha256:` + hex.EncodeToString(sum[:]) + `"`}
		length = []string{strconv.Itoa(size)}
	} else if config.Stale {
		h["X-Glowplug-Stale"] = isStale
	}
	h["Etag"] = etag
	h["Cache-Control"] = noStore
	h["Vary"] = varyAccept
	h["X-Glowplug-Config"] = prepared.config
	h["X-Glowplug-Match"] = tierValue(x.decision.Tier)
	if conditions := r.Header["If-None-Match"]; len(conditions) > 0 && matchesAny(conditions, etag[0]) {
		x.status = http.StatusNotModified
		w.WriteHeader(x.status)
		return
	}
	h["Content-Length"] = length
	if config.Type == ignition.String() && !x.request.Claims.Raw {
		h["Content-Type"] = ignitionType
	} else {
		h["Content-Type"] = textType
		h["X-Content-Type-Options"] = noSniff
	}
	x.status = http.StatusOK
	switch {
	case r.Method == http.MethodHead:
		w.WriteHeader(x.status)
	case x.request.Claims.Raw:
		s.send(w, r, x, []byte(config.Source))
	default:
		conn := gather(r)
		conn.hold()
		s.send(w, r, x, body)
		conn.release()
	}
}

// hash is that of the body, where the decision is for one.
func (x *exchange) hash() string {
	if x.decision.Form != nil {
		return x.decision.Form.Hash
	}
	return x.decision.Config.Hash
}

// fail writes why there is no config: one sentence.
func fail(w http.ResponseWriter, r *http.Request, x *exchange, failure *fault.Error) {
	x.failure = failure
	if failure.Kind == fault.Unavailable {
		w.Header()["Retry-After"] = retryAfter
	}
	x.write(w, r.Method, failure.Kind.Status(), failure.Sentence)
}

// refuseMethod answers a method that is none of those allowed.
func refuseMethod(w http.ResponseWriter, x *exchange, methods []string) {
	w.Header()["Allow"] = methods
	sentence := "only GET and HEAD are answered here"
	if x.endpoint == complete {
		sentence = "only POST is answered here"
	}
	x.write(w, "", http.StatusMethodNotAllowed, sentence)
}

// write writes a sentence as the body of an answer.
func (x *exchange) write(w http.ResponseWriter, method string, status int, sentence string) {
	body := oneLine(sentence) + "\n"
	h := w.Header()
	h["Content-Type"] = textType
	h["X-Content-Type-Options"] = noSniff
	h["Cache-Control"] = noStore
	h["Vary"] = varyAccept
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	x.status = status
	w.WriteHeader(status)
	if method != http.MethodHead {
		x.bytes, x.broken = io.WriteString(w, body)
	}
}

// maxSentence bounds what a client is told, in bytes.
const maxSentence = 1024

// oneLine keeps a sentence short and on its line.
func oneLine(s string) string {
	s = clip(s, maxSentence)
	if strings.IndexFunc(s, isControl) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		if isControl(r) {
			return ' '
		}
		return r
	}, s)
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func clip(s string, limit int) string {
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "")
	}
	return s
}
