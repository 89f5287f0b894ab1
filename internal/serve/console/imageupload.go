package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"glowplug/internal/client"
	"glowplug/internal/image"
)

// maxLeftover bounds what is read of a body after its refusal, in bytes: a browser over HTTP/1 reads no answer before
// it has sent all.
const maxLeftover = 64 << 20

var errCut = errors.New("the upload was cut off: the connection broke, or your session has ended")

// iso passes a piece of an upload (PUT), or the question how much there is (HEAD), on to the API as the user.
func (s *Server) iso(w http.ResponseWriter, r *http.Request, p *page) {
	request := isoRequest(r.Method, r.PathValue("ns"), r.PathValue("name"))
	var answer []byte
	var header http.Header
	var err error
	if r.Method == http.MethodHead {
		header, err = s.opts.Client.Do(p.ctx, request, nil)
	} else {
		request.Query = r.URL.Query() // sha256, and the id of the upload
		request.Upload, request.Length = r.Body, r.ContentLength
		if value := r.Header.Get("Content-Range"); value != "" {
			request.Header = map[string]string{"Content-Range": value}
		}
		header, err = p.upload(w, request, &answer)
	}
	for _, name := range []string{"ETag", "Retry-After", image.HeaderOffset, image.HeaderLength} {
		if value := header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	switch {
	case err != nil:
		http.Error(w, sentence(err), cmp.Or(client.Code(err), http.StatusServiceUnavailable))
	case r.Method == http.MethodPut && len(answer) == 0:
		w.WriteHeader(http.StatusAccepted)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer) // the browser may have gone away
	}
}

// isoForm takes an upload from a form without scripts.
func (s *Server) isoForm(w http.ResponseWriter, r *http.Request, p *page) {
	p.Section = "images"
	request := isoRequest(http.MethodPut, r.PathValue("ns"), r.PathValue("name"))
	if err := p.uploadForm(w, request); err != nil {
		p.fail(w, "Upload of "+request.Namespace+"/"+request.Name, err)
		return
	}
	http.Redirect(w, r, objectURL("images", request.Namespace, request.Name), http.StatusSeeOther)
}

// uploadForm sends the file of a form, and the digest that stands before it.
func (p *page) uploadForm(w http.ResponseWriter, request *client.Request) error {
	parts, err := p.request.MultipartReader()
	if err != nil {
		return err
	}
	for {
		part, err := parts.NextPart()
		if err != nil {
			return fmt.Errorf("choose an ISO file: the form has none (%w)", err)
		}
		if part.FormName() == "iso" {
			request.Upload, request.Length = part, -1
			_, err = p.upload(w, request, nil)
			return err
		}
		sum, err := io.ReadAll(io.LimitReader(part, maxForm))
		if err != nil {
			return err
		}
		request.Query = url.Values{"sha256": {string(sum)}}
	}
}

// upload sends a request with the body of the user's own, until he is not signed in any more. The rest of a body that
// is refused is read before the answer.
func (p *page) upload(w http.ResponseWriter, request *client.Request, out any) (http.Header, error) {
	ctx, end := context.WithCancel(p.ctx)
	defer end()
	defer p.whileSignedIn(end)()
	body := &lentBody{Reader: request.Upload, control: http.NewResponseController(w)}
	defer body.takeBack()
	request.Upload = body
	header, err := p.server.opts.Client.Do(ctx, request, out)
	switch {
	case err != nil && ctx.Err() != nil:
		_ = body.SetReadDeadline(time.Unix(1, 0)) // ends a read that waits; the writer of a test has no deadlines
		err = errCut
	case err != nil && p.request.ProtoMajor == 1:
		_, _ = io.CopyN(io.Discard, p.request.Body, maxLeftover) // its end is an error, too
	}
	return header, err
}

// lentBody is the body of a request while the API has it. The API may go on with it after it has answered: net/http
// refuses to read then, but breaks where a deadline is set.
type lentBody struct {
	io.Reader

	mu      sync.Mutex
	control *http.ResponseController // nil once it is taken back
}

// Close implements io.Closer. The body is not the API's to close.
func (b *lentBody) Close() error { return nil }

// SetReadDeadline bounds the wait for the next part of the body.
func (b *lentBody) SetReadDeadline(t time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.control == nil {
		return http.ErrNotSupported
	}
	return b.control.SetReadDeadline(t)
}

func (b *lentBody) takeBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.control = nil
}
