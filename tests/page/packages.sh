#!/bin/sh
# Puts the packages that build and test the page into web/app/node_modules, unless they are there. Exit 77 where that
# cannot be done.
set -eu
cd "$(dirname "$0")/../../web/app"
command -v node >/dev/null && command -v npm >/dev/null || { echo "SKIPPED: node and npm are not installed"; exit 77; }
node -e 'const [major, minor] = process.versions.node.split(".").map(Number); process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)' ||
  { echo "SKIPPED: Node $(node --version) is older than 20.19, which builds the page"; exit 77; }
cmp -s package-lock.json node_modules/.installed && exit 0
if ! said=$(npm ci --ignore-scripts --no-audit --no-fund --loglevel=error 2>&1); then
  printf '%s\n' "$said"
  case $said in *EUSAGE*) echo "this npm refuses web/app/package-lock.json"; exit 1 ;; esac
  echo "SKIPPED: the package registry cannot be reached"
  exit 77
fi
cp package-lock.json node_modules/.installed
