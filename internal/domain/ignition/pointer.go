package ignition

import (
	"encoding/base64"
	"encoding/json"
	"slices"
)

// pointerVersions are the oldest versions of both families whose configs can name CAs: a client that reads
// a newer version of a family reads these, too.
var pointerVersions = []string{"3.0.0", "2.2.0"}

const needsPointer = "the client reads no Ignition spec in which a config can name a CA, which are 2.2.0 and later"

// Pointer returns a pointer config: one without content of its own, which has the client fetch its config
// from a URL over HTTPS, and trust the CAs, each in PEM, besides its own ones (ignition.config.replace and
// ignition.security.tls of the specification). accept and userAgent are the headers of the client, and
// asked is the version in its request, or empty. If the client reads no version with these fields, there
// is no config, and reason is a sentence without a full stop.
func Pointer(accept Accept, userAgent, asked, url string, authorities [][]byte) (config []byte, reason string) {
	if asked != "" {
		accept, userAgent = ParseAccept(AcceptOf(asked)), ""
	}
	wanted, _ := Negotiate(accept, userAgent, "", pointerVersions[0])
	i := slices.IndexFunc(pointerVersions, func(v string) bool { return slices.Contains(wanted, v) })
	if i < 0 {
		return nil, needsPointer
	}
	type source struct {
		Source string `json:"source"`
	}
	var pointer struct {
		Ignition struct {
			Version string `json:"version"`
			Config  struct {
				Replace source `json:"replace"`
			} `json:"config"`
			Security struct {
				TLS struct {
					Authorities []source `json:"certificateAuthorities"`
				} `json:"tls"`
			} `json:"security"`
		} `json:"ignition"`
	}
	pointer.Ignition.Version = pointerVersions[i]
	pointer.Ignition.Config.Replace.Source = url
	tls := &pointer.Ignition.Security.TLS
	for _, ca := range authorities { // older releases of Ignition read the first certificate of a source alone
		tls.Authorities = append(tls.Authorities, source{"data:;base64," + base64.StdEncoding.EncodeToString(ca)})
	}
	config, _ = json.Marshal(pointer) // a struct of texts
	return config, ""
}
