// The script that makes a machine a server of this installation: unpack, join, start. PURE. It contains everything it
// needs, digests too; only the token varies at run time, and the script never prints it.
export interface PackagedAgent {
  /** `linux-x64` or `linux-arm64`. */
  platform: string
  name: string
  sha256: string
}

interface InstallFacts {
  baseUrl: string
  version: string
  packages: readonly PackagedAgent[]
}

/** Quotes for sh. */
export const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

const choice = ({ platform, name, sha256 }: PackagedAgent): string =>
  `  ${platform}) package=${quote(name)} digest=${quote(sha256)} ;;`

export const AGENT_UNIT = `[Unit]
Description=Berth agent
Documentation=man:systemd.service(5)
After=network-online.target docker.service
Wants=network-online.target

[Service]
ExecStart=/opt/berth/current/bin/berth-agent run
Restart=always
RestartSec=2
# locked out by the control plane: a restart would not help
RestartPreventExitStatus=78
# deployments and services outlive the daemon
KillMode=process
Delegate=yes
OOMScoreAdjust=-500
LimitNOFILE=65536
UMask=0022

# What the agent's work never needs is taken from it, and so from everything that it starts.
CapabilityBoundingSet=~CAP_SYS_MODULE CAP_SYS_RAWIO CAP_SYS_TIME CAP_SYS_BOOT CAP_SYS_PACCT CAP_SYSLOG CAP_WAKE_ALARM CAP_BLOCK_SUSPEND CAP_LINUX_IMMUTABLE CAP_LEASE CAP_MAC_ADMIN CAP_MAC_OVERRIDE
SystemCallFilter=~@clock @cpu-emulation @module @obsolete @raw-io @reboot @swap sethostname setdomainname
SystemCallErrorNumber=EPERM
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
LockPersonality=yes
RestrictRealtime=yes
KeyringMode=private
# Not set, and why:
# NoNewPrivileges: people whom you give a shell on the whole server may use sudo there. Commands of environments have it.
# ProtectSystem, ProtectHome, PrivateTmp, PrivateDevices, ProtectKernelTunables, ProtectKernelLogs, ProtectProc,
#   ReadWritePaths: each gives the daemon a view of mounts of its own. Deployments and services outlive the daemon; after a
#   restart they and the new daemon would see two different servers. The agent also makes accounts (/etc/passwd), files of
#   sshd and programs of its own, sets net.ipv4.tcp_migrate_req, and reads what every process is. Commands of environments have namespaces of their own.
# ProtectControlGroups, Delegate=no: every step and service has a control group.
# RestrictNamespaces: commands get namespaces; browsers in deployments make their own.
# RestrictSUIDSGID: the folder of an environment's sockets passes its group on.
# MemoryDenyWriteExecute: Node.js compiles while it runs, and so do many applications.
# ProtectClock, DevicePolicy: a list of devices would hold for applications too; the calls and rights are gone already.
# ProtectHostname: the server would keep its old name until the next restart; the calls are gone already.
# SystemCallArchitectures: applications may be 32-bit programs.
# PrivateNetwork, PrivateUsers, DynamicUser, User: the agent routes, makes accounts and acts for them.

[Install]
WantedBy=multi-user.target`

