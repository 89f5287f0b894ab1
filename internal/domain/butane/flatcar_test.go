package butane

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// flatcarFields are the scalar fields of the flatcar 1.0.0 specification, but for
// local and trees, which need the files of the one who writes the config.
const flatcarFields = `
ignition.config.merge source inline compression http_headers.name http_headers.value verification.hash
ignition.config.replace source compression http_headers.name http_headers.value verification.hash
ignition.timeouts http_response_headers http_total
ignition.security.tls.certificate_authorities source inline compression http_headers.name http_headers.value verification.hash
ignition.proxy http_proxy https_proxy no_proxy
storage.disks device wipe_table
storage.disks.partitions label number size_mib start_mib type_guid guid wipe_partition_entry should_exist resize
storage.raid name level devices spares options
storage.filesystems device format path wipe_filesystem label uuid options mount_options with_mount_unit
storage.files path overwrite mode user.id user.name group.id group.name
storage.files.contents compression source inline http_headers.name http_headers.value verification.hash
storage.files.append compression source inline http_headers.name http_headers.value verification.hash
storage.directories path overwrite mode user.id user.name group.id group.name
storage.links path overwrite user.id user.name group.id group.name target hard
storage.luks name device label uuid options wipe_volume
storage.luks.key_file compression source inline http_headers.name http_headers.value verification.hash
systemd.units name enabled mask contents dropins.name dropins.contents
passwd.users name password_hash ssh_authorized_keys uid gecos home_dir no_create_home primary_group groups no_user_group no_log_init shell should_exist system
passwd.groups name gid password_hash should_exist system
kernel_arguments should_exist should_not_exist`

func flatcar(t *testing.T) []byte {
	t.Helper()
	raw, err := os.ReadFile("testdata/flatcar-1.0.0.bu")
	if err != nil {
		t.Fatal(err)
	}
	return []byte(strings.ReplaceAll(string(raw), "HASH", strings.Repeat("a", 126)))
}

// scalars lists the values of a document by the field that they stand in.
func scalars(value any, field string, into map[string][]string) {
	switch value := value.(type) {
	case map[string]any:
		for key, member := range value {
			scalars(member, strings.TrimPrefix(field+"."+key, "."), into)
		}
	case []any:
		for _, item := range value {
			scalars(item, field, into)
		}
	default:
		into[field] = append(into[field], fmt.Sprint(value))
	}
}

// TestFlatcarEveryField compiles a config that has every field of the specification:
// strictly, without a finding, and each value is in the result.
func TestFlatcarEveryField(t *testing.T) {
	output, found := Translate(flatcar(t))
	if len(found) > 0 {
		t.Fatal(found.Strings())
	}
	var source, result any
	if err := yaml.Unmarshal(flatcar(t), &source); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(output, &result); err != nil {
		t.Fatal(err)
	}
	have, gives := map[string][]string{}, map[string][]string{}
	scalars(source, "", have)
	scalars(result, "", gives)
	var all []string
	for _, values := range gives {
		all = append(all, values...)
	}
	text := strings.Join(all, "\n")
	var fields []string
	for _, line := range strings.Split(strings.TrimSpace(flatcarFields), "\n") {
		words := strings.Fields(line)
		for _, name := range words[1:] {
			fields = append(fields, words[0]+"."+name)
		}
	}
	for _, field := range fields {
		if len(have[field]) == 0 {
			t.Errorf("%s is not in the config", field)
		}
		for _, value := range have[field] {
			// Inline text is in a data: URL, and a unit stands for with_mount_unit.
			inline := strings.HasSuffix(field, ".inline") || field == "storage.filesystems.with_mount_unit"
			if !inline && !strings.Contains(text, value) {
				t.Errorf("%s: %q is not in the result", field, value)
			}
		}
	}
	for field := range have {
		if field != "variant" && field != "version" && !slices.Contains(fields, field) {
			t.Errorf("%s is no field of the specification", field)
		}
	}
}

// TestFlatcarEveryFieldIsChecked renames each field in turn: that is an error at its
// line.
func TestFlatcarEveryFieldIsChecked(t *testing.T) {
	lines := strings.Split(string(flatcar(t)), "\n")
	for i, line := range lines {
		key, rest, ok := strings.Cut(line, ":")
		name := strings.TrimLeft(key, " -")
		if !ok || i < 2 || name == "" || strings.ContainsAny(name, "[/=") {
			continue
		}
		wrong := slices.Clone(lines)
		wrong[i] = strings.Replace(key, name, name+"_x", 1) + ":" + rest
		_, found := Translate([]byte(strings.Join(wrong, "\n")))
		if !found.HasError() || !slices.ContainsFunc(found.Strings(), func(s string) bool {
			return strings.Contains(s,
				fmt.Sprintf("line %d:", i+1))
		}) {
			t.Errorf("line %d, %s_x: %v", i+1, name, found.Strings())
		}
	}
}
