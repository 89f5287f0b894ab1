package credentials

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// merge merges a record until it is not written any more, as servers do.
func merge(t *testing.T, c *Credentials, server string, record []byte) []byte {
	t.Helper()
	next, _, err := c.Merge(server, record)
	if err != nil {
		t.Fatal(err)
	}
	if next == nil {
		return record
	}
	return next
}

// TestServersAcceptEachOthersTokens: servers with one CA accept each other's admin tokens by
// the record of the store, which has no token. A token that one of them replaces is refused
// by the other.
func TestServersAcceptEachOthersTokens(t *testing.T) {
	pki, dir := t.TempDir(), t.TempDir()
	one := ensure(t, Options{DataDir: dir, PKIDir: pki})
	two := ensure(t, Options{DataDir: t.TempDir(), PKIDir: pki})
	old := tokenIn(t, one)
	if two.IsAdminToken(old) {
		t.Fatal("a token is accepted that nobody has shared")
	}
	record := merge(t, two, "two", merge(t, one, "one", nil))
	merge(t, one, "one", record)
	if !two.IsAdminToken(old) || !one.IsAdminToken(tokenIn(t, two)) {
		t.Error("the token of the other server is refused")
	}
	for _, token := range []string{old, tokenIn(t, two)} {
		if strings.Contains(string(record), token) {
			t.Error("the record has a token in the clear")
		}
	}
	if next, changed, err := two.Merge("two", record); next != nil || changed || err != nil {
		t.Errorf("the same record again: %s, changed %v, %v", next, changed, err)
	}
	if err := os.Remove(one.KubeconfigPath()); err != nil {
		t.Fatal(err)
	}
	one = ensure(t, Options{DataDir: dir, PKIDir: pki})
	record = merge(t, one, "one", record)
	if _, changed, err := two.Merge("two", record); !changed || err != nil {
		t.Errorf("a replaced token: changed %v, %v", changed, err)
	}
	if two.IsAdminToken(old) || one.IsAdminToken(old) || !two.IsAdminToken(tokenIn(t, one)) {
		t.Error("the old token is accepted, or the new one is refused")
	}
}

// TestWritersOfTheStoreAreNoAdmins: whoever may write the store, and does not have the key
// of the CA, cannot add a token.
func TestWritersOfTheStoreAreNoAdmins(t *testing.T) {
	c := ensure(t, Options{DataDir: t.TempDir()})
	record := merge(t, c, "one", nil)
	forge := func(change func(s *shared)) []byte {
		var s shared
		if err := json.Unmarshal(record, &s); err != nil {
			t.Fatal(err)
		}
		s.Tokens = maps.Clone(s.Tokens)
		change(&s)
		forged, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return forged
	}
	own := strings.Repeat("ab", 32)
	for name, forged := range map[string][]byte{
		"a token of its own": forge(func(s *shared) { s.Tokens["evil"] = own }),
		"without a seal":     forge(func(s *shared) { s.Tokens["evil"], s.Seal = own, "" }),
		"without a CA":       forge(func(s *shared) { s.Tokens["evil"], s.CA = own, "" }),
		"no JSON":            []byte("{"),
		"too large":          forge(func(s *shared) { s.Tokens["evil"] = strings.Repeat("a", maxShared) }),
	} {
		next, _, err := c.Merge("one", forged)
		if err != nil || len(*c.others.Load()) != 0 {
			t.Errorf("%s: %v, tokens of others: %d", name, err, len(*c.others.Load()))
		}
		if string(next) != string(record) {
			t.Errorf("%s: the record is not mended: %s", name, next)
		}
	}
}

