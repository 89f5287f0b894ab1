package backend

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/backup"
	"glowplug/internal/store/kvstore"
)

// TestABackupThatCannotBeRestoredIsRefusedBefore: what would fail while it is written would leave an external NATS
// without a store.
func TestABackupThatCannotBeRestoredIsRefusedBefore(t *testing.T) {
	long := strings.Repeat("x", 2000)
	for name, test := range map[string]struct {
		names []string
		want  string
	}{
		"good":                {[]string{"a", "b"}, ""},
		"an object twice":     {[]string{"a", "a"}, "namespaces a: the backup has it twice"},
		"a name without room": {[]string{long}, "too long"},
	} {
		source := backup.Source{
			Kind: backup.Kind{Resource: kinds.Namespaces, Objects: len(test.names)},
			Records: func(f func(kvstore.Record) bool) {
				for _, name := range test.names {
					f(kvstore.Record{Key: name, Value: fmt.Appendf(nil,
						`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q,"uid":"1"}}`, name)})
				}
			},
			Portable: func(value []byte) ([]byte, error) { return value, nil },
		}
		dir := t.TempDir()
		_, err := backup.Save(dir, func(backup.Manifest) string { return "b" }, nil, func(w io.Writer) error {
			return backup.Write(t.Context(), w, backup.Manifest{}, nil, []backup.Source{source}, func() {})
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = Source{File: dir + "/b"}.Verify()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %.200v, want %q", name, err, test.want)
		}
	}
}
