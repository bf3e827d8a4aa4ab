#!/bin/sh
# Runs the tests that need OpenAI's client for Node and LangChain for JavaScript: run.sh QUERN. Both, as package-lock.json
# names them, go into build/clients-node. Exit 77 (skipped) without Node or when the package registry cannot be reached.
set -eu
cd "$(dirname "$0")/../../.."
QUERN_BINARY=$(realpath "$1")
export QUERN_BINARY
command -v node >/dev/null && command -v npm >/dev/null || { echo "SKIPPED: node and npm are not installed"; exit 77; }
source=tests/clients/node target=build/clients-node
if ! cmp -s $source/package-lock.json $target/installed; then
  mkdir -p $target
  cp $source/package.json $source/package-lock.json $target
  if ! npm ci --prefix $target --ignore-scripts --no-audit --no-fund --loglevel=error; then
    echo "SKIPPED: the package registry cannot be reached"
    exit 77
  fi
  cp $source/package-lock.json $target/installed
fi
# A module looks for packages beside itself.
cp $source/*_test.js $target
QUERN_GOLDEN=$PWD/tests/golden exec node --test $target/clients_test.js $target/langchain_test.js
