#!/bin/sh
# Runs the tests of Xinference's client and of LangChain's classes for it: xinference.sh QUERN. Needs run.sh's environment;
# langchain-xinference, which wants an older client, goes into build/langchain-xinference-venv.
set -eu
cd "$(dirname "$0")/../.."
[ -x build/clients-venv/bin/python ] || { echo "SKIPPED: run tests/clients/run.sh first"; exit 77; }
QUERN_BINARY=$(realpath "$1")
export QUERN_BINARY
build/clients-venv/bin/python tests/clients/xinference_test.py
wanted=tests/clients/requirements-langchain-xinference.txt
venv=build/langchain-xinference-venv
stamp=$venv/installed
if ! cmp -s "$wanted" "$stamp"; then
  python3 -m venv "$venv"
  if ! "$venv/bin/pip" install -q --disable-pip-version-check -r "$wanted"; then
    echo "SKIPPED: langchain-xinference cannot be installed: the package index cannot be reached"
    exit 0
  fi
  cp "$wanted" "$stamp"
fi
exec "$venv/bin/python" tests/clients/langchain_xinference_test.py
