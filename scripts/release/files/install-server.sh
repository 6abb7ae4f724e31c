#!/bin/sh
# Installs the Berth control plane on this machine (Debian, Ubuntu and relatives; x64, arm64). Run it as root:
#   sh install-server.sh --domain deploy.example.com           serves HTTPS itself, with certificates from ACME
#   sh install-server.sh [--url https://deploy.example.com]    behind a proxy that serves HTTPS
# Both work from the unpacked archive, or beside the archive.
#   sh install-server.sh --from ADDRESS                        downloads the archive and SHA256SUMS from there
#   sh install-server.sh --key berth-release.pub               also checks the signature of SHA256SUMS (with openssl)
#   sh install-server.sh --no-start                            leaves the service as it is
#   sh install-server.sh --uninstall [--purge]                 keeps data and settings; --purge removes them too
# What it makes: /opt/berth-server, /usr/local/bin/berth-server, /etc/berth/server.toml and server.env, the account
# berth-server, /var/lib/berth-server and, where systemd runs, berth-server.service. Run it again to update or repair.
set -eu
umask 022
opt=/opt/berth-server
data=/var/lib/berth-server
etc=/etc/berth
account=berth-server
program=/usr/local/bin/berth-server
unit=/etc/systemd/system/berth-server.service
delivered=/usr/lib/berth-server # the files of the Debian package, if there is one
say() { printf '%s\n' "berth: $*" >&2; }
stop() { say "$*"; exit 1; }
has_systemd() { [ -d /run/systemd/system ]; }
has_account() { id "$account" >/dev/null 2>&1; }

scratch=
clean() { [ -z "$scratch" ] || rm -rf "$scratch"; }
trap clean EXIT
trap 'exit 130' INT TERM

uninstall() { # --purge
  if has_systemd && [ -e "$unit" ]; then systemctl disable --quiet --now berth-server || true; fi
  rm -f "$unit" "$program"
  rm -rf "$opt"
  ! has_systemd || systemctl daemon-reload
  if [ "$1" = no ]; then
    say "removed. What stays: $data, $etc/server.toml, $etc/server.env and the account $account. --purge removes them too."
    return
  fi
  rm -rf "$data"
  rm -f "$etc/server.toml" "$etc/server.env" "$etc/release.pub"
  rmdir "$etc" 2>/dev/null || true # the agent's settings may be there
  ! has_account || userdel "$account"
  say "removed, with data, settings and account."
}

find_platform() {
  case $(uname -s)-$(uname -m) in
    Linux-x86_64) platform=linux-x64 ;;
    Linux-aarch64) platform=linux-arm64 ;;
    *) stop "there is no control plane for $(uname -s) on $(uname -m)." ;;
  esac
}

get() { # ADDRESS FILE
  if command -v curl >/dev/null 2>&1; then curl -fsSL --retry 3 -o "$2" "$1"
  elif command -v wget >/dev/null 2>&1; then wget -q -O "$2" "$1"
  else stop "curl or wget is needed. Install one and run this again."
  fi || stop "$1 could not be downloaded."
}

check_signature() { # FOLDER
  [ -n "$key" ] || return 0
  command -v openssl >/dev/null 2>&1 || stop "openssl is needed to check the signature. Install it and run this again."
  openssl pkeyutl -verify -pubin -inkey "$key" -rawin -in "$1/SHA256SUMS" -sigfile "$1/SHA256SUMS.sig" >/dev/null 2>&1 ||
    stop "SHA256SUMS is not signed with $key; nothing was changed."
}

# Sets archive to the one of this platform, checked against SHA256SUMS.
find_archive() { # FOLDER
  [ -r "$1/SHA256SUMS" ] || stop "SHA256SUMS is missing beside the archive. Take it from the same release."
  check_signature "$1"
  name=$(sed -n "s/^[0-9a-f]\{64\}  \(berth-server-[0-9][0-9A-Za-z.+-]*-$platform\.tar\.gz\)\$/\1/p" "$1/SHA256SUMS")
  case $name in '') stop "this release has no control plane for $platform." ;; *[!0-9A-Za-z.+_-]*) stop "SHA256SUMS names more than one." ;; esac
  [ -z "$from" ] || get "$from/$name" "$1/$name"
  # the agents' manifest is signed on its own; a release that was built with its key has the signature in the archive
  [ -z "$from" ] || curl -fsSL -o "$1/berth-agents.json.sig" "$from/berth-agents.json.sig" 2>/dev/null || rm -f "$1/berth-agents.json.sig"
  agents_signature=$1/berth-agents.json.sig
  [ -r "$1/$name" ] || stop "$name is missing beside this script."
  (cd "$1" && grep " $name\$" SHA256SUMS | sha256sum -c --status) || stop "$name is not what was released; nothing was changed."
  archive=$1/$name
}

