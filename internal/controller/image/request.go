package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"glowplug/internal/image"
	"glowplug/internal/image/download"
)

// refuse answers with a Status object.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	s := status.Status()
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if s.Details != nil && s.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(s.Details.RetryAfterSeconds)))
	}
	control := http.NewResponseController(w)
	// HTTP/2 ends the stream of a request by itself.
	lingers := r.Method == http.MethodPut && r.ProtoMajor == 1
	if lingers {
		w.Header().Set("Connection", "close")
		_ = control.EnableFullDuplex() // linger reads after the answer
	}
	answer, _ := json.Marshal(&s) // it has no type that fails
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer))) // the client does not wait for the end
	w.WriteHeader(int(s.Code))
	_, _ = w.Write(answer) // the client may have gone away
	if lingers && control.Flush() == nil {
		discard(r.Body)
	}
}

// linger is how long a body that is refused is read on and thrown away: were the
// connection closed at once, a client that is still sending would see that
// instead of the answer (RFC 9112 section 9.6).
const linger = 500 * time.Millisecond

// discard reads a body for the time of linger, and waits no longer for the next part of it
// than the listener does.
func discard(body io.Reader) {
	buf := make([]byte, 32<<10)
	for until := time.Now().Add(linger); time.Now().Before(until); {
		if _, err := body.Read(buf); err != nil {
			return
		}
	}
}

// statusError is an answer that apierrors has no function for.
func statusError(code int, reason metav1.StatusReason, format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: fmt.Sprintf(format, args...),
	}}
}

var errDiskFull = errors.New("the disk of the ISO directory is full")

// transferError is the answer to a transfer that has failed. The bytes that came are kept
// for the next try, unless they are of no use. p may be nil.
func (u *Uploads) transferError(p *download.Part, err error) error {
	var status apierrors.APIStatus
	result := resultCut
	switch {
	case errors.As(err, &status):
	case errors.Is(err, errDiskFull) || u.c.pace.diskFull(err):
		if !errors.Is(err, errDiskFull) {
			err = errDiskFull
		}
		// Others need the room more than an image that does not fit.
		result = resultRefused
		err = statusError(http.StatusInsufficientStorage, metav1.StatusReasonServiceUnavailable, "%v", err)
	case errors.Is(err, image.ErrBadImage):
		result = resultRefused
		err = statusError(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "%v", err)
	case errors.Is(err, download.ErrTooLarge):
		result = resultRefused
		err = apierrors.NewRequestEntityTooLargeError(err.Error())
	case errors.Is(err, download.ErrTooMuch):
		err = apierrors.NewBadRequest(err.Error())
	case errors.Is(err, errStopping):
		err = apierrors.NewServiceUnavailable(err.Error())
	case errors.Is(err, download.ErrBusy) || errors.Is(err, errTakenOver) || errors.Is(err, errDeleted):
		err = statusError(http.StatusConflict, metav1.StatusReasonConflict, "%v", err)
	case errors.Is(err, errCut):
		err = statusError(http.StatusRequestTimeout, metav1.StatusReasonTimeout, "%v", err)
	default:
		u.c.opts.Logger.Error("an upload failed", "error", err)
		err = apierrors.NewInternalError(err)
	}
	if p == nil {
		return err
	}
	if result == resultRefused {
		p.Discard()
	} else {
		u.c.folder.save(p)
	}
	u.c.metrics.transfers.WithLabelValues(byUpload, result).Inc()
	return err
}

// extent is what the body of a request is: the bytes from offset, of total, -1
// where the body says by its end how many there are. upload is the id that the client
// has given to all pieces of its upload, cut to 64 characters since it is stored; "": none.
type extent struct {
	offset, total int64
	upload        string
}

// extentOf reads Content-Range ("bytes 100-199/200"), or offset in the query,
// and Content-Length.
func extentOf(r *http.Request) (extent, error) {
	e := extent{total: -1, upload: fmt.Sprintf("%.64s", r.URL.Query().Get("upload"))}
	bad := func(format string, args ...any) (extent, error) {
		return extent{}, apierrors.NewBadRequest(fmt.Sprintf(format, args...))
	}
	if text := r.Header.Get("Content-Range"); text != "" {
		first, last, total, ok := download.ParseContentRange(text)
		if !ok {
			return bad("Content-Range: want bytes FIRST-LAST/TOTAL, not %q", text)
		}
		if size := last - first + 1; r.ContentLength >= 0 && r.ContentLength != size {
			return bad("Content-Range: %q are %d bytes, the body has %d", text, size, r.ContentLength)
		}
		e.offset, e.total = first, total
	} else {
		if text := r.URL.Query().Get("offset"); text != "" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil || n < 0 {
				return bad("offset: %q is no number of bytes", text)
			}
			e.offset = n
		}
		if r.ContentLength >= 0 {
			e.total = e.offset + r.ContentLength
		}
	}
	if e.total > download.MaxBytes {
		return extent{}, apierrors.NewRequestEntityTooLargeError(download.ErrTooLarge.Error())
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return extent{}, statusError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
			"Content-Encoding: send the image without an encoding")
	}
	return e, nil
}
