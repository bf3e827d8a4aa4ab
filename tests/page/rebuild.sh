#!/bin/sh
# web/index.html is what web/app makes, byte for byte: rebuild.sh. Exit 77 (skipped) without Node 20.19 or when the
# package registry cannot be reached.
set -eu
cd "$(dirname "$0")/../.."
sh tests/page/packages.sh
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
(cd web/app && QUERN_PAGE=$made/index.html npm run -s build)
for file in index.html licenses.txt; do
  cmp "$made/$file" web/$file || { echo "web/$file is not what web/app makes: run npm run build there and commit it"; exit 1; }
done
