package objects

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// version is the version of the objects that this program stores. An object of version 1 does not name its
// version. A change of the stored form that an older program would misread gets the next version, and an
// upgrade from the one before.
const version = 2

// versionMember is the last member of a stored object.
const versionMember = `,"storedVersion":`

// newest is the end of an object of this version.
var newest = []byte(versionMember + strconv.Itoa(version) + "}")

// upgrade brings objects of a kind to a version, from the one before it.
type upgrade struct {
	to   int
	kind string
	// concerns reports whether a stored object needs the upgrade: most do not, and are left as they are.
	concerns func(value []byte) bool
	// change changes the JSON of an object.
	change func(object map[string]any)
}

// upgrades are all upgrades, the oldest first.
var upgrades = []upgrade{
	{
		to: 2, kind: "IgnitionConfig", // an entry of status.servable had one version
		concerns: func(value []byte) bool { return bytes.Contains(value, []byte(`{"version":`)) },
		change: func(object map[string]any) {
			status, _ := object["status"].(map[string]any)
			servable, _ := status["servable"].([]any)
			for _, entry := range servable {
				if entry, ok := entry.(map[string]any); ok && entry["version"] != nil {
					entry["versions"] = entry["version"]
					delete(entry, "version")
				}
			}
		},
	},
}

// marked returns a stored object with the version of this program.
func marked(value []byte) []byte {
	return append(bytes.TrimSuffix(value, []byte("}")), newest...)
}

// versionOf returns the version of a stored object.
func versionOf(value []byte) (int, error) {
	if bytes.HasSuffix(value, newest) {
		return version, nil
	}
	if !bytes.Contains(value, []byte(versionMember)) {
		return 1, nil
	}
	var object struct {
		Version int `json:"storedVersion"`
	}
	if err := json.Unmarshal(value, &object); err != nil {
		return 0, err
	}
	return max(object.Version, 1), nil
}

// upgraded returns a stored object of a kind in the version of this program; nil: it can be read as it is. The
// error says that a newer program has stored it. What is no object is left to those who read it.
func upgraded(kind string, value []byte) ([]byte, error) {
	from, err := versionOf(value)
	switch {
	case err != nil || from == version:
		return nil, nil
	case from > version:
		return nil, fmt.Errorf("a newer glowplug has stored an object in version %d, and this one reads versions up to %d:"+
			" start the newer one, or restore a backup of the time before", from, version)
	}
	var object map[string]any
	for _, u := range upgrades {
		if u.to <= from || u.kind != kind || !u.concerns(value) {
			continue
		}
		if object == nil {
			decoder := json.NewDecoder(bytes.NewReader(value))
			decoder.UseNumber()
			if decoder.Decode(&object) != nil {
				return nil, nil
			}
		}
		u.change(object)
	}
	if object == nil {
		return nil, nil
	}
	delete(object, "storedVersion")
	newer, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return marked(newer), nil
}
