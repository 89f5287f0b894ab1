package machine

import (
	"net/http"
	"strconv"
	"strings"

	"glowplug/internal/domain/fault"
)

// response is the writer of an answer. It counts the bytes.
type response struct {
	http.ResponseWriter
	// head is true where no body is written.
	head bool
	// status is 0 until the answer has begun.
	status int
	// bytes of the body were written; broken is why not all of them.
	bytes  int
	broken error
}

// WriteHeader begins the answer.
func (w *response) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the body.
func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += n
	if err != nil {
		w.broken = err
	}
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// write writes a whole answer, whose other headers are set.
func (w *response) write(status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if !w.head {
		_, _ = w.Write(body) // broken has the error
	}
}

// notModified answers 304 if the client has the bytes of an ETag.
func (w *response) notModified(r *http.Request, etag string) bool {
	match := matchesAny(r.Header["If-None-Match"], etag)
	if match {
		w.WriteHeader(http.StatusNotModified)
	}
	return match
}

// The types of content.
const (
	ignitionType = "application/vnd.coreos.ignition+json"
	textType     = "text/plain; charset=utf-8"
	jsonType     = "application/json"
	bytesType    = "application/octet-stream"
)

// retryAfter is in seconds. Ignition does not read it.
const retryAfter = "5"

// fail answers with the sentence of a failure. It returns the result with the failure.
func (w *response) fail(res result, failure *fault.Error) result {
	res.Err = failure
	if failure.Kind == fault.Unavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	w.sentence(failure.Kind.Status(), failure.Sentence)
	return res
}

// TooMany answers a machine whose source sends too many requests.
func TooMany(hw http.ResponseWriter, r *http.Request) {
	w := &response{ResponseWriter: hw, head: r.Method == http.MethodHead}
	w.fail(result{}, fault.New(fault.Unavailable,
		"too many requests a second come from your address; ask again in a moment"))
}

// refuseMethod answers a request whose method is none of these.
func (w *response) refuseMethod(methods []string) {
	w.Header().Set("Allow", strings.Join(methods, ", "))
	verb := " is"
	if len(methods) > 1 {
		verb = " are"
	}
	w.sentence(http.StatusMethodNotAllowed, "only "+strings.Join(methods, " and ")+verb+" answered here")
}

// sentence writes a sentence as the body of an answer.
func (w *response) sentence(status int, sentence string) {
	w.Header().Set("Vary", "Accept, User-Agent")
	w.text(status, oneLine(sentence)+"\n")
}

// text writes a text as the body of an answer.
func (w *response) text(status int, text string) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.write(status, textType, []byte(text))
}

// maxSentence bounds a sentence, in bytes.
const maxSentence = 1024

// oneLine keeps a sentence short and on its line.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, clip(s, maxSentence))
}

func clip(s string, limit int) string {
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "")
	}
	return s
}

// matchesAny reports whether the lines of an If-None-Match header name etag, which
// is in its quotes. Weak tags match (RFC 9110, 13.1.2), and "*" matches all. Of a
// malformed list, the tags before the fault count.
func matchesAny(lines []string, etag string) bool {
	for _, list := range lines {
		for {
			list = strings.TrimLeft(list, " \t,")
			if list == "" {
				break
			}
			if list[0] == '*' {
				return true
			}
			list = strings.TrimPrefix(list, "W/")
			if list == "" || list[0] != '"' {
				break
			}
			end := strings.IndexByte(list[1:], '"')
			if end < 0 {
				break
			}
			if list[:end+2] == etag {
				return true
			}
			list = list[end+2:]
		}
	}
	return false
}