# Sets source to an unpacked package.
find_source() {
  here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
  if [ -z "$from" ] && [ -f "$here/VERSION" ] && [ -x "$here/bin/berth-server" ]; then
    source=$here
    return
  fi
  if [ -n "$from" ]; then
    get "$from/SHA256SUMS" "$scratch/SHA256SUMS"
    [ -z "$key" ] || get "$from/SHA256SUMS.sig" "$scratch/SHA256SUMS.sig"
    find_archive "$scratch"
  else
    find_archive "$here"
  fi
  mkdir "$scratch/unpacked"
  tar -xzf "$archive" -C "$scratch/unpacked" --no-same-owner
  source=$(echo "$scratch"/unpacked/berth-server-*)
  if [ -r "$agents_signature" ]; then cp "$agents_signature" "$source/packages/"; fi
}

# Beside the old version, then one link changes. The version before stays for a way back, older ones go.
place_files() {
  version=$(cat "$source/VERSION")
  case $version in *[!0-9A-Za-z.+-]* | '') stop "$source/VERSION names no version." ;; esac
  "$source/bin/berth-server" --version >/dev/null || stop "the control plane does not start on this machine."
  folder=$opt/$version
  before=$(readlink "$opt/current" || true)
  before=${before##*/}
  mkdir -p "$opt"
  rm -rf "$opt/.new" "$opt/upgrade.json" "$opt/undone.json" "$opt/hold" "$opt/held"
  # hard links to the package's files where that is possible: dpkg replaces its files and never writes into them
  [ "$packaged" = yes ] && cp -Rl "$source" "$opt/.new" 2>/dev/null || {
    rm -rf "$opt/.new"
    cp -R "$source" "$opt/.new"
  }
  chown -R 0:0 "$opt/.new"
  rm -rf "$folder.old"
  [ ! -e "$folder" ] || mv "$folder" "$folder.old"
  mv "$opt/.new" "$folder"
  rm -f "$opt/.link"
  ln -s "$version" "$opt/.link"
  mv -T "$opt/.link" "$opt/current"
  for one in "$opt"/*; do
    case ${one##*/} in "$version" | "$before" | current | previous) ;; *) rm -rf "$one" ;; esac
  done
  if [ "$packaged" = no ]; then
    mkdir -p "${program%/*}"
    ln -sfn "$opt/current/bin/berth-server" "$program"
  elif [ "$(readlink "$program" || true)" = "$opt/current/bin/berth-server" ]; then
    rm -f "$program" # of an installation from the archive; the package has its own
  fi
}

# A version that runs decides itself whether it gives way to the one that dpkg delivered. Fails if there is none.
can_upgrade() {
  before=$(readlink "$opt/current" || true)
  [ -n "$before" ] && [ "${before##*/}" != "$(cat "$delivered/VERSION")" ] &&
    "$opt/current/bin/berth-server" --help 2>/dev/null | grep -q '^  upgrade '
}

# If this fails, apt fails too. dpkg then configures the package again at its next use: the failed version is not tried again.
upgrade_packaged() {
  version=$(cat "$delivered/VERSION")
  if grep -qsF "\"version\":\"$version\"" "$opt/undone.json"; then
    say "version $version did not become ready before, so version ${before##*/} runs. Look: berth-server doctor. Try again: berth-server upgrade"
    return 0
  fi
  if [ -n "${BERTH_UPGRADE_WAIT:-}" ]; then set -- --wait "$BERTH_UPGRADE_WAIT"; fi
  if "$opt/current/bin/berth-server" upgrade "$@"; then
    [ ! -e "$unit" ] || cp "$opt/current/berth-server.service" "$unit"
    return 0
  fi
  stop "version $version was not taken over, and version $(cat "$opt/current/VERSION") runs. Look: berth-server doctor"
}

make_account() {
  has_account && return
  useradd --system --user-group --home-dir "$data" --no-create-home --shell /usr/sbin/nologin "$account" ||
    stop "the account $account could not be created."
}

# Settings may contain passwords: only root writes them, and only the service reads them.
place_settings() {
  mkdir -p "$etc"
  # the key that upgrades trust
  [ -z "$key" ] || cp "$key" "$etc/release.pub"
  for name in server.toml server.env; do
    [ -e "$etc/$name" ] || cp "$opt/current/$name" "$etc/$name"
    chown "root:$account" "$etc/$name"
    chmod 640 "$etc/$name"
  done
  mkdir -p "$data"
  chown "$account:$account" "$data"
  chmod 700 "$data"
  # one decides about the other: behind a proxy there is a URL, without one there is a domain
  if [ -n "$url" ]; then set_variable BERTH_URL "$url" BERTH_DOMAIN; fi
  if [ -n "$domain" ]; then set_variable BERTH_DOMAIN "$domain" BERTH_URL; fi
  if [ -n "$acme" ]; then set_variable BERTH_ACME_DIRECTORY "$acme" BERTH_ACME_DIRECTORY; fi
}

