// Package testkit has what tests of several packages share.
package testkit

import (
	"os"
	"testing"
	"time"
)

const (
	// patience is the longest time that a test waits for what has no bound of its own. A busy machine is slow.
	patience = time.Minute
	// pollInterval is the time between two looks.
	pollInterval = 5 * time.Millisecond
)

// Until waits for a condition, and fails the test if it does not come true.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	Within(t, patience, what, ok)
}

// Within is Until with a bound that is a part of a promise.
func Within(t testing.TB, bound time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(bound); !ok(); time.Sleep(pollInterval) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", bound, what)
		}
	}
}

// Thorough reports whether make test-all runs: long loops over random input, and very large inputs.
func Thorough() bool { return os.Getenv("TEST_ALL") != "" }

// Few returns few, or all where make test-all runs.
func Few(few, all int) int {
	if Thorough() {
		return all
	}
	return few
}

// NeedsThorough skips a test that make test-all alone runs.
func NeedsThorough(t testing.TB) {
	t.Helper()
	if !Thorough() {
		t.Skip("TEST_ALL is not set: make test-all runs this")
	}
}
