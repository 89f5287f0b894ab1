package app

import (
	"os"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"glowplug/internal/client"
	"glowplug/internal/controller/stream"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/option"
	"glowplug/internal/serve/machine"
)

// taken are the first elements of paths that an alias of a stream must not have.
var taken = []string{"api", "apis", "openapi", "version", "metrics", "livez", "readyz", "healthz", "iso", "ipxe",
	"boot.ipxe", "streams", "assets"}

// checkStreams parses the options of the streams.
func (s *settings) checkStreams() error {
	if s.Images.CoreOSConfigMap != "" {
		var qualified bool
		s.mapNamespace, s.mapName, qualified = strings.Cut(s.Images.CoreOSConfigMap, "/")
		if !qualified || len(validation.IsDNS1123Label(s.mapNamespace)) > 0 ||
			len(validation.IsDNS1123Subdomain(s.mapName)) > 0 {
			return option.Bad("coreos-configmap", "%q is not namespace/name", s.Images.CoreOSConfigMap)
		}
	}
	s.aliases = map[string]string{}
	for _, alias := range s.Images.StreamsAlias {
		at, stream, ok := strings.Cut(alias, "=")
		refuse := func(reason string) error { return option.Bad("streams-alias", "%q: %s", alias, reason) }
		first, _, _ := strings.Cut(strings.TrimPrefix(at, "/"), "/")
		switch {
		case !ok || stream == "":
			return refuse("want PATH=STREAM, such as /pub/rhcos-4.8.json=rhcos-4.8")
		case !strings.HasPrefix(at, "/") || path.Clean(at) != at || at == "/":
			return refuse("the path is not one such as /pub/rhcos-4.8.json")
		case slices.Contains(taken, first):
			return refuse("the server has other things below /" + first)
		case s.aliases[at] != "":
			return refuse("the path stands for two streams")
		}
		s.aliases[at] = stream
	}
	return nil
}

// openPublisher makes the client of the own API, and the controller that publishes the
// current releases of streams.
func (a builder) openPublisher() (err error) {
	if a.own, err = client.New(a.api.LoopbackConfig()); err != nil {
		return err
	}
	a.publisher = stream.New(stream.Options{
		Library: a.streams, Client: a.own,
		Namespace: a.settings.mapNamespace, Name: a.settings.mapName, Stream: a.settings.Images.CoreOSConfigMapStream,
		Recorder: a.events, Metrics: a.controllers, Logger: a.log,
	})
	return nil
}

// openFolders opens --streams-dir and --assets-dir.
func (a builder) openFolders() (err error) {
	if a.artifacts, err = a.openFolder("streams-dir", a.settings.Images.StreamsDir); err == nil {
		a.assets, err = a.openFolder("assets-dir", a.settings.Images.AssetsDir)
	}
	return err
}

// openFolder opens the folder of a flag, whose files everybody may read; nil without one.
func (a builder) openFolder(flag, dir string) (*os.Root, error) {
	if dir == "" {
		return nil, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, option.Bad(flag, "%v", err)
	}
	a.onClose(func() { _ = root.Close() })
	return root, nil
}

// servedStreams returns the streams that machines and scripts can read.
func (a builder) servedStreams() *machine.Streams {
	document := func(stream, release string) ([]byte, string, bool) {
		s := a.streams.Current(stream)
		if release != "" {
			s = a.streams.Find(stream, release)
		}
		if s == nil {
			return nil, "", false
		}
		return s.Document.Raw, s.Document.Hash, true
	}
	return &machine.Streams{
		Document: document, Aliases: a.settings.aliases, Artifacts: a.artifacts,
		Lost: func() bool {
			return a.backend.IsLost(kinds.StreamReleases) || len(a.backend.Stores[kinds.StreamReleases].Lost()) > 0
		},
	}
}
