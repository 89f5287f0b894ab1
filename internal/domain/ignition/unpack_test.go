package ignition

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
)

func packed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dataURL(b.Bytes())
}

// Ignition fails on compressed data URLs in the versions before 3.1.0.
func TestDataIsUnpackedForVersionsBefore31(t *testing.T) {
	hash := `"verification":{"hash":"sha512-` + strings.Repeat("ab", 64) + `"}`
	file := func(source, compression string) string {
		return `"storage":{"files":[{"contents":{` + compression + `"source":"` + source + `",` + hash +
			`},"mode":420,"overwrite":true,"path":"/a"}]}`
	}
	const gz = `"compression":"gzip",`
	source := file(packed(t, "text"), gz)
	plain := dataURL([]byte("text"))
	becomes(t, "3.4.0", "3.1.0", source, source)
	becomes(t, "3.4.0", "3.0.0", source, file(plain, ""))
	becomes(t, "3.4.0", "2.1.0", source,
		strings.Replace(file(plain, ""), `"mode":420,"overwrite":true,`, `"filesystem":"root","mode":420,`, 1))
	becomes(t, "3.4.0", "3.0.0", file("https://example.com/a", gz), file("https://example.com/a", gz))
	// Certificates and keys too.
	becomes(t, "3.4.0", "3.0.0", `"ignition":{"security":{"tls":{"certificateAuthorities":[{`+gz+`"source":"`+packed(t, "text")+
		`"}]}},"version":"VERSION"}`, `"ignition":{"security":{"tls":{"certificateAuthorities":[{"source":"`+plain+
		`"}]}},"version":"VERSION"}`)

	becomes(t, "3.4.0", "3.0.0", file("data:,abc", gz), "$.storage.files.0.contents.source")
	bomb := file(packed(t, strings.Repeat("a", maxUnpackedBytes+1)), gz)
	becomes(t, "3.4.0", "3.0.0", bomb, "$.storage.files.0.contents.source")
	becomes(t, "3.4.0", "3.1.0", bomb, bomb)
	half := `{"contents":{"compression":"gzip","source":"` + packed(t, strings.Repeat("a", maxUnpackedBytes/2+1)) + `"},"path":"/`
	becomes(t, "3.4.0", "3.0.0", `"storage":{"files":[`+half+`a"},`+half+`b"},`+half+`c"}]}`, "$.storage.files.1.contents.source")
}
