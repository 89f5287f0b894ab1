package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	v1 "glowplug/api/v1"
	"glowplug/internal/image"
)

const (
	// uploadTries are made before an upload that is cut off is given up; the pause
	// between two of them grows.
	uploadTries = 6
	uploadPause = time.Second
)

func newISOUploadCommand() *cobra.Command {
	var (
		client    clientOptions
		namespace string
		create    bool
	)
	cmd := &cobra.Command{
		Use:   "upload NAME FILE",
		Short: "Upload an ISO image to the server",
		Long: `Upload an ISO image to the server, as the image of the ISCSICdrom NAME. The one
that is there is served until the new one is complete and has been found to be an
ISO image.

An upload that was cut off goes on where it stopped when it is done again.`,
		Example: `  glowplug iso upload coreos fedora-coreos.iso -n g10
  glowplug iso upload coreos fedora-coreos.iso --create`,
		Args: exactArgs("NAME", "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, img, err := openISO(args[1])
			if err != nil {
				return err
			}
			defer file.Close()
			config, err := client.config()
			if err != nil {
				return err
			}
			u := &uploader{
				client: &client, file: file, size: img.Size(), notes: cmd.ErrOrStderr(),
				collection: cdromsPath(namespace), namespace: namespace, name: args[0],
			}
			if u.base, u.http, err = longClient(config); err != nil {
				return err
			}
			if create {
				if err := u.create(cmd.Context()); err != nil {
					return err
				}
			}
			cdrom, err := u.run(cmd.Context())
			if err != nil {
				return err
			}
			return u.report(cmd.OutOrStdout(), cdrom)
		},
	}
	client.addFlags(cmd)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", v1.NamespaceDefault, "namespace of the ISCSICdrom")
	cmd.Flags().BoolVar(&create, "create", false, "make the ISCSICdrom where there is none")
	return cmd
}

// longClient gives the server's address and a client whose requests may take
// any time.
func longClient(config *rest.Config) (base string, client *http.Client, err error) {
	config.Timeout = 0
	client, err = rest.HTTPClientFor(config)
	return strings.TrimSuffix(config.Host, "/"), client, err
}

// uploader uploads one file.
type uploader struct {
	client     *clientOptions
	base       string
	http       *http.Client
	file       *os.File
	size       int64
	notes      io.Writer
	collection string
	namespace  string
	name       string
	bar        *progress
}

func (u *uploader) path() string { return u.collection + "/" + url.PathEscape(u.name) }

// cdromsPath is the collection of the ISCSICdroms, of all namespaces for "".
func cdromsPath(namespace string) string {
	if namespace == "" {
		return "/api/v1/iscsicdroms"
	}
	return "/api/v1/namespaces/" + url.PathEscape(namespace) + "/iscsicdroms"
}

// create makes the ISCSICdrom, if there is none.
func (u *uploader) create(ctx context.Context) error {
	body, err := json.Marshal(&v1.ISCSICdrom{
		TypeMeta:   metav1.TypeMeta{Kind: "ISCSICdrom", APIVersion: v1.SchemeGroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{Name: u.name, Namespace: u.namespace},
	})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.base+u.collection, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, answer, err := u.do(req)
	if err != nil {
		return withHint(err, "is the server running, and reachable from here?")
	}
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusConflict {
		return refusal(resp, answer)
	}
	return nil
}

// do makes a request and reads the answer, which is small.
func (u *uploader) do(req *http.Request) (*http.Response, []byte, error) {
	resp, err := u.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	return resp, body, err
}

// run uploads the file, and goes on where it was cut off.
func (u *uploader) run(ctx context.Context) (*v1.ISCSICdrom, error) {
	// The answer to a HEAD has no sentence in it.
	if _, err := u.client.get(ctx, u.path(), nil); err != nil {
		if isStatus(err, http.StatusNotFound) {
			return nil, withHint(err, "--create makes the ISCSICdrom; or apply a manifest first")
		}
		return nil, err
	}
	u.bar = newProgress(u.notes, u.file.Name(), u.size)
	defer u.bar.done()
	var last error
	for try := range uploadTries {
		if try > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(uploadPause << (try - 1)):
			}
		}
		cdrom, again, err := u.once(ctx)
		if err == nil {
			return cdrom, nil
		}
		if ctx.Err() != nil {
			return nil, withHint(errors.New("interrupted"), "do it again, and it goes on where it stopped")
		}
		if !again {
			return nil, err
		}
		last = err
	}
	return nil, withHint(last, "do it again, and it goes on where it stopped")
}

