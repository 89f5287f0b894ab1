package plan

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"glowplug/internal/domain/plan"
)

// signature is the end of a boot sector, which libblkid and sgdisk take for a DOS partition table.
const signature = `printf '\125\252' | dd of=$D bs=1 seek=510 conv=notrunc status=none`

// TestContentBesideAPartitionTable runs the real Ignition on disks of which blkid tells a file system
// and a partition table. Both are content: no plan says that nothing is lost where it is gone.
func TestContentBesideAPartitionTable(t *testing.T) {
	m := newMachine(t)
	needs(t, "mkfs.exfat", "mkfs.ntfs", "pvcreate", "xorriso")
	const isohybrid = "/usr/lib/ISOLINUX/isohdpfx.bin"
	if _, err := os.Stat(isohybrid); err != nil {
		t.Skip("needs isolinux")
	}
	iso := "xorriso -as mkisofs -quiet -V DATA -isohybrid-mbr " + isohybrid + " -b isolinux.bin -no-emul-boot " +
		"-boot-load-size 4 -boot-info-table -o " + m.path("hybrid.iso") + " /usr/lib/ISOLINUX && " +
		"dd if=" + m.path("hybrid.iso") + " of=$D status=none"
	const table = "sgdisk -n 1:0:+64M $D >/dev/null"
	configs := map[string]string{
		"wipeTable":         `"disks":[{"device":"D","wipeTable":true}]`,
		"wiped and divided": `"disks":[{"device":"D","wipeTable":true,"partitions":[{"number":1}]}]`,
		"divided":           `"disks":[{"device":"D","partitions":[{"number":7,"sizeMiB":32}]}]`,
		"whole":             `"filesystems":[{"device":"D","format":"ext4"}]`,
		"whole, wiped":      `"filesystems":[{"device":"D","format":"ext4","wipeFilesystem":true}]`,
	}
	for name, setup := range map[string][]string{
		"exfat":                 {"mkfs.exfat -L DATA $D"},
		"ntfs":                  {"mkfs.ntfs -F -Q -L DATA $D"},
		"vfat":                  {mkfs("vfat", "data") + " $D"},
		"ext4 with a signature": {mkfs("ext4", "data") + " $D", signature},
		"xfs with a signature":  {mkfs("xfs", "data") + " $D", signature},
		"swap with a signature": {mkfs("swap", "data") + " $D", signature},
		"btrfs below a gpt":     {mkfs("btrfs", "data") + " $D", table},
		"xfs below a gpt":       {mkfs("xfs", "data") + " $D", table},
		"vfat below a gpt":      {mkfs("vfat", "data") + " $D", "sgdisk -g -n 1:0:+64M $D >/dev/null"},
		"exfat below a gpt":     {"mkfs.exfat -L DATA $D", "sgdisk -g -n 1:0:+64M $D >/dev/null"},
		"physical volume":       {"pvcreate -q -y $D"},
		"hybrid ISO":            {iso},
	} {
		for i, what := range slices.Sorted(maps.Keys(configs)) {
			config := fmt.Sprintf(`{"ignition":{"version":"3.4.0"},"storage":{%s}}`, configs[what])
			_, disagreements := m.meet(pair{mib: 400, sector: 512, setup: setup}, (len(name)+i)%2 == 0,
				func(device string, _ func([]byte) *plan.Plan) []byte {
					return []byte(strings.ReplaceAll(config, `"D"`, fmt.Sprintf("%q", device)))
				})
			for _, d := range disagreements {
				t.Errorf("%s, %s: %s: %s", name, what, d.kind, d.text)
			}
		}
	}
}
