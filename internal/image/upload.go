package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/image/download"
)

// Headers of the answers to an upload.
const (
	// HeaderOffset is how many bytes of an unfinished upload there are.
	HeaderOffset = "Upload-Offset"
	// HeaderLength is how many there will be, where that is known.
	HeaderLength = "Upload-Length"
	// HeaderDigest is the SHA-256 of those that there are, in hex: a client that
	// goes on compares it with the beginning of its own file.
	HeaderDigest = "X-Glowplug-Partial-Sha256"
)

// upload is an upload under way.
type upload struct {
	image  *image
	ctx    context.Context
	cancel context.CancelCauseFunc
	end    func()
	done   chan struct{} // closed by end
	// last is when the last byte came, in nanoseconds since 1970.
	last atomic.Int64
}

var (
	errTakenOver = errors.New("another upload of this image has taken over")
	errStopping  = errors.New("the server is stopping")
)

// Upload serves PUT and HEAD of
// /api/v1/namespaces/{namespace}/iscsicdroms/{name}/iso to callers who may use
// the API. The body of a PUT is the image, or with Content-Range, or an offset
// in the query, what is missing of it: a HEAD tells from where. sha256 in the
// query is the digest that the whole has to have. An error is a Status object.
func (l *Library) Upload() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		var err error
		switch r.Method {
		case http.MethodHead:
			err = l.progress(w, r)
		case http.MethodPut:
			err = l.receive(w, r)
		default:
			w.Header().Set("Allow", "HEAD, PUT")
			err = apierrors.NewMethodNotSupported(v1.Resource("iscsicdroms/iso"), strings.ToLower(r.Method))
		}
		if err != nil {
			refuse(w, r, err)
		}
	})
}

// uploadable gives the CD-ROM of a request, if it takes uploads.
func (l *Library) uploadable(r *http.Request) (*v1.ISCSICdrom, error) {
	var ref Ref
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) != 7 || parts[2] != "namespaces" || parts[4] != "iscsicdroms" || parts[6] != "iso" {
		return nil, apierrors.NewNotFound(v1.Resource("iscsicdroms"), r.URL.Path)
	}
	ref = Ref{Namespace: parts[3], Name: parts[5]}
	cdrom, err := l.get(r.Context(), ref)
	if err != nil {
		return nil, err
	}
	if l.root == nil {
		return nil, apierrors.NewConflict(v1.Resource("iscsicdroms"), ref.Name, errors.New("this server has no ISO directory: start it with --iso-dir"))
	}
	return cdrom, takesUploads(cdrom)
}

func (l *Library) get(ctx context.Context, ref Ref) (*v1.ISCSICdrom, error) {
	cdrom := &v1.ISCSICdrom{}
	err := l.opts.Store.Get(ctx, storeKey(ref), storage.GetOptions{}, cdrom)
	if storage.IsNotFound(err) {
		return nil, apierrors.NewNotFound(v1.Resource("iscsicdroms"), ref.Name)
	}
	return cdrom, err
}

func takesUploads(cdrom *v1.ISCSICdrom) error {
	var field string
	switch {
	case cdrom.Spec.ISOFile != "":
		field = "isoFile"
	case cdrom.Spec.URL != "":
		field = "url"
	case cdrom.Spec.Stream != nil:
		field = "stream"
	case cdrom.Spec.External != nil:
		field = "external"
	default:
		return nil
	}
	return apierrors.NewConflict(v1.Resource("iscsicdroms"), cdrom.Name,
		fmt.Errorf("the image comes from spec.%s: without that field it can be uploaded", field))
}

// progress answers HEAD: how much there is of an unfinished upload, and as the
// ETag the digest of the image that is there.
func (l *Library) progress(w http.ResponseWriter, r *http.Request) error {
	cdrom, err := l.uploadable(r)
	if err != nil {
		return err
	}
	l.mu.Lock()
	if im := l.shelf[refOf(cdrom)]; im != nil && im.current != nil {
		w.Header().Set("ETag", `"`+im.current.sha256+`"`)
	}
	l.mu.Unlock()
	state, err := download.ReadState(l.root, ownFolder(cdrom), partName, originUpload)
	if err != nil {
		state = download.State{Total: -1}
	} else {
		w.Header().Set(HeaderDigest, state.Partial())
	}
	tell(w, &state)
	w.WriteHeader(http.StatusOK)
	return nil
}

func tell(w http.ResponseWriter, state *download.State) {
	w.Header().Set(HeaderOffset, strconv.FormatInt(state.Offset, 10))
	if state.Total >= 0 {
		w.Header().Set(HeaderLength, strconv.FormatInt(state.Total, 10))
	}
}

