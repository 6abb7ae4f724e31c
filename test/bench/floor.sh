#!/bin/sh
# Performs one deployment with the shortest shell script; the bench compares Berth with it. Prints milliseconds:
#   clone build run wait switch remove
# floor.sh DOCKER URL FOLDER PORT ADMIN_SOCKET [--no-cache]   with DOCKER_HOST and DOCKER_BUILDKIT in the environment
set -eu
docker=$1 url=$2 folder=$3 port=$4 admin=$5 cache=${6:-}
now() { date +%s%N; }
old=$(cat "$folder/current" 2>/dev/null || true)
rm -rf "$folder/work"
t0=$(now)
git clone --quiet --depth 1 "$url" "$folder/work"
t1=$(now)
"$docker" build --quiet $cache --tag berth-floor/app "$folder/work" >/dev/null
t2=$(now)
new=$("$docker" run --detach berth-floor/app)
address=$("$docker" inspect --format '{{.NetworkSettings.IPAddress}}' "$new")
t3=$(now)
until curl --silent --fail --output /dev/null "http://$address:$port/"; do sleep 0.01; done
t4=$(now)
curl --silent --fail --unix-socket "$admin" --header 'Host: control' --header 'Content-Type: application/json' \
  --request PATCH --data "[{\"dial\":\"$address:$port\"}]" http://control/id/upstream/upstreams
t5=$(now)
[ -z "$old" ] || "$docker" rm --force "$old" >/dev/null
t6=$(now)
echo "$new" >"$folder/current"
for pair in "$t0 $t1" "$t1 $t2" "$t2 $t3" "$t3 $t4" "$t4 $t5" "$t5 $t6"; do
  set -- $pair
  printf '%s ' $((($2 - $1) / 1000000))
done
echo
