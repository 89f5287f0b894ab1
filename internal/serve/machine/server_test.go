package machine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/logs"
	"glowplug/internal/serve/peer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testBody = `{"ignition":{"version":"3.4.0"}}`

var (
	testHost   = &model.Host{Ref: model.Ref{Namespace: "g10", Name: "server1"}}
	testConfig = &model.Config{
		Ref: model.Ref{Namespace: "g10", Name: "coreos-builder"}, Revision: 12, Type: "ignition",
		Source:   "variant: fcos\n",
		Artifact: []byte(testBody), Hash: "sha256:abc", ETag: `"sha256:abc"`, IgnitionVersion: "3.4.0",
	}
)

// fakeDecider returns one decision and keeps the last request.
type fakeDecider struct {
	decision decide.ConfigDecision
	device   string // to install on
	crash    bool
	mu       sync.Mutex
	last     decide.Request
	asked    int
}

func (f *fakeDecider) InstallDevice(*model.Host) string { return f.device }

func (f *fakeDecider) Config(req *decide.Request) decide.ConfigDecision {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = *req
	f.asked++
	if f.crash {
		panic("a fault of ours")
	}
	return f.decision
}

type fakeJournal struct {
	mu      sync.Mutex
	served  []string
	notices []string
	unknown []decide.Sighting
	known   []netip.Addr
	// name is what the journal calls unknown machines, machines are those of the notices.
	name     string
	machines []string
	// boots are what requests have said of the boots of hosts.
	boots   []*v1.Boot
	failure error
}

// Fetch counts nothing.
func (f *fakeJournal) Fetch(*decide.Request, *model.Host, model.Limits) (*decide.Notice, string) {
	return nil, ""
}

func (f *fakeJournal) IssueToken(_ *model.Host, _ bool, at time.Time) time.Time { return at }

func (f *fakeJournal) Served(host *model.Host, config model.Ref, hash string, describe func(*v1.Boot)) {
	f.describe(&v1.Boot{Config: &v1.BootConfig{Name: config.String(), Hash: hash}}, describe)
	f.note("%s %s", host.Ref, config)
}

func (f *fakeJournal) Refused(_ *model.Host, why string, describe func(*v1.Boot)) {
	f.describe(&v1.Boot{Reason: why}, describe)
}

// describe keeps a boot with what a request has said of it.
func (f *fakeJournal) describe(b *v1.Boot, describe func(*v1.Boot)) {
	describe(b)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.boots = append(f.boots, b)
}

func (f *fakeJournal) Notice(n decide.Notice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notices = append(f.notices, n.Reason)
	f.machines = append(f.machines, n.Machine)
}

func (f *fakeJournal) Unknown(s decide.Sighting) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unknown = append(f.unknown, s)
	return f.name
}

func (f *fakeJournal) Known(addr netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known = append(f.known, addr)
}

func (f *fakeJournal) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.served = append(f.served, fmt.Sprintf(format, args...))
}

func (f *fakeJournal) ScriptServed(host *model.Host, what string, again bool, describe func(*v1.Boot)) {
	f.describe(&v1.Boot{}, describe)
	if again {
		what += " again"
	}
	f.note("%s given %s", host.Ref, what)
}
func (f *fakeJournal) LocalBoot(host *model.Host, why string, describe func(*v1.Boot)) {
	f.describe(&v1.Boot{}, describe)
	f.note("%s disk %s", host.Ref, why)
}
func (f *fakeJournal) Failed(host *model.Host, why string, describe func(*v1.Boot)) {
	f.describe(&v1.Boot{Reason: why}, describe)
	f.note("%s failed", host.Ref)
}
func (f *fakeJournal) Reported(host *model.Host) { f.note("%s reported", host.Ref) }
func (f *fakeJournal) Complete(_ context.Context, host *model.Host) error {
	f.note("%s complete", host.Ref)
	return f.failure
}

// rig is a server with everything around it faked but HTTP.
type rig struct {
	*httptest.Server
	server  *Server
	decider *fakeDecider
	journal *fakeJournal
	metrics *prometheus.Registry
	log     *bytes.Buffer
	handler *logs.Handler
	ready   bool
	believe bool
}

