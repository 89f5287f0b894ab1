package console

import (
	"net/http"
	"strconv"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/image"
)

// maxTransfers bounds the transfers whose rate is known.
const maxTransfers = 1000

// transfer is a download or an upload under way.
type transfer struct {
	What            string // "download" or "upload"
	Received, Total int64
	// Rate is in bytes a second, and Left the time that the rest takes at it; 0: not known yet. Still is how long
	// nothing has arrived; 0: something does.
	Rate        int64
	Left, Still time.Duration
}

// Percent is the share that has arrived; -1: the size is not known.
func (t *transfer) Percent() int {
	if t.Total <= 0 {
		return -1
	}
	return int(100 * t.Received / t.Total)
}

// progress is the progress of a transfer as pages have seen it.
type progress struct {
	begun     int64 // bytes at the first look, or after it began again
	begunAt   time.Time
	last      int64
	changedAt time.Time
}

// transferOf returns the transfer of an image; nil: none is under way.
func transferOf(p *page, of *v1.ISCSICdrom) *transfer {
	var found transfer
	switch d := of.Status.Download; {
	case d != nil:
		found = transfer{What: "download", Received: d.Received, Total: d.Total}
	case of.Status.Phase == v1.PhaseUploading && of.Spec.URL == "" && of.Spec.Stream == nil:
		header, err := p.server.opts.Client.Do(p.ctx, isoRequest(http.MethodHead, of.Namespace, of.Name), nil)
		if err != nil {
			return nil // the user may not upload, and so not see the progress of an upload
		}
		found = transfer{What: "upload"}
		found.Received, _ = strconv.ParseInt(header.Get(image.HeaderOffset), 10, 64) // an absent one is 0
		found.Total, _ = strconv.ParseInt(header.Get(image.HeaderLength), 10, 64)
	default:
		return nil
	}
	p.server.measure(&found, string(of.UID)+" "+found.What, p.now)
	return &found
}

// measure adds the rate of a transfer since the first page looked.
func (s *Server) measure(t *transfer, key string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.transfers.Of(key)
	if seen.begunAt.IsZero() || t.Received < seen.last || now.Sub(seen.changedAt) > time.Minute {
		*seen = progress{begun: t.Received, begunAt: now, last: t.Received, changedAt: now}
	}
	if t.Received > seen.last {
		seen.last, seen.changedAt = t.Received, now
	}
	if took := seen.changedAt.Sub(seen.begunAt); took >= time.Second {
		t.Rate = int64(float64(seen.last-seen.begun) / took.Seconds())
	}
	if still := now.Sub(seen.changedAt); still > 20*time.Second { // progress is written every five
		t.Still = still
		return
	}
	if t.Rate > 0 && t.Total > 0 {
		t.Left = time.Duration(float64(t.Total-t.Received) / float64(t.Rate) * float64(time.Second))
	}
}

// isoRequest is a request for the file of an image.
func isoRequest(method, namespace, name string) *client.Request {
	return &client.Request{
		Method: method, Resource: kinds.ISCSICdroms, Namespace: namespace, Name: name, Subresource: "iso",
	}
}