// once uploads what the server lacks. again tells whether another try may help.
func (u *uploader) once(ctx context.Context) (cdrom *v1.ISCSICdrom, again bool, err error) {
	from, err := u.offset(ctx)
	if err != nil {
		return nil, true, err
	}
	u.bar.now = from
	body := &uploadBody{from: io.NewSectionReader(u.file, from, u.size-from), count: u.bar.add}
	defer body.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, u.base+u.path()+"/iso", body)
	if err != nil {
		return nil, false, err
	}
	req.ContentLength = u.size - from
	if from > 0 {
		req.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, u.size-1, u.size))
	}
	resp, answer, err := u.do(req)
	if err != nil {
		return nil, true, err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		cdrom = &v1.ISCSICdrom{}
		if err := json.Unmarshal(answer, cdrom); err != nil {
			return nil, false, fmt.Errorf("the server's answer cannot be read: %w", err)
		}
		return cdrom, false, nil
	case http.StatusRequestTimeout, http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusGatewayTimeout:
		return nil, true, refusal(resp, answer)
	}
	return nil, resp.Header.Get("Retry-After") != "", refusal(resp, answer)
}

// offset is where to go on: how much the server has of this very file.
func (u *uploader) offset(ctx context.Context) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, u.base+u.path()+"/iso", nil)
	if err != nil {
		return 0, err
	}
	resp, _, err := u.do(req)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(resp.Header.Get(image.HeaderOffset), 10, 64)
	if resp.StatusCode != http.StatusOK || err != nil || n <= 0 || n >= u.size {
		return 0, nil // the PUT is answered with the reason, if there is one
	}
	if length := resp.Header.Get(image.HeaderLength); length != "" && length != strconv.FormatInt(u.size, 10) {
		return 0, nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(u.file, 0, n)); err != nil {
		return 0, err
	}
	if hex.EncodeToString(h.Sum(nil)) != resp.Header.Get(image.HeaderDigest) {
		return 0, nil
	}
	if u.bar.now == 0 {
		fmt.Fprintf(u.notes, "going on after %s of %s\n", byteCount(n), byteCount(u.size))
	}
	return n, nil
}

// report says what became of the upload.
func (u *uploader) report(w io.Writer, cdrom *v1.ISCSICdrom) error {
	s := &cdrom.Status
	fmt.Fprintf(w, "iscsicdrom %s/%s: %s, %s, %s\n", u.namespace, u.name, s.Phase, byteCount(s.ISOSize), s.Distro)
	fmt.Fprintf(w, "sha256: %s\n", s.SHA256)
	if s.TargetIQN != "" {
		fmt.Fprintf(w, "target: %s\n", s.TargetIQN)
	}
	if len(s.KernelArgsApplied) > 0 {
		fmt.Fprintf(w, "kernel arguments: %s\n", strings.Join(s.KernelArgsApplied, " "))
	}
	if s.Phase == v1.PhaseError {
		return fmt.Errorf("the image was uploaded, but cannot be served: %s", s.ErrorMessage)
	}
	return nil
}

// uploadBody is what one try sends. A transport may read a body for some time after
// it has answered the request (http.Request.Body), when the next try has begun: each
// has its own place in the file, and none counts after Close.
type uploadBody struct {
	from  io.Reader
	count func(int64)

	mu     sync.Mutex
	closed bool
}

// Read implements io.Reader.
func (b *uploadBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, os.ErrClosed
	}
	n, err := b.from.Read(p)
	b.count(int64(n))
	return n, err
}

// Close implements io.Closer. No Read is under way when it returns.
func (b *uploadBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}
