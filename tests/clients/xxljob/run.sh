#!/bin/sh
# Drives the executor of XXL-JOB with the clients of xxl-job-core 2.4 (v2) and 3.3 (v3): run.sh QUERN. Skipped with a word where
# there is no java or mvn, or the Maven repository cannot be reached.
set -eu
cd "$(dirname "$0")/../../.."
command -v java >/dev/null && command -v mvn >/dev/null || { echo "SKIPPED: no java or mvn"; exit 77; }
QUERN_BINARY=$(realpath "$1")
export QUERN_BINARY
for version in v2 v3; do
  jars=$PWD/build/xxljob-client/$version
  pom=tests/clients/xxljob/$version/pom.xml
  if ! cmp -s "$pom" "$jars/pom.xml"; then
    if ! mvn -q -B -f "$pom" dependency:copy-dependencies -DoutputDirectory="$jars"; then
      echo "SKIPPED: xxl-job-core cannot be had: the Maven repository cannot be reached"
      exit 77
    fi
    cp "$pom" "$jars/pom.xml"
  fi
  QUERN_XXLJOB_JARS=$jars QUERN_XXLJOB_DRIVE=tests/clients/xxljob/$version/Drive.java \
    python3 -W ignore tests/clients/xxljob/xxljob_test.py
done
