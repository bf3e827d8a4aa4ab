#!/bin/sh
# Runs the tests of Xinference's client and of LangChain's classes for it: xinference.sh QUERN. Needs run.sh's environment;
# langchain-xinference, which wants an older client, goes into build/langchain-xinference-venv.
set -eu
cd "$(dirname "$0")/../.."
[ -x build/clients-venv/bin/python ] || { echo "SKIPPED: run tests/clients/run.sh first"; exit 77; }
QUERN_BINARY=$(realpath "$1")
export QUERN_BINARY
build/clients-venv/bin/python tests/clients/xinference_test.py
tests/venv.sh langchain-xinference-venv tests/clients/requirements-langchain-xinference.txt || {
  [ $? = 77 ] && exit 0
  exit 1
}
exec build/langchain-xinference-venv/bin/python tests/clients/langchain_xinference_test.py
