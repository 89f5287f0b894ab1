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
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "glowplug/api/v1"
	"glowplug/internal/image"
	"glowplug/internal/image/download"
)

// Uploads are the uploads under way, one of a CD-ROM at most. It is the handler of their
// requests.
type Uploads struct {
	c *Controller
	// slots bound the uploads at the same time.
	slots chan struct{}

	mu  sync.Mutex
	all map[Ref]*upload
	// pieces is when the last piece of an upload was complete: the next one is about to come.
	pieces map[Ref]time.Time
	closed bool
}

func newUploads(c *Controller) *Uploads {
	return &Uploads{
		c: c, slots: make(chan struct{}, maxUploads), all: map[Ref]*upload{}, pieces: map[Ref]time.Time{},
	}
}

// close ends all uploads, and waits until they have saved their state, but not for ever.
func (u *Uploads) close() {
	u.mu.Lock()
	u.closed = true
	for _, up := range u.all {
		up.cancel(errStopping)
	}
	u.mu.Unlock()
	timeout := time.After(closeTimeout)
	for range maxUploads {
		select {
		case u.slots <- struct{}{}:
		case <-timeout:
			return
		}
	}
}

// active reports whether an image is being uploaded.
func (u *Uploads) active(ref Ref) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.all[ref] != nil
}

// awaited is how long the next piece of an upload is waited for; 0: none is.
func (u *Uploads) awaited(ref Ref) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	left := u.c.pace.busy - u.c.opts.Now().Sub(u.pieces[ref])
	if left <= 0 {
		delete(u.pieces, ref)
		return 0
	}
	return left
}

// endPiece notes that a piece of an upload is complete.
func (u *Uploads) endPiece(ref Ref) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pieces[ref] = u.c.opts.Now()
}

// cancel ends the upload of an object that was deleted. It has ended with the channel.
func (u *Uploads) cancel(ref Ref, uid types.UID) []<-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.pieces, ref)
	up := u.all[ref]
	if up == nil || up.uid != uid {
		return nil
	}
	up.cancel(errDeleted)
	return []<-chan struct{}{up.done}
}

// upload is an upload under way.
type upload struct {
	state  *state
	uid    types.UID
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

// ServeHTTP serves PUT and HEAD of
// /api/v1/namespaces/{namespace}/iscsicdroms/{name}/iso to callers who may use
// the API. The body of a PUT is the image, or with Content-Range, or an offset
// in the query, the rest of it: HEAD returns the offset. sha256 in the
// query is the digest that the whole has to have, and upload an id of the client's choice: a piece
// that follows those of another id is refused. An error is a Status object.
func (u *Uploads) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	var err error
	switch r.Method {
	case http.MethodHead:
		err = u.progress(w, r)
	case http.MethodPut:
		err = u.receive(w, r)
	default:
		w.Header().Set("Allow", "HEAD, PUT")
		err = apierrors.NewMethodNotSupported(v1.Resource("iscsicdroms/iso"), strings.ToLower(r.Method))
	}
	if err != nil {
		refuse(w, r, err)
	}
}

// uploadable returns the CD-ROM of a request, if it takes uploads.
func (u *Uploads) uploadable(r *http.Request) (*v1.ISCSICdrom, error) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) != 7 || parts[2] != "namespaces" || parts[4] != "iscsicdroms" || parts[6] != "iso" {
		return nil, apierrors.NewNotFound(v1.Resource("iscsicdroms"), r.URL.Path)
	}
	ref := Ref{Namespace: parts[3], Name: parts[5]}
	cdrom, err := u.c.get(r.Context(), ref)
	if err != nil {
		return nil, err
	}
	if u.c.folder.root == nil {
		return nil, apierrors.NewConflict(v1.Resource("iscsicdroms"), ref.Name, errNoDirectory)
	}
	return cdrom, takesUploads(cdrom)
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
func (u *Uploads) progress(w http.ResponseWriter, r *http.Request) error {
	cdrom, err := u.uploadable(r)
	if err != nil {
		return err
	}
	if current := u.c.images.Current(image.RefOf(cdrom)).Volume; current != nil {
		w.Header().Set("ETag", `"`+current.SHA256+`"`)
	}
	state, err := u.c.folder.uploaded(cdrom)
	if err != nil {
		state = download.State{Total: -1}
	} else {
		w.Header().Set(image.HeaderDigest, state.Partial())
	}
	setProgressHeaders(w, &state)
	w.WriteHeader(http.StatusOK)
	return nil
}

func setProgressHeaders(w http.ResponseWriter, state *download.State) {
	w.Header().Set(image.HeaderOffset, strconv.FormatInt(state.Offset, 10))
	if state.Total >= 0 {
		w.Header().Set(image.HeaderLength, strconv.FormatInt(state.Total, 10))
	}
}

