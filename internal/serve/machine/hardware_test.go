package machine

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/hardware"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/model"
)

// fakeInspections keeps the last report in memory, or fails.
type fakeInspections struct {
	host    string
	disks   int
	reports int
	failure error
}

func (f *fakeInspections) Report(_ context.Context, host *model.Host, details *v1.HardwareDetails) error {
	if f.failure != nil {
		return f.failure
	}
	f.host, f.disks = host.Ref.String(), len(details.Storage)
	f.reports++
	return nil
}

// TestHardware: a known machine reports its hardware, and nobody else does.
func TestHardware(t *testing.T) {
	const report = `{"storage":[{"name":"/dev/sda","sizeBytes":1000}]}`
	inspections := &fakeInspections{}
	post := func(r *rig, query, body string) (int, string) {
		t.Helper()
		url := r.URL + PathHardware + query
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	with := func(b *Boot) { b.Inspections = inspections }
	r, _ := bootRig(t, decide.Policy{Claims: identity.Trust}, with)
	if status, body := post(r, "", report); status != 200 || body != "the hardware of host g10/router is stored\n" ||
		inspections.host != "g10/router" || inspections.disks != 1 {
		t.Errorf("%d %q %+v", status, body, inspections)
	}
	for _, c := range []struct {
		query, body string
		status      int
		sentence    string
	}{
		{"?ip=10.9.9.9", report, 404, "this machine is no known host"},
		{"?mac=x", report, 400, "mac"},
		{"", "text", 400, "the report cannot be used: the report is no JSON object"},
		{"", `{"storage":[{"name":"sda"}]}`, 400, "has to be that of a device"},
		{"", strings.Repeat(" ", hardware.MaxDocument+2), 400, "larger than 1 MiB"},
	} {
		if status, body := post(r, c.query, c.body); status != c.status || !strings.Contains(body, c.sentence) {
			t.Errorf("%s %.40s: %d %q", c.query, c.body, status, body)
		}
	}
	// The rest of a report that is too large is not read.
	large := strings.NewReader(strings.Repeat(" ", 4*hardware.MaxDocument))
	req := httptest.NewRequest(http.MethodPost, PathHardware, large)
	req.RemoteAddr = "127.0.0.1:1"
	answer := httptest.NewRecorder()
	r.server.ServeHTTP(answer, req)
	if answer.Code != 400 || large.Len() < 2*hardware.MaxDocument {
		t.Errorf("%d, %d bytes are left of a large report", answer.Code, large.Len())
	}
	if inspections.reports != 1 {
		t.Errorf("%d reports", inspections.reports)
	}
	inspections.failure = &fault.Error{Kind: fault.Unavailable, Sentence: "later", Cause: errors.New("the store is away")}
	if status, body := post(r, "", report); status != 503 || body != "later\n" {
		t.Errorf("%d %q", status, body)
	}
	if status, _, h := r.do(t, http.MethodGet, PathHardware); status != 405 || h.Get("Allow") != "POST" {
		t.Errorf("GET: %d %v", status, h)
	}
	// The claim of another host does not hold.
	inspections.failure = nil
	r, _ = bootRig(t, decide.Policy{}, with)
	if status, _ := post(r, "?mac=52-54-00-00-00-02", report); status != 403 || inspections.reports != 1 {
		t.Errorf("for another: %d", status)
	}
}
