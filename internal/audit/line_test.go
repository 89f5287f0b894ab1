package audit

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
)

// checkLine checks that the library reads a line, strictly, and writes the same.
func checkLine(t *testing.T, a *Answer) {
	t.Helper()
	line := appendLine(nil, a, a.At.Add(time.Millisecond))
	if !bytes.HasSuffix(line, []byte("}\n")) || bytes.Count(line, []byte("\n")) != 1 || len(line) > pieceSize/4 {
		t.Fatalf("%d bytes: %q", len(line), line)
	}
	strict := serializer.NewCodecFactory(audit.Scheme, serializer.EnableStrict).UniversalDecoder()
	event, _, err := strict.Decode(line, nil, nil)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	again, err := runtime.Encode(audit.Codecs.LegacyCodec(auditv1.SchemeGroupVersion), event)
	if err != nil {
		t.Fatal(err)
	}
	var got, want map[string]any
	if json.Unmarshal(line, &got) != nil || json.Unmarshal(again, &want) != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("ours\n%s\nof the library\n%s", line, again)
	}
}

// TestLineIsThatOfTheLibrary: the library writes an answer in the same way.
func TestLineIsThatOfTheLibrary(t *testing.T) {
	at := time.Date(2026, 11, 26, 20, 0, 0, 120_000, time.FixedZone("", 3600))
	long := strings.Repeat("\x00<", 10_000)
	for _, a := range []Answer{
		{At: at, Status: 200, User: anonymous},
		{
			At: at, Verb: "get", Path: "/api/v1/ignition", Query: "mac=52:54:00:00:00:01&token=x&hostname=\"<>&\xff",
			Status: 200, Agent: "Ignition/2.14.0", From: netip.MustParseAddr("2001:db8::1"), User: anonymous,
			Object: Object{"ignitionconfigs", "rack", "builder", 7},
			Host:   Name{"rack", "one"}, FoundBy: "mac", MatchedBy: "labels", Hash: "sha256:abc", Pointer: true,
		},
		{
			At: at, Verb: "login", Path: PathISCSI + "iqn", Status: 403, Failure: " it is \"refused\" \n",
			User: anonymous, Object: Object{Resource: "iscsicdroms"}, FoundBy: "address",
		},
		{At: at, Status: 418, User: &user.DefaultInfo{Name: "ann", UID: "1", Groups: []string{"a", "b"}}, Hash: "h"},
		{
			At: at, Verb: long, Path: long, Query: "mac=" + long, Agent: long, Failure: long, Status: 503,
			User: anonymous, Object: Object{"ignitionconfigs", long, long, 7},
		},
	} {
		checkLine(t, &a)
	}
}

// FuzzLine: whatever a machine sends, its line is one line, and an event.
func FuzzLine(f *testing.F) {
	f.Add("get", "/ipxe", "mac=a", "iPXE/1.21", "the claim does not hold", uint8(203))
	f.Add("\n", "\"", "hostname=\\", "\x7f\u2028", "\xc3", uint8(0))
	f.Fuzz(func(t *testing.T, verb, path, query, agent, failure string, status uint8) {
		checkLine(t, &Answer{
			At: time.Unix(1, 0), Verb: verb, Path: path, Query: query, Agent: agent, Failure: failure,
			Status: 200 + int(status), User: anonymous, Host: Name{"rack", clip(agent, 64)},
		})
	})
}