// receive answers PUT.
func (u *Uploads) receive(w http.ResponseWriter, r *http.Request) error {
	cdrom, err := u.uploadable(r)
	if err != nil {
		return err
	}
	e, err := extentOf(r)
	if err != nil {
		return err
	}
	select {
	case u.slots <- struct{}{}:
		defer func() { <-u.slots }()
	default:
		return apierrors.NewTooManyRequests(fmt.Sprintf("%d uploads are under way already", maxUploads), 10)
	}
	ctx, up, err := u.begin(r.Context(), cdrom)
	if err != nil {
		return err
	}
	defer up.end()
	p, err := u.c.folder.upload(cdrom)
	if err != nil {
		return u.transferError(nil, err)
	}
	defer p.Close()
	if err := u.position(w, p, e); err != nil {
		return err
	}
	u.c.runtime.Enqueue(up.state.ref) // Uploading
	err = u.stream(ctx, up, w, r, p)
	u.c.metrics.received.WithLabelValues(byUpload).Add(float64(p.State.Offset - e.offset))
	if err != nil {
		return u.transferError(p, err)
	}
	if p.State.Total < 0 {
		p.State.Total = p.State.Offset
	}
	if !p.Whole() {
		if err := p.Save(); err != nil {
			return u.transferError(p, err)
		}
		u.c.metrics.transfers.WithLabelValues(byUpload, resultCut).Inc()
		u.endPiece(up.state.ref)
		setProgressHeaders(w, &p.State)
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	want := r.URL.Query().Get("sha256")
	if err := u.c.install(ctx, up.state, cdrom, p, want, nil, takesUploads); err != nil {
		return u.transferError(p, err)
	}
	u.c.awaitPut(ctx, cdrom)
	if _, err := u.c.Reconcile(ctx, up.state.ref); err != nil {
		u.c.runtime.Enqueue(up.state.ref)
	}
	u.c.metrics.transfers.WithLabelValues(byUpload, resultDone).Inc()
	return u.show(w, r, up.state.ref)
}

// begin makes a request the one that writes into the unfinished file, until
// end; its context ends with the upload. Another that is alive is not disturbed; one that
// is not, is ended.
func (u *Uploads) begin(ctx context.Context, cdrom *v1.ISCSICdrom) (context.Context, *upload, error) {
	ref := image.RefOf(cdrom)
	st := u.c.state(ref)
	ctx, cancel := context.WithCancelCause(ctx)
	up := &upload{state: st, uid: cdrom.UID, cancel: cancel, done: make(chan struct{})}
	up.last.Store(u.c.opts.Now().UnixNano())
	if err := u.register(ref, up); err != nil {
		cancel(nil)
		return nil, nil, err
	}
	leave := func() {
		cancel(nil)
		u.mu.Lock()
		if u.all[ref] == up {
			delete(u.all, ref)
		}
		u.mu.Unlock()
		close(up.done)
		u.c.runtime.Enqueue(ref)
	}
	select {
	case st.incoming <- struct{}{}:
		up.end = func() { <-st.incoming; leave() }
		return ctx, up, nil
	case <-ctx.Done():
		err := cause(ctx, nil)
		leave()
		return nil, nil, u.transferError(nil, err)
	}
}

// register makes an upload the one of its CD-ROM, unless another is alive.
func (u *Uploads) register(ref Ref, up *upload) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return apierrors.NewServiceUnavailable(errStopping.Error())
	}
	if other := u.all[ref]; other != nil {
		if since := u.c.opts.Now().Sub(time.Unix(0, other.last.Load())); since < u.c.pace.busy {
			busy := errors.New("another upload of this image is under way")
			err := apierrors.NewConflict(v1.Resource("iscsicdroms"), ref.Name, busy)
			// It may be the same client's, whose end has not been noticed yet.
			err.ErrStatus.Details.RetryAfterSeconds = int32(max(1, u.c.pace.busy/time.Second))
			return err
		}
		other.cancel(errTakenOver)
	}
	u.all[ref] = up
	delete(u.pieces, ref)
	return nil
}

// position makes the part go on where the body begins, and looks whether there
// is room for the rest.
func (u *Uploads) position(w http.ResponseWriter, p *download.Part, e extent) error {
	switch {
	case e.offset == 0:
		if err := p.Restart(); err != nil {
			return u.transferError(nil, err)
		}
	case e.upload != "" && e.upload != p.State.Validator:
		return statusError(http.StatusConflict, metav1.StatusReasonConflict,
			"another upload of this image has begun meanwhile: begin at 0")
	case e.offset != p.State.Offset:
		setProgressHeaders(w, &p.State)
		return statusError(http.StatusConflict, metav1.StatusReasonConflict,
			"the upload has to go on at %d, not at %d", p.State.Offset, e.offset)
	case e.total >= 0 && p.State.Total >= 0 && e.total != p.State.Total:
		setProgressHeaders(w, &p.State)
		return statusError(http.StatusConflict, metav1.StatusReasonConflict,
			"the unfinished upload is of %d bytes, this one of %d: begin at 0", p.State.Total, e.total)
	}
	p.State.Validator = e.upload
	if e.total >= 0 {
		p.State.Total = e.total
	}
	if err := u.c.folder.checkRoom(p); err != nil {
		return u.transferError(nil, err)
	}
	return nil
}

// show answers with the CD-ROM as it is now.
func (u *Uploads) show(w http.ResponseWriter, r *http.Request, ref Ref) error {
	cdrom, err := u.c.get(r.Context(), ref)
	if err != nil {
		return err
	}
	cdrom.TypeMeta = metav1.TypeMeta{Kind: "ISCSICdrom", APIVersion: v1.SchemeGroupVersion.String()}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_ = json.NewEncoder(w).Encode(cdrom) // the client may have gone away
	return nil
}

// copyBuffer is how much of a body is read at once.
const copyBuffer = 1 << 20

// errCut is a body that ended too early, or stood still for too long.
var errCut = errors.New("the upload was cut off")

// stream reads the body into the part.
func (u *Uploads) stream(
	ctx context.Context, up *upload, w http.ResponseWriter, r *http.Request, p *download.Part,
) error {
	control := http.NewResponseController(w)
	// Reading ends with the context: the deadline passes.
	stop := context.AfterFunc(ctx, func() { _ = control.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, copyBuffer)
	for {
		_ = control.SetReadDeadline(time.Now().Add(u.c.pace.idle))
		if ctx.Err() != nil {
			return cause(ctx, ctx.Err())
		}
		n, err := r.Body.Read(buf)
		if n > 0 {
			up.last.Store(u.c.opts.Now().UnixNano())
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
