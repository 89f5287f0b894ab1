package ignition

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	v3_6 "github.com/coreos/ignition/v2/config/v3_6/types"
)

// The types of a config of the newest spec, for those that read it field by field.
type (
	Config         = v3_6.Config
	Disk           = v3_6.Disk
	Partition      = v3_6.Partition
	Filesystem     = v3_6.Filesystem
	Raid           = v3_6.Raid
	Luks           = v3_6.Luks
	Node           = v3_6.Node
	Resource       = v3_6.Resource
	User           = v3_6.PasswdUser
	Unit           = v3_6.Unit
	KernelArgument = v3_6.KernelArgument
)

// Typed returns a valid config as one of the newest spec. A config of spec 2 is converted; an
// error names what spec 3 cannot say.
func Typed(raw []byte) (*Config, error) {
	if strings.HasPrefix(VersionOf(raw), "2.") {
		newest := family[len(family)-1].name
		converted, losses, err := Convert(raw, newest)
		if err != nil {
			return nil, err
		}
		if len(losses) > 0 {
			text := func(l Loss) string { return l.Path + ": " + l.Reason }
			return nil, errors.New("spec " + newest + " cannot say what the config says: " +
				strings.Join(Listed(losses, text), "; "))
		}
		raw = converted
	}
	config := &Config{}
	if err := json.Unmarshal(raw, config); err != nil {
		return nil, fmt.Errorf("the config cannot be read: %w", err)
	}
	return config, nil
}
