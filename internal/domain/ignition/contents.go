package ignition

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/vincent-petithory/dataurl"
)

// Contents judges the contents that are in a config, in data: URLs, and bounds what it unpacks for all
// of them. The zero value is ready.
type Contents struct{ unpacked int }

// Fault says why Ignition fails on a resource, as decompressCopyHashAndVerify of
// internal/resource/url.go does; "": its content is not in the config, or nothing is wrong with it.
func (c *Contents) Fault(r Resource) string {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	return c.fault(text(r.Source), text(r.Compression), text(r.Verification.Hash))
}

func (c *Contents) fault(source, compression, want string) string {
	if !isData(source) || compression != "gzip" && want == "" || c.unpacked > maxUnpackedBytes {
		return ""
	}
	url, err := dataurl.DecodeString(source)
	if err != nil {
		return "" // the validation says it
	}
	var content io.Reader = bytes.NewReader(url.Data)
	if compression == "gzip" {
		if content, err = gzip.NewReader(content); err != nil {
			return "the content in the data: URL is not the gzip that compression says"
		}
	}
	algorithm, sum, _ := strings.Cut(want, "-")
	var hasher hash.Hash
	switch algorithm {
	case "sha256":
		hasher = sha256.New()
	case "sha512":
		hasher = sha512.New()
	default:
		hasher, sum = sha256.New(), ""
	}
	read, err := io.Copy(hasher, io.LimitReader(content, int64(maxUnpackedBytes-c.unpacked+1)))
	c.unpacked += int(read)
	switch got := hex.EncodeToString(hasher.Sum(nil)); {
	case c.unpacked > maxUnpackedBytes:
		return "" // too much to judge
	case err != nil:
		return "the gzip in the data: URL is damaged: " + oneLine(err.Error())
	case sum != "" && sum != got:
		return fmt.Sprintf("the content in the data: URL has the hash %s-%s, and the config says another", algorithm, got)
	}
	return ""
}
