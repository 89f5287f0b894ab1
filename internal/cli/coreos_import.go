package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/coreos"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/wording"
)

func newCoreOSImportCommand() *cobra.Command {
	var (
		options clientOptions
		spec    v1.StreamReleaseSpec
	)
	cmd := &cobra.Command{
		Use:   "import FILE-or-URL…",
		Short: "Store a release of a CoreOS stream on the server",
		Long: `Read CoreOS stream metadata (of Fedora CoreOS, RHEL CoreOS or others in the same
form) or the older rhcos.json, one file for each architecture, check it, and store it
on the server as a StreamRelease. Earlier releases stay. The stream's current release is
the one with the newest metadata, unless --current selects another.

A release that the server has already is updated.`,
		Example: `  glowplug coreos import https://builds.coreos.fedoraproject.org/streams/stable.json
  glowplug coreos import rhcos.json --stream rhcos-4.8 --max-ignition 3.2.0
  glowplug coreos import rhcos-amd64.json rhcos-s390x.json`,
		Args: arguments("FILE-or-URL…"),
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := readMetadata(cmd.Context(), cmd.InOrStdin(), spec.Stream, args...)
			if err != nil {
				return err
			}
			spec.Stream = cmp.Or(spec.Stream, doc.Stream.Stream)
			if spec.Release = cmp.Or(spec.Release, doc.Release()); spec.Release == "" {
				return withHint(fmt.Errorf("%s lists no image that has its release", shown(args[0])),
					"name it with --release")
			}
			spec.Document = string(doc.Raw)
			i := &importer{options: &options, spec: spec, given: cmd.Flags().Changed}
			done, err := i.run(cmd.Context())
			if err != nil {
				return err
			}
			return i.report(cmd.OutOrStdout(), doc, done)
		},
	}
	options.addFlags(cmd)
	cmd.Flags().StringVar(&spec.Stream, "stream", "", "name of the stream (default: that in the metadata)")
	cmd.Flags().StringVar(&spec.Release, "release", "",
		"version of the release (default: that of the x86_64 metal images)")
	cmd.Flags().StringVar(&spec.MaxIgnition, "max-ignition", "",
		"newest Ignition version that the release reads, such as 3.4.0")
	cmd.Flags().BoolVar(&spec.Current, "current", false,
		"make it the stream's current release, also after later imports (--current=false ends that)")
	cmd.Flags().StringSliceVar(&spec.Mirrors, "mirror", nil,
		"URL of a folder of coreos mirror, tried before the locations in the metadata (repeatable)")
	return cmd
}

// importer writes one release to the server.
type importer struct {
	options *clientOptions
	spec    v1.StreamReleaseSpec
	given   func(flag string) bool
}

// run creates the release or updates it, and returns which. It tries again where another
// client writes the release at the same time.
func (i *importer) run(ctx context.Context) (done string, err error) {
	isConflict := func(err error) bool { return client.Code(err) == http.StatusConflict }
	err = retry.OnError(retry.DefaultRetry, isConflict, func() error {
		release := v1.StreamRelease{
			TypeMeta:   metav1.TypeMeta{Kind: "StreamRelease", APIVersion: v1.SchemeGroupVersion.String()},
			ObjectMeta: metav1.ObjectMeta{Name: i.name()},
		}
		request := client.Request{Resource: kinds.StreamReleases, Name: i.name()}
		err := i.options.do(ctx, request, &release)
		old := release.Spec
		switch {
		case client.Code(err) == http.StatusNotFound:
			done, release.Spec = "created", i.spec
			request.Method, request.Name = http.MethodPost, ""
		case err != nil:
			return err
		default:
			done, release.Spec = "configured", i.update(old)
			request.Method = http.MethodPut
		}
		if reflect.DeepEqual(old, release.Spec) {
			done = "unchanged"
			return nil
		}
		request.Body, request.Query = &release, url.Values{"fieldManager": {"glowplug-import"}}
		err = i.options.do(ctx, request, nil)
		if client.Code(err) == http.StatusNotFound {
			return withHint(err, "the server does not know StreamReleases: it is older than this program")
		}
		return err
	})
	return done, err
}

func (i *importer) name() string { return v1.StreamReleaseName(i.spec.Stream, i.spec.Release) }

// update returns the spec of a stored release with the new values. Flags that are not on
// the command line keep their stored values.
func (i *importer) update(stored v1.StreamReleaseSpec) v1.StreamReleaseSpec {
	spec := i.spec
	if !i.given("max-ignition") {
		spec.MaxIgnition = stored.MaxIgnition
	}
	if !i.given("current") {
		spec.Current = stored.Current
	}
	if !i.given("mirror") {
		spec.Mirrors = stored.Mirrors
	}
	return spec
}

func (i *importer) report(w io.Writer, doc *coreos.Document, done string) error {
	architectures, images := doc.Architectures(), 0
	for _, name := range architectures {
		images += len(doc.Artifacts(name))
	}
	_, err := fmt.Fprintf(w, "streamrelease/%s %s\nstream %s, release %s: %s, %s\n", i.name(), done, i.spec.Stream,
		i.spec.Release,
		wording.Count(len(architectures), "architecture", "architectures"), wording.Count(images, "image", "images"))
	return err
}
