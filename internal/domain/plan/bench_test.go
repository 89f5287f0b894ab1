package plan

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkPlan plans a config with 200 files and 20 partitions.
func BenchmarkPlan(b *testing.B) {
	var parts, filesystems, files []string
	for n := range 20 {
		parts = append(parts, fmt.Sprintf(`{"number":%d,"label":"part%d","sizeMiB":1024}`, n+1, n))
		filesystems = append(filesystems, fmt.Sprintf(`{"device":"/dev/disk/by-partlabel/part%d","format":"ext4","path":"/var/%d"}`, n, n))
	}
	for n := range 200 {
		files = append(files, fmt.Sprintf(`{"path":"/var/%d/file%d","mode":420,"contents":{"source":"data:,content"}}`, n%20, n))
	}
	config := []byte(`{"ignition":{"version":"3.4.0"},"storage":{"disks":[{"device":"/dev/sda","wipeTable":true,"partitions":[` +
		strings.Join(parts, ",") + `]}],"filesystems":[` + strings.Join(filesystems, ",") + `],"files":[` + strings.Join(files, ",") + `]}}`)
	facts := blankDisk()
	b.ReportAllocs()
	for b.Loop() {
		p, err := New(config, facts)
		if err != nil || p.Outcome != Safe {
			b.Fatal(err)
		}
	}
}
