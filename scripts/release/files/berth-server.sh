#!/bin/sh
# Starts the control plane, or one of its commands, with the Node.js it was shipped with. An installed one reads
# /etc/berth/server.env, as its unit does; variables that are set already win. Root becomes the account of the service, so
# that no file of the data folder belongs to root; only an upgrade needs root's rights.
set -eu
here=$(dirname -- "$(readlink -f -- "$0")")

take() { # a line of server.env
  name=${1%%=*} value=${1#*=}
  case $name in '' | [!A-Z]* | *[!A-Z0-9_]*) return ;; esac
  case $value in \"*\") value=${value#\"} value=${value%\"} ;; esac
  if ! printenv "$name" >/dev/null; then export "$name=$value"; fi
}

# An upgrade holds the start back while it saves the database; one that was killed is completed or undone here, if we may.
# Where systemd runs the service, its unit does that with root's rights.
root=$here/../..
if [ "${1:-serve}" = serve ] && [ -e "$root/upgrade.json" ] && [ -z "${BERTH_UPGRADE_SEEN:-}" ]; then
  # where we may not write, the upgrade waits a while instead
  { echo $$ >"$root/held"; } 2>/dev/null || true
  while [ -e "$root/hold" ] && [ -d "/proc/$(cat "$root/hold")" ]; do sleep 0.2; done
  [ ! -w "$root" ] || "$here/node" "$here/../lib/berth-server.mjs" upgrade --resume
  BERTH_UPGRADE_SEEN=1 exec "$root/current/bin/berth-server" "$@"
fi
unset BERTH_UPGRADE_SEEN

as=
case $here in
  /opt/berth-server/*)
    if [ -r /etc/berth/server.env ]; then
      while IFS= read -r line || [ -n "$line" ]; do
        case $line in [A-Z]*=*) take "$line" ;; esac
      done </etc/berth/server.env
    fi
    export BERTH_DATA_DIR="${BERTH_DATA_DIR:-/var/lib/berth-server}"
    if [ "$(id -u)" = 0 ] && [ "${1:-serve}" != upgrade ] && id berth-server >/dev/null 2>&1; then
      # with a domain it listens at the ports 80 and 443, as the unit allows it
      rights=-all
      case ${1:-serve} in serve) rights=-all,+net_bind_service ;; esac
      as="setpriv --reuid=berth-server --regid=berth-server --init-groups --inh-caps=$rights --ambient-caps=$rights"
      export HOME=/var/lib/berth-server
    fi
    ;;
esac
export BERTH_AGENT_PACKAGES="${BERTH_AGENT_PACKAGES:-$here/../packages}"
export BERTH_DASHBOARD_DIR="${BERTH_DASHBOARD_DIR:-$here/../dashboard}"
# a release may be at an address that only authorities of this system vouch for; curl asks them too
options=
case ${1:-serve} in upgrade) options=--use-system-ca ;; esac
exec $as "$here/node" $options "$here/../lib/berth-server.mjs" "$@"
