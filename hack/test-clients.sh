#!/usr/bin/env bash
# Boots every release of Ignition that the tests know from this server's configs, and
# writes what each asked for, was given and applied into docs/internals/clients.md. It needs
# root, for mount namespaces, and Debian's packages gcc, libblkid-dev and ignition.
set -euo pipefail
cd "$(dirname "$0")/.."
TEST_E2E=1 go test -count=1 -v -run '^TestClients$' ./test/e2e -clients-report "$PWD/docs/internals/clients.md"