set_variable() { # NAME VALUE NAME-THAT-GOES
  grep -v -e "^#\{0,1\}$1=" -e "^$3=" "$etc/server.env" >"$scratch/env" || true
  printf '%s\n' "$1=$2" >>"$scratch/env"
  cat "$scratch/env" >"$etc/server.env"
}


show_setup() {
  n=0
  until line=$(journalctl -u berth-server -b -o cat --since "@$1" 2>/dev/null | grep -m 1 'Berth listens at'); do
    n=$((n + 1))
    [ "$n" -le 60 ] || stop "the control plane has not started within a minute. Look: journalctl -u berth-server"
    sleep 1
  done
  say "$line"
  line=$(journalctl -u berth-server -b -o cat --since "@$1" 2>/dev/null | grep -m 1 'berth_setup_' || true)
  [ -z "$line" ] || say "$line"
  [ -z "$domain" ] || show_certificate "$1"
}

# An authority needs some seconds. A failure changes nothing here: the control plane tries again by itself.
show_certificate() {
  n=0
  until line=$(journalctl -u berth-server -b -o cat --since "@$1" 2>/dev/null | grep -m 1 -A 1 '^HTTPS certificate of'); do
    n=$((n + 1))
    [ "$n" -le 90 ] || { say "there is no certificate yet. Look: berth-server doctor"; return 0; }
    sleep 1
  done
  printf '%s\n' "$line" | sed -n -e '1s/^/berth: /p' -e '2s/^→/berth: →/p' >&2
}

start_service() {
  if ! has_systemd; then
    # an image that is being built: systemd finds the unit when it boots
    [ "$packaged" = no ] || [ ! -d "${unit%/*}" ] || cp "$opt/current/berth-server.service" "$unit"
    say "systemd does not run here. Start the control plane with your service manager: berth-server serve"
    say "It runs as the account $account and prints a set-up link when it starts for the first time."
    return
  fi
  cp "$opt/current/berth-server.service" "$unit"
  systemctl daemon-reload
  [ "$start" = yes ] || return 0
  systemctl enable --quiet berth-server
  since=$(date +%s)
  systemctl restart berth-server
  show_setup "$since"
}

main() {
  url='' domain='' acme='' from='' key='' start=yes packaged=no remove=no purge=no
  while [ $# -gt 0 ]; do
    case $1 in
      --url | --domain | --from | --key) [ $# -gt 1 ] || stop "$1 needs a value."; eval "${1#--}=\$2"; shift 2 ;;
      --acme-directory) [ $# -gt 1 ] || stop "$1 needs a value."; acme=$2; shift 2 ;;
      --no-start) start=no; shift ;;
      --packaged) packaged=yes; shift ;; # the files are those of the Debian package
      --uninstall) remove=yes; shift ;;
      --purge) purge=yes; shift ;;
      *) stop "unknown option $1. Options: --domain, --acme-directory, --url, --from, --key, --no-start, --uninstall, --purge." ;;
    esac
  done
  [ "$(id -u)" = 0 ] || stop "run this as root (sudo sh install-server.sh ...)."
  case $url in '' | http://* | https://*) ;; *) stop "--url must be an address such as https://deploy.example.com." ;; esac
  case $url in *[!0-9A-Za-z:/._~-]* | */) stop "--url must be an address without a slash at the end." ;; esac
  case $domain in
    '') ;;
    .* | *. | *..* | *[!0-9a-z.-]*) stop "--domain must be a name such as deploy.example.com, in lower case, without https://." ;;
    *.*) ;;
    *) stop "--domain must be a name such as deploy.example.com." ;;
  esac
  [ -z "$url" ] || [ -z "$domain" ] || stop "--domain and --url exclude each other: a domain is for HTTPS without a proxy."
  case $acme in '' | https://*) ;; *) stop "--acme-directory must be an address that begins with https://." ;; esac
  case $acme in *[!0-9A-Za-z:/._~-]*) stop "--acme-directory contains characters that an address does not." ;; esac
  [ "$purge" = no ] || [ "$remove" = yes ] || stop "--purge belongs to --uninstall."
  if [ "$remove" = yes ]; then
    ! [ -e "$delivered/VERSION" ] || stop "it was installed as a package. Remove it: apt remove berth-server (or purge)."
    uninstall "$purge"
    return
  fi
  find_platform
  scratch=$(mktemp -d)
  if [ "$packaged" = yes ] && can_upgrade; then
    upgrade_packaged
    return
  fi
  [ "$packaged" = yes ] || ! [ -e "$delivered/VERSION" ] ||
    stop "it was installed as a package. Update it: apt install ./berth-server_VERSION.deb"
  find_source
  place_files
  make_account
  place_settings
  command -v git >/dev/null 2>&1 || say "git is missing. Projects need it: apt install git"
  start_service
  say "berth-server $(cat "$opt/current/VERSION") is installed. Settings: $etc/server.toml, $etc/server.env. Data: $data"
}

# the last line, so that a download that was cut off runs nothing
main "$@"