// TestAnotherCAIsRefused: a server whose CA is not that of the store says so, and what to do.
func TestAnotherCAIsRefused(t *testing.T) {
	one, two := ensure(t, Options{DataDir: t.TempDir()}), ensure(t, Options{DataDir: t.TempDir()})
	record := merge(t, one, "one", nil)
	next, _, err := two.Merge("two", record)
	var problem *SharingError
	if !errors.As(err, &problem) || next != nil {
		t.Fatalf("%v, writes %s", err, next)
	}
	for _, want := range []string{two.opts.PKIDir, "not that of the other servers", "copy ca.crt and ca.key",
		"forget-credentials"} {
		if !strings.Contains(problem.Error()+problem.Hint(), want) {
			t.Errorf("%q does not speak of %q", problem.Error()+"; "+problem.Hint(), want)
		}
	}
	// Copied as the hint says.
	for _, name := range []string{caCert, caKey} {
		content, err := os.ReadFile(one.caPath(name))
		if err == nil {
			err = os.WriteFile(two.caPath(name), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	token := tokenIn(t, two)
	two = ensure(t, Options{DataDir: two.opts.DataDir})
	merge(t, one, "one", merge(t, two, "two", record))
	if !two.IsAdminToken(tokenIn(t, one)) || !one.IsAdminToken(token) {
		t.Error("the token of the other server is refused after the copy")
	}
}

// TestTokensOfServersAreBounded: a store does not collect the tokens of servers without end.
func TestTokensOfServersAreBounded(t *testing.T) {
	c := ensure(t, Options{DataDir: t.TempDir()})
	var record []byte
	for i := range maxSharedTokens {
		record = merge(t, c, strings.Repeat("x", i+1), record)
	}
	_, _, err := c.Merge("one more", record)
	if err == nil || len(record) > maxShared || len(*c.others.Load()) == 0 {
		t.Errorf("%v, %d bytes, %d others", err, len(record), len(*c.others.Load()))
	}
}

// TestServersShareAFolder: servers that start at the same time with one empty folder have
// one CA; and one that may not write the folder uses it.
func TestServersShareAFolder(t *testing.T) {
	pki := filepath.Join(t.TempDir(), "shared")
	servers := make([]*Credentials, 8)
	var starting sync.WaitGroup
	for i := range servers {
		dir := t.TempDir()
		starting.Go(func() {
			var err error
			servers[i], err = Ensure(Options{DataDir: dir, PKIDir: pki, Server: "https://127.0.0.1:8443"})
			if err != nil {
				t.Error(err)
			}
		})
	}
	if starting.Wait(); t.Failed() {
		return
	}
	for _, c := range servers {
		if string(c.CAPEM()) != string(servers[0].CAPEM()) {
			t.Fatal("two servers have two CAs")
		}
		if c.current().Leaf.CheckSignatureFrom(servers[0].authority.Load().Leaf) != nil {
			t.Error("a certificate is of another CA")
		}
	}
	if got := files(t, pki); len(got) != 3 || got[serverKey] != "" {
		t.Errorf("the shared folder has %v", got)
	}
}

// TestReadOnlyFolderOfTheCA: a server that may only read the folder of the CA uses it, also
// when its certificate should be renewed.
func TestReadOnlyFolderOfTheCA(t *testing.T) {
	pki, dir := t.TempDir(), t.TempDir()
	before := string(ensure(t, Options{DataDir: t.TempDir(), PKIDir: pki}).CAPEM())
	if os.Geteuid() == 0 {
		const nobody = 65534
		for _, path := range []string{filepath.Dir(dir), dir, filepath.Join(pki, caCert), filepath.Join(pki, caKey)} {
			if err := os.Chown(path, nobody, nobody); err != nil {
				t.Fatal(err)
			}
		}
		runtime.LockOSThread() // the user of the file system is that of the thread
		defer runtime.UnlockOSThread()
		if err := syscall.Setfsuid(nobody); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = syscall.Setfsuid(0) }()
	} else if err := os.Chmod(pki, 0o500); err != nil {
		t.Fatal(err)
	}
	late := func() time.Time { return time.Now().AddDate(9, 0, 0) }
	c := ensure(t, Options{DataDir: dir, PKIDir: pki, Now: late})
	if string(c.CAPEM()) != before {
		t.Error("the certificate of the CA was renewed: the folder can be written")
	}
}

const childDir = "GLOWPLUG_TEST_CREDENTIALS"

// TestKilledStartLeavesNoHalfPKI: a server that is killed at any moment of its first start,
// or of one that makes another certificate, starts again without help.
func TestKilledStartLeavesNoHalfPKI(t *testing.T) {
	if dir := os.Getenv(childDir); dir != "" { // the process that is killed
		for i := 0; ; i++ {
			opts := Options{DataDir: dir, Server: "https://127.0.0.1:8443"}
			if i%2 == 1 {
				opts.Names = []string{"other.example.org"} // another certificate
			}
			if _, err := Ensure(opts); err != nil {
				t.Fatal(err)
			}
		}
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		dir := filepath.Join(t.TempDir(), "data")
		child := exec.Command(program, "-test.run=^TestKilledStartLeavesNoHalfPKI$")
		child.Env = append(os.Environ(), childDir+"="+dir)
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		for _, err := os.Stat(dir); err != nil; _, err = os.Stat(dir) {
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(time.Duration(i*i) * 100 * time.Microsecond) // within the first start, and later ones
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait()
		c := ensure(t, Options{DataDir: dir})
		if !c.IsAdminToken(tokenIn(t, c)) || c.current().Leaf.CheckSignatureFrom(c.authority.Load().Leaf) != nil {
			t.Error("the token or the certificate is not valid")
		}
	}
}
