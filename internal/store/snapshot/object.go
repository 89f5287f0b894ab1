package snapshot

import (
	"encoding/json"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/kvstore"
)

// HostFrom gives an object as it would be once it is stored; nil where it cannot be
// read.
func HostFrom(host *v1.BareMetalHost) *Host { return from(host.Namespace, host.Name, host, decodeHost) }

// ImageFrom is HostFrom for an image.
func ImageFrom(cdrom *v1.ISCSICdrom) *Image {
	return from(cdrom.Namespace, cdrom.Name, cdrom, decodeImage)
}

// ConfigFrom is HostFrom for a config.
func ConfigFrom(config *v1.IgnitionConfig) *Config {
	return from(config.Namespace, config.Name, struct {
		*v1.IgnitionConfig
		Compiled *v1.Compiled `json:"compiled,omitempty"`
	}{config, config.Compiled}, decodeConfig)
}

func from[T any](namespace, name string, object any, decode func(kvstore.Item, *interner) (*T, error)) *T {
	value, err := json.Marshal(object)
	if err != nil {
		return nil
	}
	found, err := decode(kvstore.Item{Key: namespace + "/" + name, Value: value}, nil)
	if err != nil {
		return nil
	}
	return found
}
