package iscsi

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// libiscsi returns the path of a program that is built on libiscsi, or skips the test.
func libiscsi(t *testing.T, program string) string {
	t.Helper()
	if os.Getenv("TEST_E2E") == "" {
		t.Skip("runs other people's initiators: set TEST_E2E=1")
	}
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("needs Debian's libiscsi-bin, qemu-utils and qemu-block-extra: %v", err)
	}
	return path
}

const conformancePage = "../../../docs/internals/iscsi-conformance.md"

// expectedFailures reads the table of the page: a test in each row, with its reason.
func expectedFailures(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile(conformancePage)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Za-z0-9.]+)` \\| (.+) \\|$").FindAllStringSubmatch(string(page),
		-1) {
		if strings.TrimSpace(row[2]) == "" {
			t.Errorf("%s: no reason given in %s", row[1], conformancePage)
		}
		names = append(names, row[1])
	}
	slices.Sort(names)
	return names
}

// TestConformance runs libiscsi's suite, and compares what fails with the list
// in docs/internals/iscsi-conformance.md.
func TestConformance(t *testing.T) {
	program := libiscsi(t, "iscsi-test-cu")
	const least = 214
	disk, _ := newOverlaid(t, 4096*blockSize)
	_, address := start(t, serving(disk))
	out, err := exec.CommandContext(t.Context(), program, "-t", "ALL", "-n",
		fmt.Sprintf("iscsi://%s/%s/0", address, testTarget)).CombinedOutput()
	summary := regexp.MustCompile(`(?m)^\s*tests\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)`).FindSubmatch(out)
	if summary == nil {
		t.Fatalf("no summary (%v):\n%s", err, out)
	}
	var run, passed int
	fmt.Sscan(string(summary[2]), &run)
	fmt.Sscan(string(summary[3]), &passed)
	t.Logf("%d of %d pass", passed, run)
	if passed < least {
		t.Errorf("%d of %d pass, want at least %d", passed, run, least)
	}
	var failed []string
	for _, match := range regexp.MustCompile(`Suite (\S+), Test (\S+) had failures`).FindAllSubmatch(out, -1) {
		failed = append(failed, string(match[1])+"."+string(match[2]))
	}
	slices.Sort(failed)
	if want := expectedFailures(t); !slices.Equal(failed, want) {
		t.Errorf("failures\n%s\nbut %s lists\n%s", strings.Join(failed, "\n"), conformancePage, strings.Join(want, "\n"))
	}
}

// TestLibiscsi logs in as libiscsi does: plain, with a header digest, with CHAP
// one way and both, and lists what there is.
func TestLibiscsi(t *testing.T) {
	program := libiscsi(t, "iscsi-inq")
	options := serving(newMemory(make([]byte, 8*blockSize)))
	plain := options.Resolve
	options.Resolve = func(l Login) (*Target, error) {
		target, err := plain(l)
		if strings.HasSuffix(l.Target, ":locked") {
			target.CHAP = CHAP{"user", "a-long-secret", "target", "another-secret"}
		}
		return target, err
	}
	options.Discover = func(Login) []string { return []string{testTarget} }
	_, address := start(t, options)
	for _, test := range []struct {
		name, user, target, query string
		works                     bool
	}{
		{"plain", "", testTarget, "", true},
		{"digest", "", testTarget, "?header_digest=crc32c", true},
		{"CHAP", "user%a-long-secret@", "iqn.x:locked", "", true},
		{"mutual CHAP", "user%a-long-secret@", "iqn.x:locked", "?target_user=target&target_password=another-secret", true},
		{"wrong secret", "user%a-wrong-secret@", "iqn.x:locked", "", false},
		{"wrong target", "user%a-long-secret@", "iqn.x:locked", "?target_user=target&target_password=a-wrong-secret", false},
		{"no secret", "", "iqn.x:locked", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := fmt.Sprintf("iscsi://%s%s/%s/0%s", test.user, address, test.target, test.query)
			out, err := exec.CommandContext(t.Context(), program, url).CombinedOutput()
			if works := strings.Contains(string(out), vendorID); works != test.works {
				t.Errorf("logs in: %v, want %v (%v)\n%s", works, test.works, err, out)
			}
		})
	}
	out, err := exec.CommandContext(t.Context(), libiscsi(t, "iscsi-ls"), "-s", "iscsi://"+address+"/").CombinedOutput()
	if err != nil || !strings.Contains(string(out), testTarget) || !strings.Contains(string(out), "MMC") {
		t.Errorf("discovery: %v\n%s", err, out)
	}
}

// TestQEMUReads copies a whole disk with qemu-img, whose driver is libiscsi.
func TestQEMUReads(t *testing.T) {
	program := libiscsi(t, "qemu-img")
	disk, content := newOverlaid(t, 5000*blockSize)
	_, address := start(t, serving(disk))
	copied := filepath.Join(t.TempDir(), "copy.iso")
	out, err := exec.CommandContext(t.Context(), program, "convert", "-O", "raw",
		fmt.Sprintf("iscsi://%s/%s/0", address, testTarget), copied).CombinedOutput()
	if err != nil && strings.Contains(string(out), "Unknown protocol") {
		t.Skipf("needs Debian's qemu-block-extra: %s", out)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, err := os.ReadFile(copied); err != nil || !bytes.Equal(got, content) {
		t.Errorf("the copy differs: %d bytes, %v", len(got), err)
	}
}
