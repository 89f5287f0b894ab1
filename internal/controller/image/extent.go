package image

import (
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"glowplug/internal/image/download"
)

// extent is what the body of a request is: the bytes from offset, of total, -1
// where the body says by its end how many there are.
type extent struct{ offset, total int64 }

// extentOf reads Content-Range ("bytes 100-199/200"), or offset in the query,
// and Content-Length.
func extentOf(r *http.Request) (extent, error) {
	e := extent{total: -1}
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
		e = extent{first, total}
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
			"Content-Encoding: the image is to be sent as it is")
	}
	return e, nil
}
