package iso

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestMovedFilesHavePadding: behind a file that had to move, the image has what a reader of whole blocks
// of 32 KiB reads beyond its end, and its volume includes that. The overlays keep no copy of it.
func TestMovedFilesHavePadding(t *testing.T) {
	const whole = 32 << 10
	for _, blocks := range []int{1, 2, 8, 16, 33} {
		for _, filling := range []int{0, 5, 14} {
			t.Run(fmt.Sprintf("%d,%d", blocks, filling), func(t *testing.T) {
				config := strings.Repeat("#", blocks*sector-len(grubConfig)-9) + "\n" + grubConfig
				image := layout{volume: "A", rockRidge: true, joliet: true, files: map[string]string{
					"/boot/grub/grub.cfg": config, "/filling": strings.Repeat("f", filling*sector),
				}}.build(t)
				o := customize(t, image, Options{Args: []string{"moved=" + strings.Repeat("y", 200)}})
				f, err := o.Image().Lookup("/boot/grub/grub.cfg")
				if err != nil || f.Extents[0].Off < int64(len(image)) {
					t.Fatalf("it has not moved: %+v, %v", f, err)
				}
				end := f.Extents[0].end()
				if missing := (end+whole-1)/whole*whole - o.Size(); missing > 0 {
					t.Errorf("%d bytes of the last block of %d are missing", missing, whole)
				}
				behind, err := io.ReadAll(io.NewSectionReader(o, align(end), o.Size()))
				if err != nil || len(bytes.Trim(behind, "\x00")) > 0 {
					t.Errorf("the padding: %v, %d bytes", err, len(behind))
				}
				if v := o.Image().volume; v.end != o.Size() {
					t.Errorf("the volume has %d bytes, the image %d", v.end, o.Size())
				}
				if o.Kept() > int64(len(config))+8*sector {
					t.Errorf("%d bytes are kept", o.Kept())
				}
			})
		}
	}
}
