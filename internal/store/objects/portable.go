package objects

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
)

// Portable returns what another store needs of a stored object, in one line. The compilation of a config is left out
// where it follows from the source, with the status that says so: it is compiled again, as a new config is. The last
// good compilation of a source that does not compile any more stays.
func Portable(k *kinds.Kind, value []byte) ([]byte, error) {
	codec := codec{k.WithKind(k.Name)}
	if k.Resource != kinds.IgnitionConfigs {
		return oneLine(value)
	}
	config := new(v1.IgnitionConfig)
	if err := codec.Decode(value, config); err != nil {
		return nil, err
	}
	compiled := config.Compiled
	if config.Status.Phase != v1.PhaseReady || compiled == nil || compiled.Template ||
		compiled.Generation != config.Generation {
		return oneLine(value)
	}
	config.Compiled = nil
	config.Status = v1.IgnitionConfigStatus{Phase: v1.PhasePending, ObservedGeneration: config.Generation}
	return codec.Encode(config)
}

// oneLine returns an object without line breaks, which those have that another program has put into the bucket.
func oneLine(value []byte) ([]byte, error) {
	if !bytes.Contains(value, []byte("\n")) {
		return value, nil
	}
	var line bytes.Buffer
	err := json.Compact(&line, value)
	return line.Bytes(), err
}

// CheckPortable returns why a record of a backup is no object of a kind under a bucket key.
func CheckPortable(k *kinds.Kind, key string, value []byte) error {
	if newer, err := upgraded(k.Name, value); err != nil {
		return err
	} else if newer != nil {
		value = newer
	}
	obj := k.New()
	if err := (codec{}).Decode(value, obj); err != nil {
		return fmt.Errorf("it cannot be read: %w", err)
	}
	at := keyOf(key)
	meta, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	// The key of a boot is that of its host.
	named := meta.GetName() == at.Name || k.Resource == kinds.Boots && strings.HasPrefix(meta.GetName(), at.Name+".")
	if !named || meta.GetNamespace() != at.Namespace || k.Namespaced != (at.Namespace != "") {
		return fmt.Errorf("it names itself %s/%s", meta.GetNamespace(), meta.GetName())
	}
	return nil
}
