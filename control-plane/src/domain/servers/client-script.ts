// The script that installs the client on a person's machine: Linux and macOS. PURE. It contains the digests of what it
// downloads; the client needs Node.js, which the script takes from the agent's package if the machine has none.
import { type PackagedAgent, quote } from './install-script.ts'

interface ClientFacts {
  baseUrl: string
  version: string
  sha256: string
  /** Each contains the pinned Node.js of its platform. */
  packages: readonly PackagedAgent[]
}

export const CLIENT_FILE = 'berth.cjs'
/** The `engines` of the client. */
const OLDEST_NODE = 18

const choice = ({ platform, name, sha256 }: PackagedAgent): string =>
  `    ${platform}) package=${quote(name)} package_digest=${quote(sha256)} ;;`

export function renderClientScript({ baseUrl, version, sha256, packages }: ClientFacts): string {
  return `#!/bin/sh
# Installs the Berth client ${version} from ${baseUrl}, on Linux and macOS:
#   curl -fsSL ${baseUrl}/install-cli.sh | sh
#   curl -fsSL ${baseUrl}/install-cli.sh | sh -s -- --uninstall
# It writes berth into ~/.local/bin, as root into /usr/local/bin (BERTH_BIN_DIR names another folder), and a completion
# for each shell that has a folder for them. Without Node.js ${OLDEST_NODE} or newer it also fetches Node.js, for berth alone.
# On every other system: download ${baseUrl}/cli/${CLIENT_FILE} and run it with Node.js.
set -eu
umask 022
url=${quote(baseUrl)}
version=${quote(version)}
digest=${quote(sha256)}
say() { printf '%s\\n' "berth: $*" >&2; }
stop() { say "$*"; exit 1; }

get() { # ADDRESS FILE
  if command -v curl >/dev/null 2>&1; then curl -fsSL --retry 3 -o "$2" "$1"
  elif command -v wget >/dev/null 2>&1; then wget -q -O "$2" "$1"
  else stop "curl or wget is needed. Install one and run this again."
  fi
}

digest_of() {
  if command -v sha256sum >/dev/null 2>&1; then sha256sum "$1"
  elif command -v shasum >/dev/null 2>&1; then shasum -a 256 "$1"
  elif command -v openssl >/dev/null 2>&1; then openssl dgst -sha256 -r "$1"
  else stop "sha256sum, shasum or openssl is needed to check the download. Install one and run this again."
  fi | cut -d ' ' -f 1
}

download() { # ADDRESS FILE DIGEST
  get "$1" "$2" || stop "$1 could not be downloaded."
  [ "$(digest_of "$2")" = "$3" ] || stop "$1 is not what was announced; nothing was changed."
}

# Sets platform; empty where no Node.js is offered.
find_platform() {
  case $(uname -s)-$(uname -m) in
    Linux-x86_64) platform=linux-x64 ;;
    Linux-aarch64) platform=linux-arm64 ;;
    Linux-* | Darwin-*) platform='' ;;
    *) stop "this script is for Linux and macOS. Download $url/cli/${CLIENT_FILE} and run it with Node.js ${OLDEST_NODE} or newer." ;;
  esac
}

has_node() {
  found=$(node --version 2>/dev/null) || return 1
  found=\${found#v}
  [ "\${found%%.*}" -ge ${OLDEST_NODE} ] 2>/dev/null
}

fetch_node() {
  hint="Install Node.js ${OLDEST_NODE} or newer and run this again."
  [ "$(uname -s)" != Darwin ] || hint="Install Node.js ${OLDEST_NODE} or newer (brew install node, or nodejs.org) and run this again."
  case $platform in
${packages.map(choice).join('\n')}
    *) stop "no Node.js ${OLDEST_NODE} or newer was found, and this control plane offers none for $(uname -s) on $(uname -m). $hint" ;;
  esac
  say "no Node.js ${OLDEST_NODE} or newer was found; downloading one for berth alone"
  download "$url/install/$package" "$scratch/package" "$package_digest"
  tar -xzf "$scratch/package" -C "$scratch" ./bin/node || stop "$package could not be unpacked."
  rm -f "$scratch/package"
  "$scratch/bin/node" -e 0 2>/dev/null || stop "the Node.js of this control plane does not run on this system. $hint"
}

# Replaces a file at once, because a running command may read it.
place() { # FROM TO MODE
  mkdir -p "$(dirname "$2")"
  cp "$1" "$2.new"
  chmod "$3" "$2.new"
  mv -f "$2.new" "$2"
}

find_folders() {
  if [ "$(id -u)" = 0 ]; then
    bin=/usr/local/bin lib=/usr/local/lib/berth share=/usr/local/share
    bash_needs=/usr/share/bash-completion zsh_needs=/usr/share/zsh fish_needs=/usr/share/fish
    fish_file=$share/fish/vendor_completions.d/berth.fish
  else
    [ -n "\${HOME:-}" ] || stop "HOME is not set."
    share=\${XDG_DATA_HOME:-$HOME/.local/share}
    bin=$HOME/.local/bin lib=$share/berth
    bash_needs=/usr/share/bash-completion zsh_needs=$share/zsh/site-functions fish_needs=\${XDG_CONFIG_HOME:-$HOME/.config}/fish
    fish_file=$fish_needs/completions/berth.fish
    [ ! -d "$share/bash-completion" ] || bash_needs=$share/bash-completion
  fi
  bin=\${BERTH_BIN_DIR:-$bin}
  bash_file=$share/bash-completion/completions/berth
  zsh_file=$share/zsh/site-functions/_berth
}

complete_for() { # SHELL NEEDED FILE
  [ -d "$2" ] || return 0
  "$bin/berth" completion "$1" >"$scratch/completion" && place "$scratch/completion" "$3" 644 && say "completion for $1: $3" ||
    say "no completion for $1: $3 could not be written."
}

uninstall() {
  rm -f "$bin/berth" "$lib/node" "$lib/${CLIENT_FILE}" "$bash_file" "$zsh_file" "$fish_file"
  [ ! -d "$lib" ] || rmdir "$lib" 2>/dev/null || true
  # folders that are empty now; others have files of other programs
  for file in "$bash_file" "$zsh_file" "$fish_file"; do
    folder=$(dirname "$file")
    rmdir "$folder" "$(dirname "$folder")" 2>/dev/null || true
  done
  say "berth was removed. The login stays in ~/.config/berth; 'berth logout' before this would have revoked it."
}

main() {
  find_folders
  case \${1:-} in
    '') ;;
    --uninstall) uninstall; return ;;
    *) stop "unknown option $1. The only option is --uninstall." ;;
  esac
  find_platform
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  trap 'exit 130' INT TERM
  download "$url/cli/${CLIENT_FILE}" "$scratch/berth" "$digest"
  if has_node; then
    place "$scratch/berth" "$bin/berth" 755
    rm -f "$lib/node" "$lib/${CLIENT_FILE}"
  else
    fetch_node
    place "$scratch/bin/node" "$lib/node" 755
    place "$scratch/berth" "$lib/${CLIENT_FILE}" 644
    quoted=$(printf %s "$lib" | sed "s/'/'\\\\\\\\''/g")
    printf '%s\\n' '#!/bin/sh' "exec '$quoted/node' '$quoted/${CLIENT_FILE}' \\"\\$@\\"" >"$scratch/launcher"
    place "$scratch/launcher" "$bin/berth" 755
  fi
  "$bin/berth" --version >/dev/null || stop "$bin/berth does not start."
  say "berth $version is $bin/berth"
  complete_for bash "$bash_needs" "$bash_file"
  complete_for zsh "$zsh_needs" "$zsh_file"
  complete_for fish "$fish_needs" "$fish_file"
  case ":$PATH:" in
    *":$bin:"*) ;;
    *) say "$bin is not in your PATH. Add it: export PATH=\\"$bin:\\$PATH\\"" ;;
  esac
  say "log in:             berth login --url $url"
  say "for AI assistants:  berth mcp install --client claude-code   (or cursor, vscode)"
}

# the last line, so that a download that was cut off runs nothing
main "$@"
`
}
