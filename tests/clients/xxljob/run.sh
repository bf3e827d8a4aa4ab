#!/bin/sh
# Drives the executor of XXL-JOB with xxl-job-core's own client: run.sh QUERN. Skipped with a word where there is no java or
# mvn, or the Maven repository cannot be reached.
set -eu
cd "$(dirname "$0")/../../.."
command -v java >/dev/null && command -v mvn >/dev/null || { echo "SKIPPED: no java or mvn"; exit 77; }
QUERN_BINARY=$(realpath "$1")
QUERN_XXLJOB_JARS=$PWD/build/xxljob-client
export QUERN_BINARY QUERN_XXLJOB_JARS
stamp=$QUERN_XXLJOB_JARS/pom.xml
if ! cmp -s tests/clients/xxljob/pom.xml "$stamp"; then
  if ! mvn -q -B -f tests/clients/xxljob/pom.xml dependency:copy-dependencies -DoutputDirectory="$QUERN_XXLJOB_JARS"; then
    echo "SKIPPED: xxl-job-core cannot be had: the Maven repository cannot be reached"
    exit 77
  fi
  cp tests/clients/xxljob/pom.xml "$stamp"
fi
exec python3 tests/clients/xxljob/xxljob_test.py
