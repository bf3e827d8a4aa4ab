#!/bin/sh
# scripts/fuzz.sh [SECONDS] [TARGET…]: each fuzz target (fuzz/targets.h) for SECONDS (60), starting from the golden files and
# from what earlier runs found (build/fuzz/corpus). 0 seconds: the seeds alone. Needs clang-19, libclang-rt-19-dev, llvm-19.
# What breaks a target is kept in build/fuzz/findings; the same program, given that file, shows it again.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}
[ $# = 0 ] || shift
program=build/fuzz/fuzz/quern_fuzz
[ -f build/fuzz/build.ninja ] || cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target quern_fuzz
[ $# -gt 0 ] || set -- $("$program" 2>&1 | sed 's/.*must be one of//')
if symbolizer=$(command -v llvm-symbolizer-19); then export ASAN_SYMBOLIZER_PATH="$symbolizer"; fi
export UBSAN_OPTIONS="print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"

found=
mkdir -p build/fuzz/findings
for target in "$@"; do
  export QUERN_FUZZ_TARGET="$target"
  seeds=build/fuzz/seeds/$target corpus=build/fuzz/corpus/$target log=build/fuzz/$target.log
  mkdir -p "$corpus"
  "$program" --write-seeds "$seeds"
  if [ "$seconds" = 0 ]; then limit=-runs=0; else limit=-max_total_time=$seconds; fi
  if "$program" $limit -max_len=32768 -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=1024 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/findings/$target-" "$corpus" "$seeds" >"$log" 2>&1; then
    echo "$target: $(sed -n 's/stat::number_of_executed_units: */runs /p' "$log")"
  else
    found="$found $target"
    grep -E 'ERROR|SUMMARY|runtime error|Test unit written|check failed' "$log" | sed "s/^/$target: /" || tail -n 5 "$log"
  fi
done
[ -z "$found" ] || { echo "findings in$found; see build/fuzz/*.log" >&2; exit 1; }