func newRig(t *testing.T, decision decide.ConfigDecision, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{decider: &fakeDecider{decision: decision}, journal: &fakeJournal{}, metrics: prometheus.NewRegistry(),
		log: new(bytes.Buffer), ready: true}
	r.handler = logs.NewHandler(r.log, logs.Options{Interval: time.Hour})
	resolver := peer.NewResolver(peer.ResolverOptions{Neighbors: identity.NeighborsOff})
	opts := Options{
		Decider: r.decider, Resolver: resolver, Journal: r.journal, Log: r.handler, Registerer: r.metrics,
		Ready: func() bool { return r.ready }, Believe: func(*http.Request) bool { return r.believe },
	}
	for _, f := range change {
		f(&opts)
	}
	r.server = New(opts)
	r.Server = httptest.NewServer(r.server)
	r.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	t.Cleanup(func() {
		r.Close()
		if err := r.handler.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// logged is the log so far, once the server has written it.
func (r *rig) logged() string {
	r.Server.Close() // waits for the handlers
	r.handler.Flush()
	return r.log.String()
}

func found(config *model.Config) decide.ConfigDecision {
	return decide.ConfigDecision{
		Identity: decide.Identity{Host: testHost, FoundBy: "address"}, Config: config, Tier: match.Labels,
	}
}

func failing(kind fault.Kind, sentence string) decide.ConfigDecision {
	return decide.ConfigDecision{Err: fault.New(kind, sentence)}
}

func changed(change func(*model.Config)) *model.Config {
	c := *testConfig
	change(&c)
	return &c
}

func do(t *testing.T, r *rig, method, target string, header http.Header) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, r.URL+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		req.Header = header
	}
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestAnswers(t *testing.T) {
	kickstart := changed(func(c *model.Config) { c.Type = "kickstart"; c.Artifact = []byte("lang en_US\n") })
	big := changed(func(c *model.Config) { c.Artifact = bytes.Repeat([]byte("x"), 1<<20); c.Revision = 99 })
	for _, c := range []struct {
		name     string
		method   string // GET
		target   string // PathIgnition
		header   http.Header
		decision decide.ConfigDecision
		unready  bool

		status int
		body   string
		want   map[string]string // "" : absent
	}{
		{name: "found", decision: found(testConfig), status: 200, body: testBody, want: map[string]string{
			"Content-Type": "application/vnd.coreos.ignition+json", "Content-Length": "32", "ETag": `"sha256:abc"`,
			"Cache-Control":     "no-store",
			"X-Glowplug-Config": "g10/coreos-builder", "X-Glowplug-Match": "labels", "X-Glowplug-Stale": "",
			"Vary":             "Accept, User-Agent",
			"Content-Encoding": "", "Location": "", "Transfer-Encoding": "",
		}},
		{name: "another form", decision: decide.ConfigDecision{Identity: decide.Identity{Host: testHost}, Config: testConfig,
			Tier: match.Default, Form: &decide.Form{
				Version: "3.0.0", Bytes: []byte(`{"ignition":{"version":"3.0.0"}}`), Hash: "sha256:def", ETag: `"sha256:def"`,
			}}, status: 200, body: `{"ignition":{"version":"3.0.0"}}`, want: map[string]string{
			"Content-Type": "application/vnd.coreos.ignition+json", "Content-Length": "32", "ETag": `"sha256:def"`,
			"Vary": "Accept, User-Agent",
		}},
		{name: "another form, same", header: http.Header{"If-None-Match": {`"sha256:def"`}},
			decision: decide.ConfigDecision{Config: testConfig, Form: &decide.Form{
				Version: "3.0.0", Bytes: []byte(`{"ignition":{"version":"3.0.0"}}`), Hash: "sha256:def", ETag: `"sha256:def"`,
			}}, status: 304},
		{name: "gzip offered", decision: found(testConfig), header: http.Header{"Accept-Encoding": {"gzip, br"}}, status: 200,
			body: testBody, want: map[string]string{"Content-Encoding": ""}},
		{name: "big", decision: found(big), status: 200, body: string(big.Artifact),
			want: map[string]string{"Content-Length": "1048576"}},
		{name: "head", method: "HEAD", decision: found(testConfig), status: 200, want: map[string]string{
			"Content-Type": "application/vnd.coreos.ignition+json", "Content-Length": "32", "ETag": `"sha256:abc"`,
		}},
		{name: "stale", decision: found(changed(func(c *model.Config) { c.Stale = true })), status: 200, body: testBody,
			want: map[string]string{"X-Glowplug-Stale": "true"}},
		{name: "default tier", decision: decide.ConfigDecision{Config: testConfig, Tier: match.Default}, status: 200,
			body: testBody, want: map[string]string{"X-Glowplug-Match": "default"}},
		{name: "kickstart", target: PathKickstart, decision: found(kickstart), status: 200, body: "lang en_US\n",
			want: map[string]string{"Content-Type": "text/plain; charset=utf-8"}},
		{name: "kickstart from ignition", decision: found(kickstart), status: 200, body: "lang en_US\n",
			want: map[string]string{"Content-Type": "text/plain; charset=utf-8"}},
		{name: "raw", target: PathIgnition + "?format=raw", decision: found(testConfig), status: 200, body: "variant: fcos\n",
			want: map[string]string{
				"Content-Type": "text/plain; charset=utf-8", "Content-Length": "14",
				"ETag": `"sha256:102fb15babdc6c0c5fb7e14a02e96b38167144931a70eca99e26efa2341e3951"`,
			}},
		{name: "raw, never compiled", target: PathIgnition + "?format=raw",
			decision: found(changed(func(c *model.Config) { c.Artifact, c.Hash, c.ETag = nil, "", "" })), status: 200,
			body: "variant: fcos\n"},
		{name: "raw of a stale one", target: PathIgnition + "?format=raw",
			decision: found(changed(func(c *model.Config) { c.Stale = true })), status: 200, body: "variant: fcos\n",
			want: map[string]string{"X-Glowplug-Stale": ""}},

		{name: "same", header: http.Header{"If-None-Match": {`"sha256:abc"`}}, decision: found(testConfig), status: 304,
			want: map[string]string{
				"ETag": `"sha256:abc"`, "Cache-Control": "no-store", "X-Glowplug-Config": "g10/coreos-builder", "Content-Type": "",
				"Content-Length": "",
			}},
		{name: "same, HEAD", method: "HEAD", header: http.Header{"If-None-Match": {`"x", W/"sha256:abc"`}},
			decision: found(testConfig), status: 304},
		{name: "other", header: http.Header{"If-None-Match": {`"sha256:abd"`}}, decision: found(testConfig), status: 200,
			body: testBody},
		{name: "raw is another thing", target: PathIgnition + "?format=raw",
			header: http.Header{"If-None-Match": {`"sha256:abc"`}}, decision: found(testConfig), status: 200,
			body: "variant: fcos\n"},
		{name: "failed, with a condition", header: http.Header{"If-None-Match": {"*"}}, decision: failing(fault.NoMatch,
			"no config matches"), status: 404, body: "no config matches\n"},

		{name: "no match", decision: failing(fault.NoMatch, "no config matches"), status: 404, body: "no config matches\n",
			want: map[string]string{
				"Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store", "ETag": "", "Retry-After": "",
				"X-Glowplug-Config": "",
			}},
		{name: "no match, HEAD", method: "HEAD", decision: failing(fault.NoMatch, "no config matches"), status: 404,
			want: map[string]string{"Content-Length": "18"}},
		{name: "refused", decision: failing(fault.Refused, "not yours"), status: 403, body: "not yours\n"},
		{name: "not acceptable", decision: decide.ConfigDecision{Config: testConfig, Err: fault.New(fault.NotAcceptable,
			"too new")}, status: 406, body: "too new\n", want: map[string]string{"X-Glowplug-Config": "",
			"Vary": "Accept, User-Agent"}},
		{name: "unavailable", decision: failing(fault.Unavailable, "never compiled"), status: 503, body: "never compiled\n",
			want: map[string]string{"Retry-After": "5"}},
		{name: "lines in a sentence", decision: failing(fault.Refused, "a\r\nb\x00"), status: 403, body: "a  b \n"},
		{name: "long sentence", decision: failing(fault.Refused, strings.Repeat("é", 5000)), status: 403,
			body: strings.Repeat("é", 512) + "\n"},
		{name: "nothing compiled", decision: found(changed(func(c *model.Config) { c.Artifact = nil })), status: 503,
			want: map[string]string{"Retry-After": "5"}},
		{name: "no config at all", decision: decide.ConfigDecision{}, status: 503,
			want: map[string]string{"Retry-After": "5"}},
		{name: "not ready", unready: true, decision: found(testConfig), status: 503,
			want: map[string]string{"Retry-After": "5", "Content-Type": "text/plain; charset=utf-8"}},
		{name: "malformed", target: PathIgnition + "?mac=nonsense", decision: found(testConfig), status: 400,
			body: "the parameter mac is malformed: want six bytes such as ac:1f:6b:8a:a7:9c\n"},
		{name: "percent", target: PathIgnition + "?hostname=a%zz", decision: found(testConfig), status: 400},
		{name: "newline", target: PathIgnition + "?hostname=a%0d%0aSet-Cookie:x", decision: found(testConfig), status: 400,
			want: map[string]string{"Set-Cookie": ""}},
		{name: "NUL", target: PathIgnition + "?role=a%00", decision: found(testConfig), status: 400},
		{name: "8 KB", target: PathIgnition + "?x=" + strings.Repeat("y", 8<<10), decision: found(testConfig), status: 200,
			body: testBody},
		{name: "8 KB of a claim", target: PathIgnition + "?hostname=" + strings.Repeat("y", 8<<10),
			decision: found(testConfig), status: 400},

		{name: "POST", method: "POST", decision: found(testConfig), status: 405,
			body: "only GET and HEAD are answered here\n", want: map[string]string{"Allow": "GET, HEAD",
				"Content-Type": "text/plain; charset=utf-8"}},
		{name: "PUT", method: "PUT", decision: found(testConfig), status: 405, want: map[string]string{"Allow": "GET, HEAD"}},
		{name: "OPTIONS", method: "OPTIONS", decision: found(testConfig), status: 405,
			want: map[string]string{"Allow": "GET, HEAD"}},
		{name: "nonsense", method: "BREW", decision: found(testConfig), status: 405},
		{name: "another path", target: "/api/v1/ignition/x", decision: found(testConfig), status: 404,
			want: map[string]string{"Location": ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.decision)
			r.ready = !c.unready
			if c.method == "" {
				c.method = "GET"
			}
			if c.target == "" {
				c.target = PathIgnition
			}
			resp, body := do(t, r, c.method, c.target, c.header)
			if resp.StatusCode != c.status {
				t.Errorf("status %d; want %d (%s)", resp.StatusCode, c.status, body)
			}
			if c.body != "" && body != c.body || c.method == "HEAD" && body != "" {
				t.Errorf("body %.200q; want %.200q", body, c.body)
			}
			if resp.StatusCode == 200 && c.method == "GET" && body == "" {
				t.Error("an empty 200")
			}
			if len(resp.TransferEncoding) > 0 {
				t.Errorf("Transfer-Encoding %v", resp.TransferEncoding)
			}
			for key, want := range c.want {
				if got := resp.Header.Get(key); got != want {
					t.Errorf("%s: %q; want %q", key, got, want)
				}
			}
		})
	}
}

func TestMatchesAny(t *testing.T) {
	const etag = `"sha256:abc"`
	for list, want := range map[string]bool{
		etag: true, "W/" + etag: true, `"x",` + etag: true, `"x" , W/"y",, ` + etag: true, "*": true, ` * `: true,
		`"x", *`: true, `"a,b", ` + etag: true,
		"": false, `"sha256:ab"`: false, "sha256:abc": false, `"sha256:abc`: false, `W/`: false, `w/` + etag: false,
		`"x`: false, `x, ` + etag: false,
		strings.Repeat(`"x",`, 10000) + etag: true,
	} {
		if got := matchesAny([]string{list}, etag); got != want {
			t.Errorf("matchesAny(%.60q) = %v", list, got)
		}
	}
	if !matchesAny([]string{`"x"`, etag}, etag) || matchesAny(nil, etag) {
		t.Error("all lines count")
	}
}

func TestWhatIsAsked(t *testing.T) {
	r := newRig(t, found(testConfig))
	r.believe = true
	do(t, r, "GET", PathKickstart, http.Header{"Accept": {"a/b", "c/d;q=0.5"}})
	if got := r.decider.last; got.Type != "kickstart" || got.Accept != "a/b, c/d;q=0.5" ||
		got.Caller.Addr != netip.MustParseAddr("127.0.0.1") || got.Caller.Believed {
		t.Errorf("asked %+v", got)
	}
	do(t, r, "GET", PathIgnition+"?role=builder", nil)
	if got := r.decider.last; got.Type != "ignition" || got.Claims.Role != "builder" || !got.Caller.Believed ||
		got.Accept != "" {
		t.Errorf("asked %+v", got)
	}
}

func TestJournalAndMetrics(t *testing.T) {
	decision := found(testConfig)
	decision.Notices = []decide.Notice{{Reason: decide.ReasonClaimIgnored, Host: testHost}}
	r := newRig(t, decision)
	do(t, r, "GET", PathIgnition, nil)
	do(t, r, "HEAD", PathIgnition, nil)
	do(t, r, "GET", PathIgnition+"?format=raw", nil)
	do(t, r, "GET", PathIgnition, http.Header{"If-None-Match": {"*"}})
	do(t, r, "POST", PathIgnition, nil)
	r.Server.Close()
	if want := []string{"g10/server1 g10/coreos-builder",
		"g10/server1 g10/coreos-builder"}; !slices.Equal(r.journal.served, want) {
		t.Errorf("served %q", r.journal.served)
	}
	if len(r.journal.notices) != 4 {
		t.Errorf("notices %q", r.journal.notices)
	}
	want := `
# HELP glowplug_boot_requests_total Requests for configs, scripts, assets and reports, by endpoint, ` +
		`HTTP status and the tier that chose the config.
# TYPE glowplug_boot_requests_total counter
glowplug_boot_requests_total{code="200",endpoint="asset",tier="none"} 0
glowplug_boot_requests_total{code="200",endpoint="ignition",tier="labels"} 3
glowplug_boot_requests_total{code="200",endpoint="ignition",tier="none"} 0
glowplug_boot_requests_total{code="200",endpoint="kickstart",tier="none"} 0
glowplug_boot_requests_total{code="200",endpoint="other",tier="none"} 0
glowplug_boot_requests_total{code="304",endpoint="ignition",tier="labels"} 1
glowplug_boot_requests_total{code="405",endpoint="ignition",tier="none"} 1
`
	err := testutil.GatherAndCompare(r.metrics, strings.NewReader(want), "glowplug_boot_requests_total")
	if err != nil {
		t.Error(err)
	}
}

var changing = regexp.MustCompile(`time=\S+|duration=\S+`)

func TestRequestLog(t *testing.T) {
	for _, c := range []struct {
		name, method, target string
		header               http.Header
		decision             decide.ConfigDecision
		want                 string
	}{
		{"found", "GET", PathIgnition + "?mac=AC1F6B8AA79C&token=hunter2",
			http.Header{"User-Agent": {"Ignition/Debian 2.14.0+ds1-1+b6"}, "X-Forwarded-For": {"6.6.6.6"}}, found(testConfig),
			`T level=INFO msg=request endpoint=ignition method=GET client=127.0.0.1 x_forwarded_for=ignored claim_mac=ac:1f:6b:8a:a7:9c host=g10/server1 found=address tier=labels config=g10/coreos-builder revision=12 hash=sha256:abc status=200 bytes=32 D agent="Ignition/Debian 2.14.0+ds1-1+b6"`},
		{"other hardware than Ethernet", "GET", PathIgnition + "?mac=00-02-C9-03-00-31-78-F2", nil,
			failing(fault.NoMatch, "none"),
			`T level=INFO msg=request endpoint=ignition method=GET client=127.0.0.1 claim_other_mac=00:02:c9:03:00:31:78:f2 status=404 bytes=5 D agent=Go-http-client/1.1 error=none`},
		{"refused", "GET", PathKickstart + "?role=builder&hostname=a&ip=::1&uuid=4C4C4544-0042-3510-8056-B4C04F4E3132",
			http.Header{"User-Agent": {strings.Repeat("x", 500)}}, failing(fault.Refused, "not yours"),
			`T level=WARN msg=request endpoint=kickstart method=GET client=127.0.0.1 claim_ip=::1 claim_uuid=4c4c4544-0042-3510-8056-b4c04f4e3132 claim_hostname=a claim_role=builder status=403 bytes=10 D agent=` + strings.Repeat("x", 128) + ` error="not yours"`},
		{"malformed", "GET", PathIgnition + "?mac=hunter2", nil, found(testConfig),
			`T level=WARN msg=request endpoint=ignition method=GET client=127.0.0.1 status=400 bytes=73 D agent=Go-http-client/1.1 error="the parameter mac is malformed: want six bytes such as ac:1f:6b:8a:a7:9c"`},
		{"head of a stale one", "HEAD", PathIgnition, http.Header{"User-Agent": {"a\"b"}},
			found(changed(func(c *model.Config) { c.Stale = true })),
			`T level=INFO msg=request endpoint=ignition method=HEAD client=127.0.0.1 host=g10/server1 found=address tier=labels config=g10/coreos-builder revision=12 hash=sha256:abc stale=true status=200 bytes=0 D agent="a\"b"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.decision)
			do(t, r, c.method, c.target, c.header)
			got := r.logged()
			if strings.Contains(got, "hunter2") {
				t.Errorf("a secret is in the log: %s", got)
			}
			got = changing.ReplaceAllStringFunc(got, func(s string) string { return strings.ToUpper(s[:1]) })
			if diff := cmp.Diff(c.want+"\n", got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLevels(t *testing.T) {
	for name, c := range map[string]struct {
		level slog.Level
		kind  fault.Kind
		lines int
	}{
		"a miss is not a warning": {slog.LevelWarn, fault.NoMatch, 0},
		"a refusal is":            {slog.LevelWarn, fault.Refused, 1},
		"a fault of ours is more": {slog.LevelError, fault.Internal, 1},
		"a refusal is no error":   {slog.LevelError, fault.Refused, 0},
	} {
		var out bytes.Buffer
		h := logs.NewHandler(&out, logs.Options{Level: c.level})
		s := New(Options{Decider: &fakeDecider{decision: failing(c.kind, "no")},
			Resolver: peer.NewResolver(peer.ResolverOptions{Neighbors: identity.NeighborsOff}), Log: h})
		s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", PathIgnition, nil))
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if got := strings.Count(out.String(), "\n"); got != c.lines {
			t.Errorf("%s: %q", name, out.String())
		}
	}
}

func TestCrash(t *testing.T) {
	r := newRig(t, decide.ConfigDecision{})
	r.decider.crash = true
	resp, body := do(t, r, "GET", PathIgnition, nil)
	if resp.StatusCode != 500 || body != "internal error\n" {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	r.decider.crash = false
	r.decider.decision = found(testConfig)
	if resp, _ = do(t, r, "GET", PathIgnition, nil); resp.StatusCode != 200 {
		t.Errorf("after a panic: %d", resp.StatusCode)
	}
	if got := r.logged(); !strings.Contains(got, "level=ERROR msg=request ") || !strings.Contains(got, "status=500") {
		t.Errorf("log: %s", got)
	}
}

// A name that ends a header line must not, over a plain connection.
func TestNamesAreNoHeaders(t *testing.T) {
	evil := changed(func(c *model.Config) {
		c.Ref = model.Ref{Namespace: "a\r\nX-Evil: 1", Name: "b\nSet-Cookie: x\x00é"}
	})
	r := newRig(t, found(evil))
	conn, err := net.Dial("tcp", r.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", PathIgnition)
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(answer), "\nX-Evil") || strings.Contains(string(answer), "\nSet-Cookie") ||
		!strings.Contains(string(answer), "a??X-Evil: 1/b?Set-Cookie: x??\r\n") {
		t.Errorf("%s", answer)
	}
	if got := r.logged(); strings.Count(got, "\n") != 1 {
		t.Errorf("log: %s", got)
	}
}

// Requests that cannot be are refused before the handler, or by it, and leave
// the server alive.
func TestBrokenRequests(t *testing.T) {
	r := newRig(t, found(testConfig))
	for _, request := range []string{
		"GET " + PathIgnition + "?mac=\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET " + PathIgnition + "?hostname=a%0aX:y HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET " + PathIgnition + "?mac=%zz HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET " + PathIgnition + "?mac=a HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 1.2.3.4\n 5.6.7.8\r\n\r\n",
		"GET /api/v1/ignition%00 HTTP/1.1\r\nHost: x\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
		"GET " + PathIgnition + " HTTP/1.1\r\nHost: x\r\nIf-None-Match: " + strings.Repeat("a", 2<<20) + "\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", r.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		go func() { _, _ = io.WriteString(conn, request) }()
		status := make([]byte, len("HTTP/1.1 400"))
		_, err = io.ReadFull(conn, status)
		conn.Close()
		if err == nil && status[9] != '4' {
			t.Errorf("%.60q: %s", request, status)
		}
	}
	if resp, _ := do(t, r, "GET", PathIgnition, nil); resp.StatusCode != 200 {
		t.Errorf("afterwards: %d", resp.StatusCode)
	}
}

// Paths with a doubled slash or one at the end are answered as without it: a client that boots follows no
// redirect. Paths with dots are answered as they are.
func TestOddPathsAreNotRedirected(t *testing.T) {
	b, _ := rackBoot(t, decide.Policy{})
	r := newRig(t, found(testConfig), func(o *Options) { o.Boot, o.Streams = b, &Streams{} })
	for path, want := range map[string]string{
		"//api/v1/ignition": "200 ignition", "/api/v1/ignition/": "200 ignition", "/api//v1///kickstart//": "200 kickstart",
		"//boot.ipxe": "200 boot.ipxe", "/boot.ipxe/": "200 boot.ipxe", "/%2F/boot.ipxe": "200 boot.ipxe",
		"/assets//x": "404 asset", "/api/v1/../v1/ignition": "404 other", "/": "404 other",
		"/ignition": "404 other", "/metadata": "404 other", "/api/v1/ignition/x": "404 other",
		"/iso": "404 iso", "/iso//g10/none.iso": "404 iso", "/iso/../api/v1/ignition": "404 iso",
		"/streams": "404 stream", "/streams/../x": "404 stream", "/streams/artifacts/../x.json": "404 artifact",
		"/api/v1/%69gnition": "200 ignition", "/boot.ipxe": "200 boot.ipxe",
	} {
		var out bytes.Buffer
		h := logs.NewHandler(&out, logs.Options{})
		r.server.opts.Log = h
		w := httptest.NewRecorder()
		r.server.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		status, endpoint, _ := strings.Cut(want, " ")
		if strconv.Itoa(w.Code) != status || !strings.Contains(out.String(), " endpoint="+endpoint+" ") {
			t.Errorf("%s: %d, %s; want %s", path, w.Code, out.String(), want)
		}
		if endpoint == "other" && !strings.Contains(w.Body.String(), PathIgnition+", "+PathKickstart+", ") {
			t.Errorf("%s: the answer lists no paths: %s", path, w.Body)
		}
	}
}

// TestPathsOfMachines: what is not for the API is answered here, so that no machine is asked for a credential.
func TestPathsOfMachines(t *testing.T) {
	for path, want := range map[string]bool{
		PathIgnition: true, "/" + PathIgnition: true, PathIgnition + "/": true, PathKickstart + "/x": true,
		"//boot.ipxe": true, "/assets//x": true, "/ignition": true, "/metadata": true, "/x": true, "*": true, "/..": true,
		"/": false, "": false, "//": false, "/api": false, "/api/v1": false, "//api/v1/namespaces": false,
		"/api/v1/namespaces/": false, "/apis/x": false, "/openapi/v3": false, "/version": false, "/metrics": false,
		"/api/v1/ignitionconfigs": false, "/api/v1/explain": false,
	} {
		if Answers(path) != want {
			t.Errorf("Answers(%q) = %v", path, !want)
		}
	}
}

// TestPagesOfOtherSitesReadNothing: a page in a browser on a machine, or one that opens a URL there, gets no config
// and changes no state of the machine.
func TestPagesOfOtherSitesReadNothing(t *testing.T) {
	for _, c := range []struct {
		header http.Header
		want   int
	}{
		{http.Header{"Origin": {"https://evil.example"}}, 403},
		{http.Header{"Origin": {"null"}}, 403},
		{http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		{http.Header{"Sec-Fetch-Site": {"same-site"}}, 403},
		{http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}}, 403},
		{http.Header{"Sec-Fetch-Site": {"none"}}, 200},
		{http.Header{"Sec-Fetch-Site": {"same-origin"}}, 200},
		{http.Header{}, 200},
	} {
		r := newRig(t, found(testConfig))
		resp, body := do(t, r, "GET", PathIgnition, c.header)
		if resp.StatusCode != c.want || c.want == 403 && !strings.Contains(body, "a page of another site") {
			t.Errorf("%v: %d %s", c.header, resp.StatusCode, body)
		}
	}
}

// TestSighting: what a machine says of itself is read as iPXE writes it.
func TestSighting(t *testing.T) {
	for query, want := range map[string]string{
		"product=X11+%20Pro&arch=i386&platform=pcbios":    "X11+ Pro x86",
		"product=a%2Bb%20c&arch=i386&platform=efi":        "a+b c i386",
		"product=N100&arch=x86_64&platform=efi&serial=%z": "N100 x86_64",
	} {
		s := sighting(httptest.NewRequest("GET", "/ipxe?"+query, nil), &request{}, &decide.Identity{})
		if got := s.Product + " " + s.Arch; got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

// TestOtherMACIsCarriedOn: a machine that is found by a hardware address that is none of Ethernet is found by it
// when it reads its image, and one that is not known is listed with all that it claims.
func TestOtherMACIsCarriedOn(t *testing.T) {
	const port, guid = "80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:31:78:f2", "00:02:c9:03:00:31:78:f2"
	mac := netaddr.MAC{2, 0, 0, 0, 0x21, 1}
	req := &request{}
	req.Claims.MAC, req.Claims.OtherMAC = mac, port
	for want, macs := range map[string][]netaddr.MAC{"?mac=" + port: nil, "?mac=" + mac.String(): {mac}} {
		b := decide.BootDecision{Identity: decide.Identity{Host: &model.Host{MACs: macs}, FoundBy: "mac"}}
		if got := claimed(req, &b); got != want {
			t.Errorf("claims %s, want %s", got, want)
		}
	}
	req.Cards = []identity.Card{{MAC: mac}, {OtherMAC: guid}, {OtherMAC: port}}
	s := sighting(httptest.NewRequest("GET", "/ipxe", nil), req, &decide.Identity{})
	if got := fmt.Sprint(s.OtherMACs); got != "["+port+" "+guid+"]" || s.MAC != mac {
		t.Errorf("seen %s, %s", s.MAC, got)
	}
}

// TestCardsOfAnaconda: each header of inst.ks.sendmac is a claim of a MAC, unless the URL has one.
func TestCardsOfAnaconda(t *testing.T) {
	const port, guid = "80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:31:78:f2", "00:02:c9:03:00:31:78:f2"
	h := http.Header{}
	for i, value := range []string{"enp1s0f0 02:00:00:00:21:01", "ib0 " + port, "enp1s0f1 02-00-00-00-21-02", "bond0 02:00:00:00:21:01", "nonsense"} {
		h.Set("X-RHN-Provisioning-MAC-"+strconv.Itoa(i), value)
	}
	r := newRig(t, found(testConfig))
	for query, want := range map[string]string{
		"":                       "[02:00:00:00:21:01 02:00:00:00:21:02 " + port + "]",
		"?mac=02-00-00-00-21-03": "[]",
		"?mac=" + guid:           "[02:00:00:00:21:01 02:00:00:00:21:02 " + guid + " " + port + "]",
	} {
		do(t, r, "GET", PathKickstart+query, h)
		req := r.decider.last
		if got := fmt.Sprint(req.Cards); got != want || query == "" && req.Claims.MAC != req.Cards[0].MAC {
			t.Errorf("%s: cards %s, want %s; claims %+v", query, got, want, req.Claims)
		}
	}
}

func TestAllocations(t *testing.T) {
	h := logs.NewHandler(io.Discard, logs.Options{})
	defer h.Close()
	s := New(Options{
		Decider: &fakeDecider{decision: found(testConfig)}, Log: h, Journal: nil,
		Resolver: peer.NewResolver(peer.ResolverOptions{Neighbors: identity.NeighborsOff}),
	})
	req := httptest.NewRequest("GET", PathIgnition, nil)
	w := &discardWriter{header: make(http.Header)}
	if n := testing.AllocsPerRun(200, func() { s.ServeHTTP(w, req) }); n > 20 {
		t.Errorf("%v allocations a request", n)
	}
}

// discardWriter is a ResponseWriter that costs nothing.
type discardWriter struct{ header http.Header }

func (w *discardWriter) Header() http.Header         { return w.header }
func (w *discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *discardWriter) WriteHeader(int)             {}
