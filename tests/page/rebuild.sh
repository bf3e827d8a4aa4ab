#!/bin/sh
# web/index.html is what web/app makes, byte for byte: rebuild.sh. Exit 77 (skipped) without Node 20.19 or when the
# package registry cannot be reached.
set -eu
cd "$(dirname "$0")/../.."
sh tests/page/packages.sh
made=$(mktemp)
trap 'rm -f "$made"' EXIT
(cd web/app && QUERN_PAGE=$made npm run -s build)
cmp "$made" web/index.html || { echo "web/index.html is not what web/app makes: run npm run build there and commit it"; exit 1; }
