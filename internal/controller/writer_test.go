package controller

import (
	"regexp"
	"testing"
)

// TestMachineUID: events and objects that are in a store have these UIDs.
func TestMachineUID(t *testing.T) {
	uid := string(MachineUID("52-54-00-00-00-01"))
	if uid != "83326163-ac5f-85e1-9316-817ce084d93d" {
		t.Errorf("got %s", uid)
	}
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(uid) {
		t.Errorf("%s is no UUID of version 8", uid)
	}
	if other := MachineUID("52-54-00-00-00-02"); string(other) == uid {
		t.Errorf("two machines have the UID %s", uid)
	}
}
