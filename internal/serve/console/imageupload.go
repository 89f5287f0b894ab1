package console

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"glowplug/internal/client"
	"glowplug/internal/image"
)

// maxLeftover bounds what is read of a body after its refusal, in bytes: a browser over HTTP/1 reads no answer before
// it has sent all.
const maxLeftover = 1 << 30

var errCut = errors.New("the upload was cut off: the connection broke, or your session has ended")

// iso passes a piece of an upload (PUT), or the question how much there is (HEAD), on to the API as the user.
func (s *Server) iso(w http.ResponseWriter, r *http.Request, p *page) {
	request := isoRequest(r.Method, r.PathValue("ns"), r.PathValue("name"))
	if r.Method == http.MethodHead {
		header, err := s.opts.Client.Do(p.ctx, request, nil)
		passUploadHeader(w, header)
		w.WriteHeader(statusOf(err))
		return
	}
	request.Query = r.URL.Query() // sha256
	request.Upload, request.Length = r.Body, r.ContentLength
	if value := r.Header.Get("Content-Range"); value != "" {
		request.Header = map[string]string{"Content-Range": value}
	}
	var answer []byte
	header, err := uploadTo(w, p, request, &answer)
	passUploadHeader(w, header)
	switch {
	case err != nil:
		http.Error(w, sentence(err), statusOf(err))
	case len(answer) == 0:
		w.WriteHeader(http.StatusAccepted)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer) // the browser may have gone away
	}
}

// isoForm takes an upload from a form without scripts: the fields before the file, then the file.
func (s *Server) isoForm(w http.ResponseWriter, r *http.Request, p *page) {
	p.Section = "images"
	namespace, name := r.PathValue("ns"), r.PathValue("name")
	request := isoRequest(http.MethodPut, namespace, name)
	err := func() error {
		parts, err := r.MultipartReader()
		if err != nil {
			return err
		}
		for {
			part, err := parts.NextPart()
			if errors.Is(err, io.EOF) {
				return errors.New("no file was chosen")
			}
			if err != nil {
				return err
			}
			if part.FormName() == "sha256" {
				value, err := io.ReadAll(io.LimitReader(part, maxForm))
				if err != nil {
					return err
				}
				if len(value) > 0 {
					request.Query = map[string][]string{"sha256": {string(value)}}
				}
			}
			if part.FormName() == "iso" {
				request.Upload, request.Length = part, -1
				_, err = uploadTo(w, p, request, nil)
				return err
			}
		}
	}()
	if err != nil {
		p.fail(w, "Upload of "+namespace+"/"+name, err)
		return
	}
	http.Redirect(w, r, objectURL("images", namespace, name), http.StatusSeeOther)
}

// uploadTo sends a request with the body of the user's own, until he is not signed in any more. The rest of a body that
// is refused is read before the answer.
func uploadTo(w http.ResponseWriter, p *page, request *client.Request, answer *[]byte) (http.Header, error) {
	ctx, end := context.WithCancel(p.ctx)
	defer end()
	defer p.whileSignedIn(end)()
	body := &lentBody{from: request.Upload, control: http.NewResponseController(w)}
	request.Upload = body
	var out any
	if answer != nil {
		out = answer
	}
	header, err := p.server.opts.Client.Do(ctx, request, out)
	isCut := ctx.Err() != nil
	body.takeBack(isCut)
	switch {
	case err != nil && isCut:
		err = errCut
	case err != nil && p.request.ProtoMajor == 1:
		_, _ = io.CopyN(io.Discard, p.request.Body, maxLeftover) // its end is an error, too
	}
	return header, err
}

// lentBody is the body of a request while the API reads it. The API may read on after it has answered.
type lentBody struct {
	control *http.ResponseController

	mu    sync.Mutex
	from  io.Reader
	isEnd bool
}

// Read implements io.Reader.
func (b *lentBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isEnd {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.from.Read(p)
}

// Close implements io.Closer. The body is not the API's to close.
func (b *lentBody) Close() error { return nil }

// SetReadDeadline bounds the wait for the next part of the body.
func (b *lentBody) SetReadDeadline(t time.Time) error { return b.control.SetReadDeadline(t) }

// takeBack ends the loan; no Read is under way when it returns. isCut ends the one that waits.
func (b *lentBody) takeBack(isCut bool) {
	if isCut {
		_ = b.SetReadDeadline(time.Unix(1, 0)) // a writer without deadlines is one of a test
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.isEnd = true
}

// passUploadHeader passes on what the API says of an upload.
func passUploadHeader(w http.ResponseWriter, from http.Header) {
	for _, name := range []string{"ETag", "Retry-After", image.HeaderOffset, image.HeaderLength, image.HeaderDigest} {
		if value := from.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
}

// statusOf is the status of an answer of the API.
func statusOf(err error) int {
	switch code := client.Code(err); {
	case err == nil:
		return http.StatusOK
	case code != 0:
		return code
	}
	return http.StatusServiceUnavailable
}
