#!/bin/sh
# Runs the steps of a page of docs/integrations/: run.sh QUERN langchain|llama_index|dify. The clients, of the versions in
# NAME-requirements.txt, go into build/NAME-venv (their needs exclude each other), two small models into
# build/integrations-home. Exit 77 (skipped) when either cannot be reached.
set -eu
cd "$(dirname "$0")/../.."
QUERN_BINARY=$(realpath "$1")
QUERN_HOME=$PWD/build/integrations-home
export QUERN_BINARY QUERN_HOME
venv=build/$2-venv
requirements=tests/integrations/$2-requirements.txt
stamp=$venv/installed
if ! cmp -s "$requirements" "$stamp"; then
  python3 -m venv "$venv" || { echo "SKIPPED: python3 has no venv module"; exit 77; }
  if ! "$venv/bin/pip" install -q --disable-pip-version-check -r "$requirements"; then
    echo "SKIPPED: the package index cannot be reached"
    exit 77
  fi
  cp "$requirements" "$stamp"
fi
for model in smollm2 all-MiniLM-L6-v2; do
  "$QUERN_BINARY" pull "$model" >/dev/null 2>&1 || { echo "SKIPPED: $model cannot be pulled"; exit 77; }
done
exec "$venv/bin/python" "tests/integrations/$2_test.py"
