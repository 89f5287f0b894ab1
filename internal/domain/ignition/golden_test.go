package ignition

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGoldenForms writes down what each source in testdata/convert is in every
// version, or which fields are in the way.
func TestGoldenForms(t *testing.T) {
	sources, err := filepath.Glob("testdata/convert/*.ign")
	if err != nil || len(sources) == 0 {
		t.Fatalf("no sources: %v", err)
	}
	for _, name := range sources {
		t.Run(filepath.Base(name), func(t *testing.T) {
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			for _, version := range Versions() {
				out, losses, err := Convert(raw, version)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&got, "== %s\n", version)
				for _, l := range losses {
					fmt.Fprintln(&got, l)
				}
				if len(losses) == 0 {
					fmt.Fprintf(&got, "%s\n", bytes.TrimSpace(out))
				}
			}
			golden := name[:len(name)-len(".ign")] + ".forms"
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("got\n%s\nwant\n%s", got.Bytes(), want)
			}
		})
	}
}

// FuzzConvert holds conversions of anything against their promises: a result is
// valid and of its version, a refusal names fields, and both are always the same.
func FuzzConvert(f *testing.F) {
	for i := range family {
		for seed := range int64(3) {
			f.Add(generate(seed, &family[i]), uint8(seed*5+int64(i)))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, to uint8) {
		target := &family[int(to)%len(family)]
		out, losses, err := Convert(raw, target.name)
		if err != nil {
			return
		}
		again, _, _ := Convert(raw, target.name)
		if !bytes.Equal(out, again) {
			t.Errorf("two results:\n%s\n%s", out, again)
		}
		if (out == nil) != (len(losses) > 0) {
			t.Errorf("%q beside %v", out, losses)
		}
		if out == nil {
			return
		}
		if version, r := Validate(out); version != target.name {
			t.Errorf("%s to %s: %q %v", raw, target.name, out, r.Strings())
		}
		if twice, more, err := Convert(out, target.name); err != nil || len(more) > 0 || !bytes.Equal(twice, out) {
			t.Errorf("%s becomes %s", out, twice)
		}
	})
}

func BenchmarkServable(b *testing.B) {
	raw, err := os.ReadFile("testdata/convert/coreos.ign")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Servable(raw); err != nil {
			b.Fatal(err)
		}
	}
}
