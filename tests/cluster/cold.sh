#!/usr/bin/env bash
# Makes the next read of the cluster's file system a cold one on every host: its mount is made anew, and with the old one
# goes what the kernel and the file system's client had cached. (What the server holds lies in memory in any case; its
# link is what limits it.)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
alive keeper || { say "no cluster is up: tests/cluster/up.sh"; exit 1; }
waiting=()
for i in $(seq "$(hosts_up)"); do
  on "n$i" "$here/mount.sh" &
  waiting+=($!)
done
status=0
for pid in "${waiting[@]}"; do wait "$pid" || status=1; done
exit $status
