package machine

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"glowplug/internal/audit"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/match"
)

// auditLog keeps answers as lines.
type auditLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *auditLog) record(_ *http.Request, a audit.Answer, believed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	object := ""
	if o := a.Object; o.Resource != "" {
		object = fmt.Sprintf("%s %s/%s@%d", o.Resource, o.Namespace, o.Name, o.Revision)
	}
	l.lines = append(l.lines, fmt.Sprintf("%s %s %d host=%s object=%s tier=%s hash=%s failure=%t believed=%t", a.Verb,
		a.Path, a.Status, a.Host, object, a.MatchedBy, a.Hash, a.Failure != "", believed))
}

// take returns the lines since the last call.
func (l *auditLog) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.lines = nil }()
	return strings.Join(l.lines, "\n")
}

// Each answer with a config, a script or an image is audited once, and so is each refusal.
func TestAnswersAreAudited(t *testing.T) {
	var log auditLog
	refused := fault.New(fault.Refused, "the claim does not hold")
	for _, c := range []struct {
		decision decide.ConfigDecision
		path     string
		want     string
	}{
		{decide.ConfigDecision{Identity: decide.Identity{Host: testHost}, Config: testConfig, Tier: match.MAC}, "/api/v1/ignition",
			"get /api/v1/ignition 200 host=g10/server1 object=ignitionconfigs g10/coreos-builder@12 tier=mac hash=sha256:abc " +
				"failure=false believed=false"},
		{decide.ConfigDecision{Config: testConfig}, "/api/v1/ignition?format=raw&mac=52:54:00:00:00:01",
			"get /api/v1/ignition 200 host= object=ignitionconfigs g10/coreos-builder@12 tier= " +
				"hash=sha256:102fb15babdc6c0c5fb7e14a02e96b38167144931a70eca99e26efa2341e3951 failure=false believed=true"},
		{decide.ConfigDecision{Identity: decide.Identity{Host: testHost}, Config: testConfig, Err: refused}, "/api/v1/kickstart",
			"get /api/v1/kickstart 403 host=g10/server1 object=ignitionconfigs g10/coreos-builder@12 tier= hash= " +
				"failure=true believed=false"},
		{decide.ConfigDecision{Err: refused}, "/api/v1/ignition?mac=zz",
			"get /api/v1/ignition 400 host= object= tier= hash= failure=true believed=false"},
		{decide.ConfigDecision{}, "/assets/x", ""},
		{decide.ConfigDecision{}, "/nowhere", ""},
	} {
		r := newRig(t, c.decision, func(o *Options) {
			o.Audit, o.Believe = log.record, func(r *http.Request) bool { return r.URL.Query().Has("format") }
		})
		r.do(t, http.MethodGet, c.path)
		if got := log.take(); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.path, got, c.want)
		}
	}
}

// The script of a machine is audited with the image that it boots, and the reads of an image once,
// wherever the first range begins.
func TestBootsAreAudited(t *testing.T) {
	var log auditLog
	b, _ := rackBoot(t, decide.Policy{Claims: identity.Trust})
	r := newRig(t, decide.ConfigDecision{}, func(o *Options) { o.Boot, o.Audit = b, log.record })
	for _, c := range []struct{ path, byteRange, want string }{
		{"/boot.ipxe", "", "get /boot.ipxe 200 host= object="},
		{"/ipxe?mac=52-54-00-00-00-02", "", "get /ipxe 200 host=g10/live object=iscsicdroms g10/live@"},
		{"/ipxe?mac=52-54-00-00-00-05", "", "get /ipxe 200 host=g10/disk object= "},
		{"/iso/g10/live.iso?mac=52-54-00-00-00-02", "bytes=7-9", "get /iso/g10/live.iso 206 host=g10/live object=iscsicdroms g10/live@"},
		{"/iso/g10/live.iso?mac=52-54-00-00-00-02", "bytes=0-3", ""},
		{"/iso/g10/live.iso?mac=52-54-00-00-00-02", "", ""},
		{"/iso/g10/live/files/images/rootfs.img?mac=52-54-00-00-00-02", "", "get /iso/g10/live/files/images/rootfs.img 200"},
		{"/iso/g10/none.iso", "", "get /iso/g10/none.iso 404 host=g10/router object=iscsicdroms g10/none@0 tier= " +
			"hash= failure=true"},
		{"/iso/g10/none.iso", "", "get /iso/g10/none.iso 404"},
	} {
		var header []string
		if c.byteRange != "" {
			header = []string{"Range", c.byteRange}
		}
		r.do(t, http.MethodGet, c.path, header...)
		if got := log.take(); !strings.HasPrefix(got, c.want) || strings.Contains(got, "\n") || (c.want == "") != (got == "") {
			t.Errorf("%s:\n%s, want\n%s", c.path, got, c.want)
		}
	}
}

// The next read of an image is audited after a pause.
func TestReadsOfAnImage(t *testing.T) {
	r, now := newReads(), time.Now()
	one, two := read{netip.MustParseAddr("192.0.2.1"), "/a"}, read{netip.MustParseAddr("192.0.2.2"), "/a"}
	for _, step := range []struct {
		after time.Duration
		which read
		want  bool
	}{
		{0, one, true}, {0, one, false}, {0, two, true}, {readPause, one, false}, {readPause, one, false},
		{readPause + 1, one, true}, {0, read{one.from, "/b"}, true},
	} {
		now = now.Add(step.after)
		if got := r.begins(now, step.which); got != step.want {
			t.Errorf("%+v: %t", step, got)
		}
	}
	for i := range maxReads + 10 {
		r.begins(now, read{one.from, fmt.Sprint(i)})
	}
	if r.last.Len() != maxReads {
		t.Errorf("%d reads are kept", r.last.Len())
	}
}
