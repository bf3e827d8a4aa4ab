#!/bin/sh
# Runs the tests that need the official clients: run.sh QUERN. The clients, of the versions in requirements.txt, go into
# build/clients-venv. Exit 77 (skipped) when the package index cannot be reached.
set -eu
cd "$(dirname "$0")/../.."
QUERN_BINARY=$(realpath "$1")
export QUERN_BINARY
tests/venv.sh clients-venv tests/clients/requirements.txt
venv=build/clients-venv
"$venv/bin/python" tests/clients/clients_test.py
exec "$venv/bin/python" tests/clients/oidc_test.py
