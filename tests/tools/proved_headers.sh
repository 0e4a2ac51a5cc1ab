#!/usr/bin/env bash
# Lists the headers under src that a build compiles alone: their own .cc includes them before anything else.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
find src -name '*.cc' | while read -r file; do
  header=${file%.cc}.h
  [ -e "$header" ] && [ "$(grep -m1 '^#include' "$file")" = "#include \"${header#src/}\"" ] && echo "$header"
done
exit 0
