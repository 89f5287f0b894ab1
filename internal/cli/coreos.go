package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/coreos"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/image/download"
	"glowplug/internal/version"
)

func newCoreOSCommand() *cobra.Command {
	return newGroup("coreos", "Import, print and mirror the metadata of CoreOS streams", "",
		newCoreOSImportCommand(), newCoreOSPrintCommand(), newCoreOSMirrorCommand())
}

// isURL reports whether a name is a URL, and not that of a file.
func isURL(from string) bool {
	return strings.HasPrefix(from, "http://") || strings.HasPrefix(from, "https://")
}

// readMetadata reads stream metadata from a file, standard input or a URL. Documents of
// the older rhcos.json form, one for each architecture, become one of the new form, with
// the name stream, or with that of their version where stream is "".
func readMetadata(ctx context.Context, stdin io.Reader, stream string, froms ...string) (*coreos.Document, error) {
	var legacy [][]byte
	for _, from := range froms {
		data, err := readDocument(ctx, from, stdin)
		if err != nil {
			return nil, err
		}
		var doc *coreos.Document
		if coreos.IsLegacy(data) {
			legacy = append(legacy, data)
			_, err = coreos.FromLegacy(stream, data)
		} else {
			doc, err = coreos.Parse(data)
		}
		switch {
		case err != nil:
			return nil, withHint(fmt.Errorf("%s: %w", shown(from), err),
				"the document has to be CoreOS stream metadata, or the older rhcos.json")
		case doc != nil && len(froms) > 1:
			return nil, usagef("%s is of all architectures: only the older rhcos.json comes in several files", shown(from))
		case doc != nil:
			return doc, nil
		}
	}
	doc, err := coreos.FromLegacy(stream, legacy...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shown(froms[len(froms)-1]), err)
	}
	return doc, nil
}

// shown returns the name or URL of a document, without a password.
func shown(from string) string {
	if u, err := url.Parse(from); err == nil && isURL(from) {
		return u.Redacted()
	}
	return from
}

// readDocument reads a file, standard input or a URL.
func readDocument(ctx context.Context, from string, stdin io.Reader) ([]byte, error) {
	if !isURL(from) {
		return readInput(from, stdin, coreos.MaxDocument)
	}
	data, err := newDownloadClient(http.DefaultClient).Small(ctx, from, coreos.MaxDocument)
	if err != nil {
		return nil, withHint(fmt.Errorf("%s: %w", shown(from), err),
			"is the server reachable from here? a file that was downloaded elsewhere can be given instead")
	}
	return data, nil
}

func newDownloadClient(client *http.Client) *download.Client {
	return &download.Client{HTTP: client, Agent: "glowplug/" + version.Version}
}

// serverMetadata fetches the document of a stream from the server; that of the only
// stream where stream is "".
func serverMetadata(ctx context.Context, options *clientOptions, stream, release string) (*coreos.Document, string,
	error) {
	if stream == "" {
		var err error
		if stream, err = onlyStream(ctx, options); err != nil {
			return nil, "", err
		}
	}
	request := client.Request{Path: "/streams/" + url.PathEscape(stream) + ".json"}
	if release != "" {
		request.Query = url.Values{"release": {release}}
	}
	var data []byte
	err := options.read(ctx, request, &data)
	if client.Code(err) == http.StatusNotFound {
		err = withHint(err, "kubectl get streamreleases lists the streams; glowplug coreos import adds one")
	}
	if err != nil {
		return nil, "", err
	}
	doc, err := coreos.Parse(data)
	if err != nil {
		return nil, "", fmt.Errorf("the server's document: %w", err)
	}
	return doc, stream, nil
}

// onlyStream returns the name of the one stream of the server.
func onlyStream(ctx context.Context, options *clientOptions) (string, error) {
	var list v1.StreamReleaseList
	err := options.do(ctx, client.Request{Resource: kinds.StreamReleases}, &list)
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
