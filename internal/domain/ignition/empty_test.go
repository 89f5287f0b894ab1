package ignition

import (
	"strings"
	"testing"
)

func TestEmptyMeansNoneWhereAVersionLacksTheField(t *testing.T) {
	merge := `"ignition":{"config":{"merge":[{"compression":"","source":"https://example.com/a"}]},"version":"VERSION"}`
	becomes(t, "3.6.0", "3.0.0", merge,
		`"ignition":{"config":{"merge":[{"source":"https://example.com/a"}]},"version":"VERSION"}`)
	becomes(t, "3.6.0", "2.2.0", merge,
		`"ignition":{"config":{"append":[{"source":"https://example.com/a"}]},"version":"VERSION"}`)
	becomes(t, "3.6.0", "3.1.0", merge, merge)
	becomes(t, "3.6.0", "3.0.0", strings.Replace(merge, `"compression":""`, `"compression":"gzip"`, 1),
		"$.ignition.config.merge.0.compression")

	luks := `"storage":{"luks":[{"clevis":{"tang":[{ADV"thumbprint":"t","url":"https://t.example.com"}]},` +
		`"device":"/dev/a","name":"a"}]}`
	becomes(t, "3.5.0", "3.3.0", strings.Replace(luks, "ADV", `"advertisement":"",`, 1), strings.Replace(luks, "ADV", "", 1))
}

func TestLossNamesAFieldOfTheSource(t *testing.T) {
	becomes(t, "3.6.0", "2.0.0", `"storage":{"files":[{"mode":420,"path":"/a"}]}`, "$.storage.files.0")
	becomes(t, "3.6.0", "2.0.0", `"storage":{"Files":[{"append":[{"source":"data:,a"}],"mode":420,"path":"/a"}]}`,
		"$.storage.Files.0.append")
}
