package snapshot

import (
	"encoding/json"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/kvstore"
)

// outline is the part of a config that decides which machines it is given to, in
// the form of the whole.
type outline struct {
	Metadata outlineMeta `json:"metadata"`
	Spec     outlineSpec `json:"spec"`
}

type outlineMeta struct {
	Created time.Time         `json:"creationTimestamp"`
	Labels  map[string]string `json:"labels,omitempty"`
}

type outlineSpec struct {
	Type     string                    `json:"type"`
	Selector v1.IgnitionConfigSelector `json:"selector"`
}

// Outline returns of a stored config what ReadOutline needs; "" of one that cannot be
// read.
func Outline(value []byte) string {
	var stored storedConfig
	if err := read(value, &stored); err != nil {
		return ""
	}
	o := outline{Spec: outlineSpec{stored.Spec.Type, stored.Spec.Selector}}
	o.Metadata.Created = time.Time(stored.Metadata.Created)
	if role := stored.Metadata.Labels[v1.LabelRole]; role != "" {
		o.Metadata.Labels = map[string]string{v1.LabelRole: role}
	}
	text, err := json.Marshal(o)
	if err != nil {
		return ""
	}
	return string(text)
}

// ReadOutline returns a config that can be matched and has nothing to give, from what
// Outline said of the one with that key; nil where that is not known.
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
