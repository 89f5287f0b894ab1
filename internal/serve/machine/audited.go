package machine

import (
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"glowplug/internal/audit"
	"glowplug/internal/domain/boottoken"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/match"
)

// auditor records answers.
type auditor struct {
	record func(r *http.Request, a audit.Answer, believed bool)
	reads  reads
}

// answered records an answer.
func (o *auditor) answered(w *response, r *http.Request, req *request, res *result) {
	image := strings.HasPrefix(r.URL.Path, PathISO)
	if image && w.status < http.StatusBadRequest && !o.reads.begins(req.At, read{req.Caller.Addr, r.URL.Path}) {
		return
	}
	a := audit.Answer{ // a value, so that a boot allocates nothing for it
		At: req.At, Verb: verbOf(r.Method), Path: boottoken.Hide(r.URL.Path), Query: r.URL.RawQuery,
		Agent: r.Header.Get("User-Agent"), From: req.Caller.Addr, Status: w.status, Object: servedObject(res),
		FoundBy: res.FoundBy,
	}
	if res.Host != nil {
		a.Host = audit.Name(res.Host.Ref)
	}
	if res.Tier != match.None {
		a.MatchedBy = res.Tier.String()
	}
	a.Pointer = res.boots == pointer
	if res.Config != nil && res.Err == nil { // the ETag of a config is the digest of the answer
		a.Hash = strings.Trim(w.Header().Get("Etag"), `"`)
	}
	switch {
	case res.Err != nil:
		a.Failure = res.Err.Sentence
	case w.broken != nil:
		a.Failure = "the answer was not sent to its end"
	}
	o.record(r, a, req.Caller.Believed)
}

// verbOf returns the verb of a method.
func verbOf(method string) string {
	switch method {
	case http.MethodGet:
		return "get"
	case http.MethodHead:
		return "head"
	case http.MethodPost:
		return "post"
	}
	return strings.ToLower(method)
}

// servedObject returns the config or the image of an answer; the zero value: there is none.
func servedObject(res *result) audit.Object {
	if c := res.Config; c != nil {
		return audit.Object{
			Resource: kinds.IgnitionConfigs, Namespace: c.Ref.Namespace, Name: c.Ref.Name, Revision: c.Revision,
		}
	}
	if image, ok := strings.CutPrefix(res.boots, "image "); ok {
		namespace, name, _ := strings.Cut(image, "/")
		return audit.Object{Resource: kinds.ISCSICdroms, Namespace: namespace, Name: name}
	}
	return audit.Object{}
}

// An image is read in thousands of requests, of which the audit has the first. It has the next
// after a time without any, or after requests for so many other images.
const (
	readPause = 10 * time.Minute
	maxReads  = 1 << 14
)

// read is who reads which image.
type read struct {
	from netip.Addr
	path string
}

// reads are the latest requests for images. No request can begin in the middle of an image
// unseen, as it could if only the first range were recorded.
type reads struct {
	mu   *sync.Mutex
	last *simplelru.LRU[read, time.Time]
}

func newReads() reads {
	last, _ := simplelru.NewLRU[read, time.Time](maxReads, nil) // the error is that of a size below 1
	return reads{&sync.Mutex{}, last}
}

// begins reports whether a request for an image is the first, and notes it.
func (r reads) begins(now time.Time, which read) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.last.Get(which)
	r.last.Add(which, now)
	return !known || now.Sub(last) > readPause
}
