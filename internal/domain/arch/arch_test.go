package arch

import (
	"slices"
	"testing"
)

func TestCanBoot(t *testing.T) {
	for _, c := range []struct {
		machine string
		image   []string
		want    bool
	}{
		{"arm64", []string{"x86_64"}, false},
		{"arm64", []string{"aarch64"}, true},
		{"arm64", []string{"aarch64", "x86_64"}, true},
		{"i386", []string{"x86_64"}, true}, // iPXE for BIOS
		{"x86_64", []string{"i386"}, true},
		{"x86_64", []string{"aarch64"}, false},
		{"riscv64", []string{"aarch64", "x86_64"}, false},
		{"", []string{"aarch64"}, true},
		{"vax", []string{"aarch64"}, true}, // not known
		{"arm64", nil, true},
	} {
		if got := CanBoot(Parse(c.machine), c.image); got != c.want {
			t.Errorf("%s boots an image for %v: %v, want %v", c.machine, c.image, got, c.want)
		}
	}
}

func TestSet(t *testing.T) {
	got := Set([]string{"x86_64", "aarch64", "i386", "x86_64"})
	if want := []string{"aarch64", "x86_64"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := Set([]string{"i386"}); !slices.Equal(got, []string{"i386"}) {
		t.Error(got)
	}
}
