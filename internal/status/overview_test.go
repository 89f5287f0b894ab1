package status

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
)

// refused is an answer that refuses a request.
func refused(code int, message string) error {
	return &client.Refused{Code: code, Message: message}
}

// TestOverviewReadsWhatTheUserMayRead: all pages are read. What is refused is left out and named, and a server that
// does not answer is an error.
func TestOverviewReadsWhatTheUserMayRead(t *testing.T) {
	var asked []string
	ask := func(_ context.Context, r client.Request, out any) error {
		asked = append(asked, r.Resource+" "+r.Namespace+" "+r.Query.Get("continue"))
		switch list := out.(type) {
		case *v1.MemberList:
			return refused(http.StatusForbidden, "ann cannot list members")
		case *v1.BareMetalHostList:
			list.Items = make([]v1.BareMetalHost, 1)
			if r.Query.Get("continue") == "" {
				list.Continue = "next"
			}
		case *v1.IgnitionConfigList:
			list.Items = []v1.IgnitionConfig{{Status: v1.IgnitionConfigStatus{Phase: v1.PhaseReady}}}
		}
		return nil
	}
	o, err := Overview(t.Context(), ask, "rack-a", noon)
	if err != nil {
		t.Fatal(err)
	}
	if o.Hosts[v1.StateAvailable] != 2 || o.Configs[v1.PhaseReady] != 1 || o.Images == nil || len(o.Withheld) != 1 ||
		!strings.Contains(o.Withheld[0], "ann cannot list members") {
		t.Errorf("%+v", o)
	}
	want := "members  ,baremetalhosts rack-a ,baremetalhosts rack-a next,iscsicdroms rack-a ,ignitionconfigs rack-a "
	if got := strings.Join(asked, ","); got != want {
		t.Errorf("asked for %s", got)
	}
	old := func(_ context.Context, r client.Request, _ any) error {
		if r.Resource == kinds.Members {
			return refused(http.StatusNotFound, "no such resource")
		}
		return nil
	}
	if o, err := Overview(t.Context(), old, "", noon); err != nil || !strings.Contains(o.Withheld[0], "older") {
		t.Errorf("%+v, %v", o, err)
	}
	damaged := func(_ context.Context, r client.Request, _ any) error {
		if r.Resource == kinds.IgnitionConfigs {
			return refused(http.StatusServiceUnavailable, "the bucket IGNITIONCONFIGS is damaged")
		}
		return nil
	}
	if o, err := Overview(t.Context(), damaged, "", noon); err != nil || o.Hosts == nil || o.Configs != nil ||
		!strings.Contains(o.Text(noon), "Not read:\n- ignitionconfigs: ") {
		t.Errorf("%+v, %v", o, err)
	}
	for _, away := range []error{errors.New("away"), refused(http.StatusServiceUnavailable, "NATS is away")} {
		if _, err := Overview(t.Context(), func(context.Context, client.Request, any) error { return away }, "", noon); err == nil {
			t.Errorf("a server that answers nothing is no error: %v", away)
		}
	}
}
