// Package e2e tests the built program with real clients: kubectl, client-go,
// curl, nginx, the real Ignition binary, and machines in network namespaces of
// their own. It runs where TEST_E2E is set; make test sets it.
package e2e
