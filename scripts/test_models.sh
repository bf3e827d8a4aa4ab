#!/bin/sh
# Brings the real model files that some tests use to build/test-models, through `quern pull`. Tests that miss one skip and say so.
set -u
cd "$(dirname "$0")/.."
export QUERN_HOME="$PWD/build/test-home"
mkdir -p build/test-models
for model in smollm2 all-MiniLM-L6-v2; do
  if path=$(build/release/quern pull "$model" --path-only 2>build/test-models/pull.log); then
    ln -sfn "$path" "build/test-models/$(basename "$path")"
  else
    echo "no $model: $(tail -n 1 build/test-models/pull.log)" >&2
  fi
done
exit 0
