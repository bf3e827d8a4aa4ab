#!/bin/sh
# The virtual environment build/NAME with the packages that a file of requirements names: venv.sh NAME REQUIREMENTS.
# uv brings them with a twentieth of pip's work; where it cannot be had or does not find the index, pip does. Exit 77 (skipped)
# when the package index cannot be reached.
set -eu
cd "$(dirname "$0")/.."
venv=build/$1 requirements=$2
cmp -s "$requirements" "$venv/installed" && exit 0
mkdir -p build
exec 9>build/uv.lock
flock 9
uv=build/uv-venv/bin/uv
if ! "$uv" --version >/dev/null 2>&1; then
  python3 -m venv build/uv-venv || { echo "SKIPPED: python3 has no venv module"; exit 77; }
  build/uv-venv/bin/pip install -q --disable-pip-version-check uv==0.13.9 || uv=false
fi
flock -u 9
index=${PIP_INDEX_URL:-$(build/uv-venv/bin/pip config get global.index-url 2>/dev/null || true)}
python3 -m venv --without-pip "$venv"
if ! "$uv" pip install -q ${index:+--default-index "$index"} --python "$venv/bin/python" -r "$requirements"; then
  python3 -m venv "$venv"
  if ! "$venv/bin/pip" install -q --disable-pip-version-check -r "$requirements"; then
    echo "SKIPPED: the package index cannot be reached"
    exit 77
  fi
fi
cp "$requirements" "$venv/installed"
