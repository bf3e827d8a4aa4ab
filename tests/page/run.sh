#!/bin/sh
# The page in headless Chromium, served by the real binary: run.sh QUERN [TEST…]. Packages as web/app/package-lock.json
# names them. Exit 77 (skipped) without Chromium, without Node 20.19 or when the package registry cannot be reached.
# QUERN_BROWSER names another Chromium; with QUERN_TEST_MODELS the chats are with SmolLM2.
set -eu
cd "$(dirname "$0")/../.."
QUERN_BINARY=$(realpath "$1")
shift
for name in "${QUERN_BROWSER:-}" chromium chromium-browser google-chrome chrome; do
  [ -n "$name" ] && browser=$(command -v "$name") && break
  browser=
done
[ -n "$browser" ] || { echo "SKIPPED: no Chromium is installed: the page was not tried"; exit 77; }
sh tests/page/packages.sh
chat=
[ -z "${QUERN_TEST_MODELS:-}" ] || chat=$(find -L "$QUERN_TEST_MODELS" -maxdepth 1 -iname 'smollm2*.gguf' | head -n 1)
export QUERN_BINARY QUERN_BROWSER="$browser" QUERN_CHAT_MODEL="$chat"
cd web/app
[ $# -gt 0 ] || set -- tests/*.test.js
exec node --test --test-concurrency=1 "$@"
