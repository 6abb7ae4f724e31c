#!/bin/sh
# Replaces the control planes one after another by containers of the image and the settings that are here now. Each new
# one must be ready before an old one stops. If one does not become ready, it is removed and the old ones go on.
set -eu
cd "$(dirname "$0")"
wait_seconds=${BERTH_REPLACE_WAIT:-180}

list() { docker compose ps -q control-plane; }
health() { docker inspect --format '{{.State.Health.Status}}' "$1" 2>/dev/null || echo gone; }

old=$(list)
count=$(echo "$old" | wc -w)
[ "$count" -gt 0 ] || { echo "No control plane runs here. Start it: docker compose up -d" >&2; exit 1; }
for one in $old; do
  before=$(list)
  docker compose up -d --no-deps --no-recreate --scale "control-plane=$((count + 1))" control-plane
  new=$(list | grep -vxF "$before" || true)
  [ -n "$new" ] || { echo "No new container was started." >&2; exit 1; }
  seconds=0
  until [ "$(health "$new")" = healthy ]; do
    if [ "$seconds" -ge "$wait_seconds" ] || [ "$(health "$new")" = gone ]; then
      docker logs --tail 20 "$new" >&2 || true
      docker rm -fv "$new" >/dev/null || true
      echo "The new control plane did not become ready within $wait_seconds s. The others go on." >&2
      exit 1
    fi
    sleep 1
    seconds=$((seconds + 1))
  done
  docker stop "$one" >/dev/null
  docker rm -v "$one" >/dev/null
  echo "Replaced $one by $new"
done