export function renderInstallScript({ baseUrl, version, packages }: InstallFacts): string {
  return `#!/bin/sh
# Makes this machine a server of ${baseUrl}: installs the Berth agent ${version}, joins, and says what it did. A second run
# changes only what is not as it should be. It asks sudo for root's rights, unless it has them:
#   echo berth_join_... | sh install.sh --token-file -     or --token-file FILE, --token TOKEN, or none: an update
#   --with-docker           also installs the distribution's Docker engine, if there is no engine
#   --no-start              leaves the service as it is
#   --allow-server-shell    people with the right may open a shell on the whole server
#   --uninstall             runs berth-agent uninstall; what follows is passed on
# What it makes: /opt/berth, /usr/local/bin/berth-agent, /etc/systemd/system/berth-agent.service, /var/lib/berth,
# /etc/berth, the account berth-caddy and the group berth-web; packages that are missing: git, iptables. The agent then
# adds /etc/ssh/sshd_config.d/60-berth.conf and the accounts berth-ssh, berth-shell and berth-git.
set -eu
# other accounts enter what is made here, regardless of root's shell
umask 022
url=${quote(baseUrl)}
version=${quote(version)}
say() { printf '%s\\n' "berth: $*" >&2; }
stop() { say "$*"; exit 1; }

# as root from here on; sudo asks for its password at the terminal, so a token on stdin reaches this script
if [ "$(id -u)" != 0 ]; then
  [ -f "$0" ] && command -v sudo >/dev/null 2>&1 || stop "run this as root."
  exec sudo sh "$0" "$@"
fi

token='' start=yes shell=no docker=no uninstall=no
while [ $# -gt 0 ]; do
  case $1 in
    --token) [ $# -gt 1 ] || stop "--token needs a value."; token=$2; shift 2 ;;
    --token-file) [ $# -gt 1 ] || stop "--token-file needs a path, or - for stdin."; token=$(cat -- "$2"); shift 2 ;;
    --with-docker) docker=yes; shift ;;
    --no-start) start=no; shift ;;
    --allow-server-shell) shell=yes; shift ;;
    --uninstall) uninstall=yes; shift; break ;;
    *) stop "unknown option $1. Options: --token TOKEN, --token-file FILE, --with-docker, --no-start, --allow-server-shell, --uninstall." ;;
  esac
done

for program in curl tar gzip sha256sum; do
  command -v "$program" >/dev/null 2>&1 || stop "$program is missing. Install it and run this again."
done
case $(uname -s)-$(uname -m) in
  Linux-x86_64) platform=linux-x64 ;;
  Linux-aarch64) platform=linux-arm64 ;;
  *) stop "there is no agent for $(uname -s) on $(uname -m)." ;;
esac
case $platform in
${packages.map(choice).join('\n')}
  *) stop "this control plane has no agent for $platform. Run 'npm run bundle' of the same version on such a machine and put its archive into dist/ there." ;;
esac

agent=/opt/berth/current/bin/berth-agent
folder=/opt/berth/$version
state=/var/lib/berth
changed=no
did() { changed=yes; say "done: $*"; }
kept() { say "as before: $*"; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT INT TERM

# the digest is written last, so that half a folder has none
has_program() {
  [ "$(cat "$folder/.sha256" 2>/dev/null)" = "$digest" ] && [ "$(readlink -f /opt/berth/current)" = "$folder" ]
}
unpack() {
  say "downloading $package"
  curl -fsS --retry 3 -o "$scratch/package" "$url/install/$package" || stop "the download failed."
  echo "$digest  $scratch/package" | sha256sum -c --status || stop "the download is not what was announced; nothing was changed."
  mkdir -p "$scratch/unpacked"
  tar -xzf "$scratch/package" -C "$scratch/unpacked" --no-same-owner
  chmod 755 "$scratch/unpacked"
  "$scratch/unpacked/bin/berth-agent" --version >/dev/null || stop "the agent does not start on this machine."
}

if [ "$uninstall" = yes ]; then
  # of the program that is here, or of a fresh one: half an installation can be removed too
  if [ -x "$agent" ]; then "$agent" uninstall "$@"; exit; fi
  unpack
  "$scratch/unpacked/bin/berth-agent" uninstall "$@"
  exit
fi

if [ -e /usr/bin/berth-agent ]; then
  kept "the program, which came as a package; update it with apt"
elif has_program; then
  kept "the program, /opt/berth/$version"
else
  unpack
  mkdir -p /opt/berth
  chmod 755 /opt/berth
  echo "$digest" >"$scratch/unpacked/.sha256"
  rm -rf "$folder.old"
  [ ! -e "$folder" ] || mv "$folder" "$folder.old"
  mv "$scratch/unpacked" "$folder"
  rm -f /opt/berth/updating
  ln -sfn "$folder" /opt/berth/current.new && mv -T /opt/berth/current.new /opt/berth/current
  rm -rf "$folder.old"
  did "the program is in $folder"
fi
# a package has its own
if [ ! -e /usr/bin/berth-agent ] && [ "$(readlink /usr/local/bin/berth-agent)" != "$agent" ]; then
  mkdir -p /usr/local/bin
  ln -sfn "$agent" /usr/local/bin/berth-agent
  did "/usr/local/bin/berth-agent"
fi

has() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ]; }
# any engine counts, also one that Berth refuses: it belongs to the owner of this server
has_engine() { has dockerd || has podman || [ -S /var/run/docker.sock ] || [ -S /run/podman/podman.sock ]; }
missing=''
has git || missing="$missing git"
has iptables-restore || missing="$missing iptables"
if [ "$docker" = yes ]; then
  if has_engine; then
    kept "the engine that is here; --with-docker never changes one"
  else
    missing="$missing docker.io"
    # a kernel with AppArmor starts no container without its parser
    [ "$(cat /sys/module/apparmor/parameters/enabled 2>/dev/null)" != Y ] || has apparmor_parser || missing="$missing apparmor"
  fi
fi
missing=\${missing# }
is_debian() { (. /etc/os-release && case " $ID \${ID_LIKE-} " in *' debian '*|*' ubuntu '*) ;; *) exit 1 ;; esac) 2>/dev/null; }
apt() { DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 "$@" </dev/null >"$scratch/apt" 2>&1; }
if [ -z "$missing" ]; then
  kept "the packages of the distribution"
elif is_debian && has apt-get; then
  say "installing $missing"
  if apt update && apt install -y --no-install-recommends --no-remove $missing; then
    mkdir -p "$state" && chmod 711 "$state"
    # berth-agent uninstall names them
    for name in $missing; do echo "$name"; done >>"$state/installed-packages"
    did "installed $missing"
  else
    tail -n 3 "$scratch/apt" >&2
    say "NOT done: $missing could not be installed. Install it, then run this again."
  fi
else
  say "NOT done: this is neither Debian nor Ubuntu. Install $missing, then run this again."
fi
# an engine that was here before is its owner's to start
is_ours() { grep -qx docker.io "$state/installed-packages" 2>/dev/null; }
if [ "$docker" = yes ] && is_ours && ! [ -S /var/run/docker.sock ] && ! [ -d /run/systemd/system ]; then
  # without systemd the package starts nothing; its script needs rights that a container may lack
  service docker start >/dev/null 2>&1 || (setsid dockerd </dev/null >/var/log/docker.log 2>&1 &)
  waited=0
  while [ "$waited" -lt 60 ] && ! [ -S /var/run/docker.sock ]; do sleep 1; waited=$((waited + 1)); done
  if [ -S /var/run/docker.sock ]; then did "the engine runs"
  else
    tail -n 3 /var/log/docker.log >&2 2>/dev/null || true
    say "NOT done: the engine does not start. Start dockerd with your service manager."
  fi
fi

# Caddy never runs as root; where it did, this ends it and hands its files over
if made=$("$agent" setup proxy-account); then
  case $made in *': made.'*) did "Caddy's account, berth-caddy" ;; *) kept "Caddy's account" ;; esac
else
  say "NOT done: the proxy has no account; nothing is routed here until 'berth-agent setup proxy' has succeeded."
fi

if [ "$shell" = yes ] && ! grep -q '"allow_server_shell": true' /etc/berth/agent.json 2>/dev/null; then
  mkdir -p /etc/berth
  echo '{"allow_server_shell": true}' >/etc/berth/agent.json
  chmod 644 /etc/berth/agent.json
  did "people with the right may open a shell on this server"
fi

if [ -n "$token" ]; then
  # not as an argument, which every account could read in the list of processes
  joined=$(printf '%s' "$token" | "$agent" join --if-needed "$url" -) || stop "joining failed; the agent is installed. Make a new token and run this again."
  case $joined in *already*) kept "joined to $url; the token was not used" ;; *) did "joined $url" ;; esac
fi

is_joined() { [ -e "$state/identity/current" ]; }
runs() { "$agent" status >/dev/null 2>&1; }
if [ -d /run/systemd/system ]; then
  unit=/etc/systemd/system/berth-agent.service
  cat >"$scratch/unit" <<'UNIT'
${AGENT_UNIT}
UNIT
  # a package brings its own
  if [ -e /usr/lib/systemd/system/berth-agent.service ] || cmp -s "$scratch/unit" "$unit"; then
    kept "the unit berth-agent.service"
  else
    cp "$scratch/unit" "$unit"
    systemctl daemon-reload
    did "the unit $unit"
  fi
  if [ "$start" = yes ] && is_joined; then
    systemctl enable --quiet berth-agent
    if [ "$changed" = yes ] || ! systemctl is-active --quiet berth-agent; then
      systemctl restart berth-agent
      did "berth-agent runs. Look at it: berth-agent status; journalctl -u berth-agent"
    fi
  fi
elif [ "$start" = yes ] && is_joined; then
  if [ "$changed" = yes ] || ! runs; then
    pid=$(sed -n 's/^  "pid": \\([0-9]*\\),*$/\\1/p' /run/berth/agent.json 2>/dev/null || true)
    [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
    for _ in 1 2 3 4 5 6 7 8 9 10; do [ -z "$pid" ] || ! kill -0 "$pid" 2>/dev/null || sleep 1; done
    # the daemon logs only problems, and each start empties the file, so it stays small
    (umask 077; BERTH_LOG_LEVEL=\${BERTH_LOG_LEVEL-warn} setsid "$agent" run </dev/null >"$state/agent.log" 2>&1 &)
    did "berth-agent runs, with its log in $state/agent.log"
  fi
  say "NOT done: systemd does not run here, so a restart of this machine does not start the agent. Add to your service manager: berth-agent run"
fi
if [ "$start" = yes ] && is_joined; then
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do runs || sleep 1; done
  if runs; then say "$("$agent" status)"; else say "the agent is not connected yet."; fi
elif [ "$start" = yes ]; then
  say "NOT done: this server has not joined. Create a join token on its server page and run the command that it shows."
fi
[ "$changed" = yes ] || say "nothing was changed."
# sshd, Caddy and packet rules are set up by the agent, a moment after its start
if [ "$start" = yes ] && is_joined; then
  for _ in 1 2 3 4 5 6 7 8 9 10; do "$agent" doctor --problems >"$scratch/doctor" 2>&1 && break || sleep 1; done
  if [ -s "$scratch/doctor" ]; then
    say "not done, or not as it should be (berth-agent doctor shows everything):"
    cat "$scratch/doctor" >&2
  else
    say "berth-agent doctor finds no problem."
  fi
fi
`
}
