package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/coreos"
)

// streamReleases is the resource of the releases.
const streamReleases = "streamreleases"

// importTries are made before a release that others write at the same time is given up.
const importTries = 5

func newCoreOSImportCommand() *cobra.Command {
	var (
		options clientOptions
		spec    v1.StreamReleaseSpec
	)
	cmd := &cobra.Command{
		Use:   "import FILE-or-URL…",
		Short: "Keep a release of a CoreOS stream on the server",
		Long: `Read CoreOS stream metadata (of Fedora CoreOS, RHEL CoreOS or whatever has the same
form) or the older rhcos.json, of which there is one for each architecture, check it,
and keep it on the server as a StreamRelease. Releases that were imported before stay; the one whose metadata was
made last is the stream's current one, unless another is held fast with --current.

A release that is there already is brought up to date with what is given.`,
		Example: `  glowplug coreos import https://builds.coreos.fedoraproject.org/streams/stable.json
  glowplug coreos import rhcos.json --stream rhcos-4.8 --max-ignition 3.2.0
  glowplug coreos import rhcos-amd64.json rhcos-s390x.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("missing argument FILE-or-URL")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := readMetadata(cmd.Context(), cmd.InOrStdin(), spec.Stream, args...)
			if err != nil {
				return err
			}
			if spec.Stream == "" {
				spec.Stream = doc.Stream.Stream
			}
			if spec.Release == "" {
				spec.Release = doc.Release()
			}
			if spec.Release == "" {
				return withHint(fmt.Errorf("%s lists no image that would tell its release", shown(args[0])),
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
	cmd.Flags().StringVar(&spec.Stream, "stream", "", "name to keep the stream under (default: what it calls itself)")
	cmd.Flags().StringVar(&spec.Release, "release", "",
		"version of the release (default: that of the x86_64 metal images)")
	cmd.Flags().StringVar(&spec.MaxIgnition, "max-ignition", "",
		"newest Ignition spec version that the release reads, such as 3.4.0")
	cmd.Flags().BoolVar(&spec.Current, "current", false,
		"make it the stream's current release, whatever is imported later (--current=false ends that)")
	cmd.Flags().StringSliceVar(&spec.Mirrors, "mirror", nil,
		"URL of a folder that coreos mirror has filled, tried before the document's locations (repeatable)")
	return cmd
}

// importer brings one release to the server.
type importer struct {
	options *clientOptions
	spec    v1.StreamReleaseSpec
	given   func(flag string) bool
}

// run creates the release or brings it up to date, and says which.
func (i *importer) run(ctx context.Context) (done string, err error) {
	release := &v1.StreamRelease{
		TypeMeta:   metav1.TypeMeta{Kind: "StreamRelease", APIVersion: v1.SchemeGroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{Name: i.name()}, Spec: i.spec,
	}
	for range importTries {
		if err = i.send(ctx, client.Request{Method: http.MethodPost, Body: release}); err == nil {
			return "created", nil
		}
		if client.Code(err) != http.StatusConflict {
			return "", err
		}
		var there v1.StreamRelease
		getErr := i.options.get(ctx, client.Request{Resource: streamReleases, Name: i.name()}, &there)
		if client.Code(getErr) == http.StatusNotFound {
			continue // deleted between the two
		}
		if getErr != nil {
			return "", getErr
		}
		spec := i.over(there.Spec)
		if reflect.DeepEqual(spec, there.Spec) {
			return "unchanged", nil
		}
		there.Spec = spec
		if err = i.send(ctx, client.Request{Method: http.MethodPut, Name: i.name(), Body: &there}); err == nil {
			return "configured", nil
		}
		if client.Code(err) != http.StatusConflict {
			return "", err
		}
	}
	return "", err
}

func (i *importer) name() string { return v1.StreamReleaseName(i.spec.Stream, i.spec.Release) }

// over is what is given over what is there: flags that were not given stay.
func (i *importer) over(there v1.StreamReleaseSpec) v1.StreamReleaseSpec {
	spec := i.spec
	if !i.given("max-ignition") {
		spec.MaxIgnition = there.MaxIgnition
	}
	if !i.given("current") {
		spec.Current = there.Current
	}
	if !i.given("mirror") {
		spec.Mirrors = there.Mirrors
	}
	return spec
}

func (i *importer) send(ctx context.Context, r client.Request) error {
	r.Resource, r.Query = streamReleases, url.Values{"fieldManager": {"glowplug-import"}}
	_, err := i.options.do(ctx, &r, nil)
	if client.Code(err) == http.StatusNotFound {
		return withHint(err, "the server does not know StreamReleases: it is older than this program")
	}
	return err
}

func (i *importer) report(w io.Writer, doc *coreos.Document, done string) error {
	architectures, images := doc.Architectures(), 0
	for _, name := range architectures {
		images += len(doc.Artifacts(name))
	}
	_, err := fmt.Fprintf(w, "streamrelease/%s %s\nstream %s, release %s: %s, %s\n", i.name(), done, i.spec.Stream,
		i.spec.Release,
		count(len(architectures), "architecture", "architectures"), count(images, "image", "images"))
	return err
}
