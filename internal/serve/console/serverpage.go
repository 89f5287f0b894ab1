package console

import (
	"cmp"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/version"
)

// Fact is what the program says of this server in words: where it listens, where its store is, until when a certificate
// is valid.
type Fact struct {
	Name, Text string
	// IsBad is true where somebody has to act.
	IsBad bool
}

// serverPage is what the template of the server shows.
type serverPage struct {
	Version, System string
	Started         time.Time
	Parts           []part
	Failing         int
	Storm           bool
	// Members are the servers of the store, if the user may list them.
	Members []v1.Member
	// Refused says why the rest is not shown; "": it is.
	Refused string
	Facts   []Fact
}

// metricsPath is the path whose readers see the facts about the server.
const metricsPath = "/metrics"

// serverPage shows how this server is.
func (s *Server) serverPage(w http.ResponseWriter, _ *http.Request, p *page) {
	p.Title, p.Section = "Server", "server"
	data := &serverPage{
		Version: version.Version, System: runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH, Started: s.started,
		Parts: p.parts(), Storm: s.opts.Live.Storm(),
	}
	if c := version.Commit(); c != "" {
		data.Version += ", commit " + c[:min(12, len(c))]
	}
	for _, part := range data.Parts {
		if !part.OK {
			data.Failing++
		}
	}
	each(p, kinds.Members, nil, func(list *v1.MemberList) { data.Members = list.Items })
	if !s.opts.MayGet(p.ctx, p.who, metricsPath) {
		data.Refused = fmt.Sprintf("user %q cannot get path %q: the size of the store, listeners and certificates are for those "+
			"who can", p.User(), metricsPath)
		p.show(w, "server", data)
		return
	}
	data.Facts = s.opts.Facts()
	p.show(w, "server", data)
}

// partTexts are the plain names of the parts of /readyz.
var partTexts = map[string]string{
	"ping": "the program answers", "nats": "the store answers",
	"store-identity": "the store is the one that this server has used",
	"store-writable": "the store takes writes", "roles": "the roles of users are there",
	"manifests": "the manifests were applied at the start", "credentials": "the servers of the store know each other",
}

// Plain is the plain name of a part.
func (p part) Plain() string {
	if kind, ok := strings.CutPrefix(p.Name, "store-"); ok && partTexts[p.Name] == "" {
		return kind + " are read and followed"
	}
	return cmp.Or(partTexts[p.Name], p.Name)
}