// receive answers PUT.
func (l *Library) receive(w http.ResponseWriter, r *http.Request) error {
	cdrom, err := l.uploadable(r)
	if err != nil {
		return err
	}
	e, err := extentOf(r)
	if err != nil {
		return err
	}
	if l.ctx.Err() != nil {
		return l.transferError(nil, errStopping)
	}
	select {
	case l.uploads <- struct{}{}:
		defer func() { <-l.uploads }()
	default:
		return apierrors.NewTooManyRequests(fmt.Sprintf("%d uploads are under way already", maxUploads), 10)
	}
	up, err := l.begin(r.Context(), cdrom)
	if err != nil {
		return err
	}
	defer up.end()
	p, err := l.folder().OpenPart(ownFolder(cdrom), partName, originUpload, l.pace.save)
	if err != nil {
		return l.transferError(nil, err)
	}
	defer p.Close()
	if err := l.position(w, p, e); err != nil {
		return err
	}
	l.queue.Add(up.image.ref) // Uploading
	err = l.stream(up, w, r, p)
	l.metrics.received.WithLabelValues(byUpload).Add(float64(p.State.Offset - e.offset))
	if err != nil {
		return l.transferError(p, err)
	}
	if p.State.Total < 0 {
		p.State.Total = p.State.Offset
	}
	if !p.Whole() {
		if err := p.Save(); err != nil {
			return l.transferError(p, err)
		}
		l.metrics.transfers.WithLabelValues(byUpload, resultCut).Inc()
		tell(w, &p.State)
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	if err := l.arrive(up.image, cdrom, p, r.URL.Query().Get("sha256"), nil, takesUploads); err != nil {
		return l.transferError(p, err)
	}
	l.metrics.transfers.WithLabelValues(byUpload, resultDone).Inc()
	return l.show(w, r, up.image.ref)
}

// begin makes a request the one that writes into the unfinished file, until
// end. Another that is alive is not disturbed; one that is not, is ended.
func (l *Library) begin(ctx context.Context, cdrom *v1.ISCSICdrom) (*upload, error) {
	up := &upload{done: make(chan struct{})}
	up.ctx, up.cancel = context.WithCancelCause(ctx)
	up.last.Store(l.opts.Now().UnixNano())
	stop := context.AfterFunc(l.ctx, func() { up.cancel(errStopping) })
	l.mu.Lock()
	im := l.image(refOf(cdrom))
	up.image = im
	if other := im.upload; other != nil {
		if since := l.opts.Now().Sub(time.Unix(0, other.last.Load())); since < l.pace.busy {
			l.mu.Unlock()
			stop()
			up.cancel(nil)
			err := apierrors.NewConflict(v1.Resource("iscsicdroms"), cdrom.Name, errors.New("another upload of this image is under way"))
			// It may be the same client's, whose end has not been noticed yet.
			err.ErrStatus.Details.RetryAfterSeconds = int32(max(1, l.pace.busy/time.Second))
			return nil, err
		}
		other.cancel(errTakenOver)
	}
	im.upload = up
	l.mu.Unlock()
	leave := func() {
		stop()
		up.cancel(nil)
		l.mu.Lock()
		if im.upload == up {
			im.upload = nil
		}
		l.mu.Unlock()
		close(up.done)
		l.queue.Add(im.ref)
	}
	select {
	case im.incoming <- struct{}{}:
		up.end = func() { <-im.incoming; leave() }
		return up, nil
	case <-up.ctx.Done():
		err := cause(up.ctx, nil)
		leave()
		return nil, l.transferError(nil, err)
	}
}

// position makes the part go on where the body begins, and looks whether there
// is room for the rest.
func (l *Library) position(w http.ResponseWriter, p *download.Part, e extent) error {
	switch {
	case e.offset == 0:
		if err := p.Restart(originUpload); err != nil {
			return l.transferError(nil, err)
		}
	case e.offset != p.State.Offset:
		tell(w, &p.State)
		return statusError(http.StatusConflict, metav1.StatusReasonConflict,
			"the upload has to go on at %d, not at %d", p.State.Offset, e.offset)
	case e.total >= 0 && p.State.Total >= 0 && e.total != p.State.Total:
		tell(w, &p.State)
		return statusError(http.StatusConflict, metav1.StatusReasonConflict,
			"the unfinished upload is of %d bytes, this one of %d: begin at 0", p.State.Total, e.total)
	}
	if e.total >= 0 {
		p.State.Total = e.total
	}
	if err := l.room(p); err != nil {
		return l.transferError(nil, err)
	}
	return nil
}

// show answers with the CD-ROM as it is now.
func (l *Library) show(w http.ResponseWriter, r *http.Request, ref Ref) error {
	cdrom, err := l.get(r.Context(), ref)
	if err != nil {
		return err
	}
	cdrom.TypeMeta = metav1.TypeMeta{Kind: "ISCSICdrom", APIVersion: v1.SchemeGroupVersion.String()}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_ = json.NewEncoder(w).Encode(cdrom) // the client may have gone away
	return nil
}

// errCut is a body that ended too early, or stood still for too long.
var errCut = errors.New("the upload was cut off")

// stream reads the body into the part.
func (l *Library) stream(up *upload, w http.ResponseWriter, r *http.Request, p *download.Part) error {
	ctx, control := up.ctx, http.NewResponseController(w)
	// Reading ends with the context: the deadline passes.
	stop := context.AfterFunc(ctx, func() { _ = control.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, copyBuffer)
	for {
		_ = control.SetReadDeadline(time.Now().Add(l.pace.idle))
		if ctx.Err() != nil {
			return cause(ctx, ctx.Err())
		}
		n, err := r.Body.Read(buf)
		if n > 0 {
			up.last.Store(l.opts.Now().UnixNano())
			if _, err := p.Write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			_ = control.SetReadDeadline(time.Time{})
			return nil
		}
		if err != nil {
			return cause(ctx, fmt.Errorf("%w: %v", errCut, err))
		}
	}
}

// cause is why a context has ended, else err.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil && !errors.Is(c, context.Canceled) {
		return c
	}
	if ctx.Err() != nil {
		return errCut // the client has gone
	}
	return err
}
