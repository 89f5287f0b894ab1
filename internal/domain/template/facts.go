package template

import (
	"crypto/sha256"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Facts are what a template can name of a host. An empty text is not known: a
// template that names it fails.
type Facts struct {
	// Hostname, IP and MAC are those of the machine: of the card that it boots from,
	// else of the first further card that has one.
	Hostname, IP, MAC string
	// Namespace and Name are the BareMetalHost's; a machine that is no known host has
	// none.
	Namespace, Name string
	// Labels is metadata.labels overlaid by spec.labels.
	Labels map[string]string
	// Annotations are those of the object, without kubectl's copy of it.
	Annotations map[string]string
	// NICs are the further network cards of spec.nics.
	NICs []NIC
}

// NIC is a network card. An empty text is not known.
type NIC struct{ MAC, IP, Hostname string }

// Key identifies facts: a template renders the same text for the same key.
type Key [sha256.Size]byte

// Key hashes the facts.
func (f *Facts) Key() Key {
	text, _ := json.Marshal(f, json.Deterministic(true), jsontext.AllowInvalidUTF8(true)) // of strings alone
	return sha256.Sum256(text)
}

// known are the facts, as a template names them.
var known = []string{"Hostname", "IP", "MAC", "Namespace", "Name", "Labels", "Annotations", "NICs"}

// data is what the template is given: maps, so that a fact that is not known is a
// missing key.
func (f *Facts) data() map[string]any {
	out := map[string]any{"Labels": values(f.Labels), "Annotations": values(f.Annotations)}
	for key, value := range map[string]string{
		"Hostname": f.Hostname, "IP": f.IP, "MAC": f.MAC, "Namespace": f.Namespace, "Name": f.Name,
	} {
		put(out, key, value)
	}
	nics := make([]any, len(f.NICs))
	for i, n := range f.NICs {
		card := map[string]any{}
		put(card, "MAC", n.MAC)
		put(card, "IP", n.IP)
		put(card, "Hostname", n.Hostname)
		nics[i] = card
	}
	out["NICs"] = nics
	return out
}

func put(to map[string]any, key, value string) {
	if value != "" {
		to[key] = value
	}
}

func values(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}
