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
# Installs the Berth agent ${version} on this server and joins it to ${baseUrl}. It asks sudo for root's rights:
#   echo berth_join_... | sh install.sh --token-file -     or --token-file FILE, --token TOKEN, or none: an update
#   sh install.sh --no-start                      leaves the service as it is
#   sh install.sh --allow-server-shell            people with the right may open a shell on the whole server
# What it makes: /opt/berth, /usr/local/bin/berth-agent, /etc/systemd/system/berth-agent.service, /var/lib/berth,
# /etc/berth, the account berth-caddy and the group berth-web. The agent then adds /etc/ssh/sshd_config.d/60-berth.conf and
# the accounts berth-ssh, berth-shell and berth-git.
set -eu
# other accounts enter what is made here, whatever root's shell says
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

token='' start=yes shell=no
while [ $# -gt 0 ]; do
  case $1 in
    --token) [ $# -gt 1 ] || stop "--token needs a value."; token=$2; shift 2 ;;
    --token-file) [ $# -gt 1 ] || stop "--token-file needs a path, or - for stdin."; token=$(cat -- "$2"); shift 2 ;;
    --no-start) start=no; shift ;;
    --allow-server-shell) shell=yes; shift ;;
    *) stop "unknown option $1. Options: --token TOKEN, --token-file FILE, --no-start, --allow-server-shell." ;;
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

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT INT TERM
say "downloading $package"
curl -fsS --retry 3 -o "$scratch/package" "$url/install/$package" || stop "the download failed."
echo "$digest  $scratch/package" | sha256sum -c --status || stop "the download is not what was announced; nothing was changed."

folder=/opt/berth/$version
mkdir -p /opt/berth "$scratch/unpacked"
chmod 755 /opt/berth
tar -xzf "$scratch/package" -C "$scratch/unpacked" --no-same-owner
chmod 755 "$scratch/unpacked"
"$scratch/unpacked/bin/berth-agent" --version >/dev/null || stop "the agent does not start on this machine."
rm -rf "$folder.old"
[ ! -e "$folder" ] || mv "$folder" "$folder.old"
mv "$scratch/unpacked" "$folder"
rm -f /opt/berth/updating
ln -sfn "$folder" /opt/berth/current.new && mv -T /opt/berth/current.new /opt/berth/current
rm -rf "$folder.old"
mkdir -p /usr/local/bin
ln -sfn /opt/berth/current/bin/berth-agent /usr/local/bin/berth-agent

# Caddy never runs as root; where it did, this ends it and hands its files over
/opt/berth/current/bin/berth-agent setup proxy-account >/dev/null || say "the proxy has no account; nothing is routed here until 'berth-agent setup proxy' has succeeded."

if [ "$shell" = yes ]; then
  mkdir -p /etc/berth
  echo '{"allow_server_shell": true}' >/etc/berth/agent.json
  chmod 644 /etc/berth/agent.json
fi

if [ -n "$token" ]; then
  # not as an argument, which every account could read in the list of processes
  printf '%s' "$token" | /opt/berth/current/bin/berth-agent join "$url" - || stop "joining failed; the agent is installed. Make a new token and run: berth-agent join $url <token>"
fi

if [ -d /run/systemd/system ]; then
  cat >/etc/systemd/system/berth-agent.service <<'UNIT'
${AGENT_UNIT}
UNIT
  systemctl daemon-reload
  if [ "$start" = yes ]; then
    systemctl enable --quiet berth-agent
    systemctl restart berth-agent
    say "berth-agent $version runs. Look at it: berth-agent status; journalctl -u berth-agent"
  fi
else
  say "systemd does not run here. Start the agent with your service manager: berth-agent run"
fi
`
}
