package ignition

import (
	"strings"
	"testing"
)

// TestLiveDemands has what a config asks of a system that cannot change its kernel arguments, and has no
// disk that it was installed on.
func TestLiveDemands(t *testing.T) {
	for name, c := range map[string]struct{ config, args, want string }{
		"nothing":           {`{"ignition":{"version":"3.4.0"}}`, "", ""},
		"no config":         {`kernelArguments`, "", ""},
		"empty lists":       {`{"kernelArguments":{}}`, "", ""},
		"an argument":       {`{"kernelArguments":{"shouldExist":["a=1"]}}`, "b a=2", `should_exist "a=1" is not among`},
		"that is there":     {`{"kernelArguments":{"shouldExist":["a=1"]}}`, "b a=1", ""},
		"another too many":  {`{"kernelArguments":{"shouldNotExist":["a=1"]}}`, "b a=1", `should_not_exist "a=1" is among`},
		"that is not there": {`{"kernelArguments":{"shouldNotExist":["a=1"]}}`, "b", ""},
		"the disk of an installation": {`{"storage":{"disks":[{"device":"/dev/disk/by-id/coreos-boot-disk"}]}}`, "",
			"has no /dev/disk/by-id/coreos-boot-disk"},
		"the medium":   {`{"storage":{"filesystems":[{"device":"/dev/sr0"}]}}`, "", "written to /dev/sr0"},
		"in an array":  {`{"storage":{"raid":[{"devices":["/dev/sda","/dev/cdrom"]}]}}`, "", "written to /dev/cdrom"},
		"another disk": {`{"storage":{"disks":[{"device":"/dev/sda"}],"luks":[{"device":"/dev/srv"}]}}`, "", ""},
		"a long argument": {`{"kernelArguments":{"shouldExist":["` + strings.Repeat("a", 1000) + `"]}}`, "",
			strings.Repeat("a", 100) + `…" is not`},
	} {
		got := LiveDemandsOf([]byte(c.config)).Unmet(strings.Fields(c.args))
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
