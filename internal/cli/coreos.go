package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/coreos"
	"glowplug/internal/version"
)

// metadataTimeout bounds the download of a stream metadata document.
const metadataTimeout = time.Minute

func newCoreOSCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "coreos",
		Short: "Keep, print and mirror the metadata of CoreOS streams",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q", "coreos "+args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(newCoreOSImportCommand(), newCoreOSPrintCommand(), newCoreOSMirrorCommand())
	return cmd
}

// isURL tells a URL from the name of a file.
func isURL(from string) bool {
	return strings.HasPrefix(from, "http://") || strings.HasPrefix(from, "https://")
}

// readMetadata reads a document of stream metadata from a file, standard input or a
// URL. Those of the older rhcos.json form, one for each architecture, become one of the
// new form, named stream, or after its version where that is "".
func readMetadata(ctx context.Context, stdin io.Reader, stream string, froms ...string) (*coreos.Document, error) {
	const hint = "it has to be CoreOS stream metadata, or the older rhcos.json"
	var legacy [][]byte
	for _, from := range froms {
		data, err := readBounded(ctx, from, stdin)
		if err != nil {
			return nil, err
		}
		if !coreos.IsLegacy(data) {
			doc, err := coreos.Parse(data)
			if err != nil {
				return nil, withHint(fmt.Errorf("%s: %w", shown(from), err), hint)
			}
			if len(froms) > 1 {
				return nil, usagef("%s is of all architectures: only the older rhcos.json comes in several files", shown(from))
			}
			return doc, nil
		}
		if _, err := coreos.FromLegacy(stream, data); err != nil {
			return nil, withHint(fmt.Errorf("%s: %w", shown(from), err), hint)
		}
		legacy = append(legacy, data)
	}
	doc, err := coreos.FromLegacy(stream, legacy...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shown(froms[len(froms)-1]), err)
	}
	return doc, nil
}

// shown is where a document is from, without a password.
func shown(from string) string {
	if u, err := url.Parse(from); err == nil && isURL(from) {
		return u.Redacted()
	}
	return from
}

func readBounded(ctx context.Context, from string, stdin io.Reader) ([]byte, error) {
	var source io.Reader = stdin
	switch {
	case isURL(from):
		ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
		if err != nil {
			return nil, usagef("%q is not a URL", shown(from))
		}
		req.Header.Set("User-Agent", "glowplug/"+version.Version)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, withHint(err,
				"is the server reachable from here? a file that was downloaded elsewhere can be given instead")
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s: the server answered %s", shown(from), resp.Status)
		}
		source = resp.Body
	case from != "-":
		file, err := os.Open(from)
		if err != nil {
			return nil, fileError(err)
		}
		defer file.Close()
		source = file
	}
	data, err := io.ReadAll(io.LimitReader(source, coreos.MaxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", shown(from), err)
	}
	return data, nil
}

// streamPath is where the server shows a stream to everybody.
func streamPath(stream string) string { return "/streams/" + url.PathEscape(stream) + ".json" }

// serverMetadata fetches a stream's document from the server, to the byte; that of
// the only stream where stream is "".
func serverMetadata(ctx context.Context, options *clientOptions, stream, release string) (data []byte, name string,
	err error) {
	if stream == "" {
		if stream, err = onlyStream(ctx, options); err != nil {
			return nil, "", err
		}
	}
	request := client.Request{Path: streamPath(stream)}
	if release != "" {
		request.Query = url.Values{"release": {release}}
	}
	err = options.get(ctx, request, &data)
	if client.Code(err) == http.StatusNotFound {
		err = withHint(err, "kubectl get streamreleases lists what there is; glowplug coreos import adds one")
	}
	return data, stream, err
}

// onlyStream is the name of the one stream that the server has.
func onlyStream(ctx context.Context, options *clientOptions) (string, error) {
	var list v1.StreamReleaseList
	err := options.get(ctx, client.Request{Resource: streamReleases}, &list)
	if client.Code(err) != 0 {
		return "", withHint(err, "name the stream with --stream: then no credential is needed")
	}
	if err != nil {
		return "", err
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Spec.Stream)
	}
	slices.Sort(names)
	switch names = slices.Compact(names); len(names) {
	case 0:
		return "", withHint(errors.New("the server has no stream"), "glowplug coreos import adds one")
	case 1:
		return names[0], nil
	}
	return "", usagef("--stream: the server has several streams: %s", strings.Join(names, ", "))
}
