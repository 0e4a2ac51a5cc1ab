#!/usr/bin/env bash
# Looks at every shell script: it parses, and where pipefail is set nothing is piped into a reader that stops before
# the end (head, grep -q, grep -m, sed q): its writer may then die of SIGPIPE, and the script with it, now and then.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

mapfile -t scripts < <({ grep -lE '^#!.*\b(ba)?sh\b' -r .ci jobs tests; find jobs tests -name '*.sh'; } | sort -u)
bad=0
for script in "${scripts[@]}"; do
  bash -n "$script" || bad=1
  grep -HnE '\|&? *(head|grep +-[a-zA-Z]*[qm][0-9]*|sed +-n +[^|]*[0-9;{]q)\b' "$script" | grep -v ' # a short writer$' && bad=1
done
[ $bad = 0 ] || { echo "check_scripts: lines that may end their writer early, see above" >&2; exit 1; }
echo "${#scripts[@]} scripts: no pipe is left before its end"
