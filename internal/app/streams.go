package app

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/bulletin"
	"glowplug/internal/serve/api"
	"glowplug/internal/serve/machine"
	"glowplug/internal/streams"
)

// taken are the first parts of paths that are not free for an alias of a stream.
var taken = []string{"api", "apis", "openapi", "version", "metrics", "livez", "readyz", "healthz", "iso", "ipxe", "boot.ipxe", "streams"}

// checkStreams parses the options of the streams.
func (s *settings) checkStreams() error {
	if s.CoreOSConfigMap != "" {
		var qualified bool
		s.mapNamespace, s.mapName, qualified = strings.Cut(s.CoreOSConfigMap, "/")
		if !qualified || len(validation.IsDNS1123Label(s.mapNamespace)) > 0 || len(validation.IsDNS1123Subdomain(s.mapName)) > 0 {
			return &OptionError{Flag: "coreos-configmap", Reason: fmt.Sprintf("%q is not namespace/name", s.CoreOSConfigMap)}
		}
	}
	s.aliases = map[string]string{}
	for _, alias := range s.StreamsAlias {
		at, stream, ok := strings.Cut(alias, "=")
		bad := func(reason string) error {
			return &OptionError{Flag: "streams-alias", Reason: fmt.Sprintf("%q: %s", alias, reason)}
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(at, "/"), "/")
		switch {
		case !ok || stream == "":
			return bad("want PATH=STREAM, such as /pub/rhcos-4.8.json=rhcos-4.8")
		case !strings.HasPrefix(at, "/") || path.Clean(at) != at || at == "/":
			return bad("the path is not one such as /pub/rhcos-4.8.json")
		case slices.Contains(taken, first):
			return bad("the server has other things below /" + first)
		case s.aliases[at] != "":
			return bad("the path stands for two streams")
		}
		s.aliases[at] = stream
	}
	return nil
}

// openStreams makes the library of the streams' releases and what posts the current
// ones.
func (a *App) openStreams() {
	a.streams = streams.NewLibrary(a.log)
	a.bulletin = bulletin.New(bulletin.Options{
		Library: a.streams, API: &http.Client{Transport: lateAPI{a}}, Base: "http://glowplug.invalid",
		Fresh:     a.freshStreams,
		Namespace: a.settings.mapNamespace, Name: a.settings.mapName, Stream: a.settings.CoreOSConfigMapStream,
		Recorder: a.events, Logger: a.log,
	})
}

// freshStreams returns once the library knows all that the store has: a list without
// a version waits for the newest, and observers are told before it is answered.
func (a *App) freshStreams(ctx context.Context) error {
	opts := storage.ListOptions{Recursive: true, Predicate: storage.SelectionPredicate{
		Label: labels.Everything(), Field: fields.Everything(), Limit: 1, GetAttrs: storage.DefaultClusterScopedAttr,
	}}
	return a.stores[api.StreamReleases].GetList(ctx, "/"+api.StreamReleases, opts, &v1.StreamReleaseList{})
}

// lateAPI is the way to the API, which is made after the stores and their observers.
type lateAPI struct{ app *App }

func (l lateAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	return l.app.api.LoopbackConfig().Transport.RoundTrip(r)
}

// openArtifacts opens --streams-dir.
func (a *App) openArtifacts() error {
	if a.settings.StreamsDir == "" {
		return nil
	}
	root, err := os.OpenRoot(a.settings.StreamsDir)
	if err != nil {
		return &OptionError{Flag: "streams-dir", Reason: err.Error()}
	}
	a.artifacts = root
	a.onClose(func() { _ = root.Close() })
	return nil
}

// streamDoor is what machines and scripts are given of the streams.
func (a *App) streamDoor() *machine.Streams {
	return &machine.Streams{Document: a.document, Aliases: a.settings.aliases, Artifacts: a.artifacts}
}

func (a *App) document(stream, release string) ([]byte, string, bool) {
	s := a.streams.Current(stream)
	if release != "" {
		s = a.streams.Find(stream, release)
	}
	if s == nil {
		return nil, "", false
	}
	return s.Document.Raw, s.Document.Hash, true
}
