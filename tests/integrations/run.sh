#!/bin/sh
# Runs the steps of a page of docs/integrations/: run.sh QUERN langchain|llama_index|dify. The clients, of the versions in
# NAME-requirements.txt, go into build/NAME-venv (their needs exclude each other), two small models into
# build/integrations-home. Exit 77 (skipped) when either cannot be reached.
set -eu
cd "$(dirname "$0")/../.."
QUERN_BINARY=$(realpath "$1")
QUERN_HOME=$PWD/build/integrations-home
export QUERN_BINARY QUERN_HOME
tests/venv.sh "$2-venv" "tests/integrations/$2-requirements.txt"
for model in smollm2 all-MiniLM-L6-v2; do
  "$QUERN_BINARY" pull "$model" >/dev/null 2>&1 || { echo "SKIPPED: $model cannot be pulled"; exit 77; }
done
exec "build/$2-venv/bin/python" "tests/integrations/$2_test.py"
