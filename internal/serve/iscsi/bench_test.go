package iscsi

import (
	"fmt"
	"testing"
)

// BenchmarkRead is one READ of a disk with a patch over loopback. The client is a part of
// it: its allocations are counted too.
func BenchmarkRead(b *testing.B) {
	const blocks = 600
	disk, _ := newOverlaid(b, blocks*blockSize)
	_, address := start(b, serving(disk))
	for _, count := range []int{1, 32, 128} {
		b.Run(fmt.Sprint(count*blockSize>>10, "KiB"), func(b *testing.B) {
			c := dial(b, address)
			c.login(testTarget, pair{"MaxRecvDataSegmentLength", "262144"})
			b.SetBytes(int64(count * blockSize))
			b.ReportAllocs()
			at := 0
			for b.Loop() {
				c.readBlocks(at, count)
				at = (at + count) % (blocks - count)
			}
		})
	}
}

// BenchmarkExtent is what the server does for a READ before it sends.
func BenchmarkExtent(b *testing.B) {
	disk, _ := newOverlaid(b, 600*blockSize)
	c := &conn{target: &Target{Disk: disk}}
	b.ReportAllocs()
	for b.Loop() {
		scsi{c}.extent(64<<10, 64<<10)
	}
}
