package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/report"
	"glowplug/internal/image"
)

// uploadBackoff bounds the tries of an upload that is interrupted. The pause between
// two of them grows.
var uploadBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Steps: 6}

func newISOUploadCommand() *cobra.Command {
	var (
		options clientOptions
		create  bool
	)
	cmd := &cobra.Command{
		Use:   "upload NAME FILE",
		Short: "Upload an ISO image to the server",
		Long: `Upload an ISO image to the server, as the image of the ISCSICdrom NAME. The old
image is served until the new one is complete and verified to be an ISO image.

After an interruption run the command again: the upload goes on where it stopped.`,
		Example: `  glowplug iso upload coreos fedora-coreos.iso -n g10
  glowplug iso upload coreos fedora-coreos.iso --create`,
		Args: arguments("NAME", "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, img, err := openISO(args[1])
			if err != nil {
				return err
			}
			defer file.Close()
			c, err := options.connect(cmd.Context())
			if err != nil {
				return err
			}
			u := &uploader{
				client: c, file: file, size: img.Size(), notes: cmd.ErrOrStderr(), namespace: options.namespace(), name: args[0],
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
	options.addFlags(cmd)
	options.completeArgument(cmd, kinds.ISCSICdroms, cobra.ShellCompDirectiveNoFileComp)
	options.addNamespace(cmd, "namespace of the ISCSICdrom")
	cmd.Flags().BoolVar(&create, "create", false, "create the ISCSICdrom if there is none")
	return cmd
}

// uploader uploads one file.
type uploader struct {
	client    *client.Client
	file      *os.File
	size      int64
	notes     io.Writer
	namespace string
	name      string
	bar       *progress
}

// request returns a request for the ISCSICdrom, or for its image.
func (u *uploader) request(method, subresource string) *client.Request {
	return &client.Request{Method: method, Resource: kinds.ISCSICdroms, Namespace: u.namespace, Name: u.name,
		Subresource: subresource}
}

// create creates the ISCSICdrom, if there is none.
func (u *uploader) create(ctx context.Context) error {
	_, err := u.client.Do(ctx, &client.Request{
		Method: http.MethodPost, Resource: kinds.ISCSICdroms, Namespace: u.namespace,
		Body: &v1.ISCSICdrom{
			TypeMeta:   metav1.TypeMeta{Kind: "ISCSICdrom", APIVersion: v1.SchemeGroupVersion.String()},
			ObjectMeta: metav1.ObjectMeta{Name: u.name, Namespace: u.namespace},
		},
	}, nil)
	if client.Code(err) == http.StatusConflict {
		return nil
	}
	return remedied(err)
}

// goesOn is the remedy of an interrupted upload or download.
const goesOn = "run the command again: it goes on where it stopped"

// run uploads the file, and repeats that where it is interrupted.
func (u *uploader) run(ctx context.Context) (*v1.ISCSICdrom, error) {
	// Unlike the answer to a HEAD, an error of a GET has a message.
	if _, err := u.client.Do(ctx, u.request(http.MethodGet, ""), nil); err != nil {
		if client.Code(err) == http.StatusNotFound {
			return nil, withHint(err, "it was looked for in the namespace "+u.namespace+": -n names another one, and --create "+
				"creates it there")
		}
		return nil, remedied(err)
	}
	u.bar = newProgress(u.notes, u.file.Name(), u.size)
	defer u.bar.done()
	var cdrom *v1.ISCSICdrom
	var failure error
	again := true
	_ = wait.ExponentialBackoffWithContext(ctx, uploadBackoff, func(ctx context.Context) (bool, error) {
		cdrom, again, failure = u.once(ctx)
		return !again, nil
	})
	if cdrom == nil && ctx.Err() != nil {
		failure, again = errors.New("interrupted"), true
	}
	if again {
		failure = withHint(failure, goesOn)
	}
	return cdrom, failure
}

// once uploads the part that the server lacks. again reports whether another try may help.
func (u *uploader) once(ctx context.Context) (cdrom *v1.ISCSICdrom, again bool, err error) {
	from, err := u.offset(ctx)
	if err != nil {
		return nil, true, err
	}
	u.bar.now = from
	body := client.NewBody(io.NewSectionReader(u.file, from, u.size-from), u.bar.add)
	defer body.Close()
	request := u.request(http.MethodPut, "iso")
	request.Upload, request.Length = body, u.size-from
	if from > 0 {
		request.Header = map[string]string{"Content-Range": fmt.Sprintf("bytes %d-%d/%d", from, u.size-1, u.size)}
	}
	var answer []byte
	if _, err := u.client.Do(ctx, request, &answer); err != nil {
		return nil, client.MayRetry(err), remedied(err)
	}
	cdrom = &v1.ISCSICdrom{}
	if err := json.Unmarshal(answer, cdrom); err != nil {
		return nil, false, fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	return cdrom, false, nil
}

// offset returns how many bytes of this file the server has already.
func (u *uploader) offset(ctx context.Context) (int64, error) {
	header, err := u.client.Do(ctx, u.request(http.MethodHead, "iso"), nil)
	if client.Code(err) != 0 {
		return 0, nil // the PUT is answered with the reason, if there is one
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(header.Get(image.HeaderOffset), 10, 64)
	if err != nil || n <= 0 || n >= u.size {
		return 0, nil
	}
	if length := header.Get(image.HeaderLength); length != "" && length != strconv.FormatInt(u.size, 10) {
		return 0, nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(u.file, 0, n)); err != nil {
		return 0, err
	}
	if hex.EncodeToString(h.Sum(nil)) != header.Get(image.HeaderDigest) {
		return 0, nil
	}
	if u.bar.now == 0 {
		fmt.Fprintf(u.notes, "going on after %s of %s\n", report.Size(n), report.Size(u.size))
	}
	return n, nil
}

// report describes the uploaded image.
func (u *uploader) report(w io.Writer, cdrom *v1.ISCSICdrom) error {
	s := &cdrom.Status
	fmt.Fprintf(w, "iscsicdrom %s/%s: %s, %s, %s\n", u.namespace, u.name, s.Phase, report.Size(s.ISOSize), s.Distro)
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
