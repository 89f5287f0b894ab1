package cli

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"glowplug/internal/backend"
)

// TestRemedyOfARestore: what is the matter with a file is not taken for an error of NATS.
func TestRemedyOfARestore(t *testing.T) {
	o := &backend.RestoreOptions{}
	o.NATSURL = "nats://127.0.0.1"
	for _, test := range []struct {
		err  error
		hint string
	}{
		{errors.New("no answer"), "is NATS running with JetStream"},
		{&fs.PathError{Op: "mkdir", Path: "/data", Err: fs.ErrPermission}, "check the owners and modes of /data and the folders"},
	} {
		if hint := hintOf(restoreError(test.err, o), &cobra.Command{}); !strings.Contains(hint, test.hint) {
			t.Errorf("%v: the hint is %q", test.err, hint)
		}
	}
	started := &fs.PathError{Op: "stat", Path: "/data/pki/ca.key", Err: fs.ErrPermission}
	if hint := hintOf(started, &cobra.Command{}); !strings.Contains(hint, "check the owners and modes of /data/pki/ca.key") {
		t.Errorf("of a start: %q", hint)
	}
}
