#!/bin/sh
# Runs the tests that need the official clients: run.sh QUERN. The clients, of the versions in requirements.txt, go into
# build/clients-venv. Exit 77 (skipped) when the package index cannot be reached.
set -eu
cd "$(dirname "$0")/../.."
QUERN_BINARY=$(realpath "$1")
export QUERN_BINARY
venv=build/clients-venv
stamp=$venv/installed
if ! cmp -s tests/clients/requirements.txt "$stamp"; then
  python3 -m venv "$venv" || { echo "SKIPPED: python3 has no venv module"; exit 77; }
  if ! "$venv/bin/pip" install -q --disable-pip-version-check -r tests/clients/requirements.txt; then
    echo "SKIPPED: the package index cannot be reached"
    exit 77
  fi
  cp tests/clients/requirements.txt "$stamp"
fi
"$venv/bin/python" tests/clients/clients_test.py
exec "$venv/bin/python" tests/clients/oidc_test.py
