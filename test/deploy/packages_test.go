package deploy

import (
	"slices"
	"strings"
	"testing"
)

// lines returns the lines of a file that are neither empty nor comments.
func lines(text string) (all []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all
}

// TestUnitsAgree: the unit of the packages restricts the service as that of the archives does. They
// differ in the program's folder, in the user and in where the settings are.
func TestUnitsAgree(t *testing.T) {
	archive, packages := lines(read(t, "../../deploy/systemd/glowplug.service")), lines(read(t, "../../deploy/packages/glowplug.service"))
	only := func(these, those []string) (found []string) {
		for _, line := range these {
			if !slices.Contains(those, line) {
				found = append(found, line)
			}
		}
		return found
	}
	if got, want := only(archive, packages), []string{
		"Documentation=file:///usr/share/doc/glowplug/README.md",
		"Environment=GLOWPLUG_DATA_DIR=%S/glowplug", "Environment=GLOWPLUG_ISO_DIR=%S/glowplug/isos",
		"ExecStart=/usr/local/bin/glowplug serve", "DynamicUser=yes",
	}; !slices.Equal(got, want) {
		t.Errorf("the unit of the archives alone has %q", got)
	}
	if got, want := only(packages, archive), []string{
		"Documentation=man:glowplug(1) file:///usr/share/doc/glowplug/README.md",
		"Environment=GLOWPLUG_CONFIG=/etc/glowplug/glowplug.yaml", "ExecStart=/usr/bin/glowplug serve",
		"LogsDirectory=glowplug", "LogsDirectoryMode=0700", "User=glowplug", "Group=glowplug", "RestrictSUIDSGID=yes", "RemoveIPC=yes",
	}; !slices.Equal(got, want) {
		t.Errorf("the unit of the packages alone has %q", got)
	}
}

// TestPackagesSetNoVariables: a variable of the unit comes before the config file, so that a line
// of the file would have no effect.
func TestPackagesSetNoVariables(t *testing.T) {
	for _, file := range []string{"glowplug.service", "glowplug.env"} {
		for _, line := range lines(read(t, "../../deploy/packages/"+file)) {
			line = strings.TrimPrefix(line, "Environment=")
			if strings.HasPrefix(line, "GLOWPLUG_") && !strings.HasPrefix(line, "GLOWPLUG_CONFIG=") {
				t.Errorf("%s sets %s", file, line)
			}
		}
	}
}
