#!/bin/sh
# Lets schemathesis ask every route of a running server what docs/openapi.json allows and what it forbids: openapi.sh QUERN [EXAMPLES [PHASES]].
# The server answers 2xx or 4xx, never 5xx, in the content types it names. Needs run.sh's environment.
set -eu
cd "$(dirname "$0")/../.."
[ -x build/clients-venv/bin/schemathesis ] || { echo "SKIPPED: run tests/clients/run.sh first"; exit 77; }
quern=$(realpath "$1")
home=$(mktemp -d)
log=$home/log
pid=
trap 'kill $pid 2>/dev/null || true; rm -rf "$home"' EXIT
trap 'exit 1' INT TERM
golden=tests/golden
QUERN_HOME=$home "$quern" serve $golden/models/llama $golden/models/bert $golden/families/bert_rerank \
  $golden/families/bert_classify -t 1 --port 0 --max-model-len 64 2>"$log" &
pid=$!
for _ in $(seq 100); do grep -q listening "$log" && break; sleep 0.1; done
url=$(sed -n 's/.*listening on \(http[^ ]*\).*/\1/p' "$log")
# A port of its own; /api/pull would go to the network. n answers of a request are bounded by the tiny context.
build/clients-venv/bin/schemathesis run docs/openapi.json --url "$url" --workers 1 --max-examples "${2:-20}" --seed 1 \
  --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
  --exclude-path /api/pull --request-timeout 60 --phases "${3:-examples,coverage}"
kill -0 $pid
