#!/usr/bin/env bash
# On a host of a cluster: mounts its file system, and waits until it is there. Without a cache from before.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# Who still works in it has a while to end; after that it goes from under him.
for _ in $(seq 40); do
  mountpoint -q "$FS" || break
  umount "$FS" 2>/dev/null || sleep 0.25
done
if mountpoint -q "$FS"; then umount --lazy "$FS"; fi
glusterfs --volfile-server="$STORAGE.254" --volfile-id=checkpoints --log-level=WARNING \
  --log-file="$CLUSTER_DIR/log/mount-$(hostname)" "$FS"
for _ in $(seq 100); do
  ! mountpoint -q "$FS" || exit 0
  sleep 0.05
done
echo "mount.sh: $(hostname): the file system was not mounted within 5 s" >&2
tail -n 5 "$CLUSTER_DIR/log/mount-$(hostname)" >&2
exit 1
