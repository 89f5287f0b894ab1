package snapshot

import (
	"encoding/json"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/kvstore"
)

// Outline returns the part of a stored config that decides which machines it matches, in the
// form of the whole; "": the config cannot be read.
func Outline(value []byte) string {
	var stored storedConfig
	if err := read(value, &stored); err != nil {
		return ""
	}
	var o struct {
		Metadata struct {
			Created time.Time         `json:"creationTimestamp"`
			Labels  map[string]string `json:"labels,omitempty"`
		} `json:"metadata"`
		Spec struct {
			Type     string                    `json:"type"`
			Selector v1.IgnitionConfigSelector `json:"selector"`
		} `json:"spec"`
	}
	o.Metadata.Created = time.Time(stored.Metadata.Created)
	if role := stored.Metadata.Labels[v1.LabelRole]; role != "" {
		o.Metadata.Labels = map[string]string{v1.LabelRole: role}
	}
	o.Spec.Type, o.Spec.Selector = stored.Spec.Type, stored.Spec.Selector
	text, err := json.Marshal(o)
	if err != nil {
		return ""
	}
	return string(text)
}

// ReadOutline returns a config without an artifact from the outline of the config with that
// key; nil where the outline is "" or cannot be read.
func ReadOutline(key, text string) *Config {
	if text == "" {
		return nil
	}
	config, err := decodeConfig(kvstore.Item{Key: key, Value: []byte(text)}, nil)
	if err != nil {
		return nil
	}
	return config
}
