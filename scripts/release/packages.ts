// The content of each package of a release.
import { execFileSync } from 'node:child_process'
import { chmodSync, readFileSync } from 'node:fs'
import { cp, mkdir, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { AGENT_UNIT } from '../../control-plane/src/domain/servers/install-script.ts'
import { dashboardDist } from '../build-dashboard.ts'
import type { ReleaseFiles } from '../package-agent.ts'
import { bundleServer } from '../package-server.ts'
import { copyPackage, type PlatformParts, root } from '../packaging.ts'
import type { Deb } from './deb.ts'

export const VERSION: string = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version
const files = join(root, 'scripts/release/files')
const read = (name: string): string => readFileSync(join(files, name), 'utf8')

const DEB_ARCH: Record<string, string> = { 'linux-x64': 'amd64', 'linux-arm64': 'arm64' }
export const debName = (name: string, platform: string): string =>
  `${name}_${VERSION}_${DEB_ARCH[platform] ?? 'all'}.deb`

/** `packages`: the agents' archives and the client, which this control plane offers. */
export async function fillServer(
  folder: string,
  parts: PlatformParts,
  packages: string[],
  release: ReleaseFiles,
): Promise<void> {
  await mkdir(join(folder, 'bin'), { recursive: true })
  await bundleServer(join(folder, 'lib'))
  const modules = [join(folder, 'lib/node_modules')]
  await copyPackage('better-sqlite3', join(root, 'control-plane'), modules, parts)
  await cp(parts.node, join(folder, 'bin/node'))
  await cp(join(files, 'berth-server.sh'), join(folder, 'bin/berth-server'))
  await cp(dashboardDist, join(folder, 'dashboard'), {
    recursive: true,
    filter: (path) => !path.endsWith('.built-from'),
  })
  await mkdir(join(folder, 'packages'))
  for (const file of packages)
    await cp(file, join(folder, 'packages', file.split('/').at(-1) ?? ''))
  for (const name of ['install-server.sh', 'berth-server.service', 'server.toml', 'server.env']) {
    await cp(join(files, name), join(folder, name))
  }
  for (const name of ['bin/node', 'bin/berth-server', 'install-server.sh']) {
    chmodSync(join(folder, name), 0o755)
  }
  await writeFile(join(folder, 'VERSION'), `${VERSION}\n`)
  for (const [name, text] of Object.entries(release)) await writeFile(join(folder, name), text)
}

const fieldsOf = (name: string, platform: string, depends: string, summary: string) => ({
  Package: name,
  Version: VERSION,
  Architecture: DEB_ARCH[platform] ?? 'all',
  Maintainer: 'The Berth project <berth@example.com>',
  Section: 'admin',
  Priority: 'optional',
  Depends: depends,
  Description: summary,
})

/** What the shipped Node.js links. */
const NODE_NEEDS = 'libc6 (>= 2.28), libstdc++6, libgcc-s1'

async function put(file: string, text: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true })
  await writeFile(file, text)
}

async function link(file: string, target: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true })
  await symlink(target, file)
}

/**
 * From the unpacked package of the server. dpkg gets the files as they are, elsewhere than the versions that run:
 * install-server.sh and `berth-server upgrade` put a version beside the others, try it, and return if it fails.
 */
export async function layOutServerDeb(
  folder: string,
  server: string,
  platform: string,
): Promise<Deb> {
  await cp(server, join(folder, 'usr/lib/berth-server'), { recursive: true })
  await link(join(folder, 'usr/bin/berth-server'), '/opt/berth-server/current/bin/berth-server')
  for (const name of ['server.toml', 'server.env']) {
    await put(join(folder, 'etc/berth', name), read(name))
  }
  const needs = `${NODE_NEEDS}, passwd, git, openssh-client, ca-certificates`
  return {
    fields: fieldsOf('berth-server', platform, needs, 'Control plane of Berth deployments'),
    conffiles: ['/etc/berth/server.toml', '/etc/berth/server.env'],
    scripts: {
      // an older version is refused before dpkg has changed anything; a new try may succeed where the last one failed
      preinst: `current=$(readlink /opt/berth-server/current || true)
current=$(printf %s "\${current##*/}" | tr - '~')
if [ -n "$current" ] && dpkg --compare-versions "$current" gt ${VERSION.replaceAll('-', '~')}; then
  echo "berth: version $current runs here, and ${VERSION} is older. A database is never migrated backwards: restore a backup on a new installation (berth-server restore)." >&2
  exit 1
fi
rm -f /opt/berth-server/undone.json
`,
      postinst: '[ "$1" != configure ] || sh /usr/lib/berth-server/install-server.sh --packaged\n',
      prerm: `if [ "$1" = remove ] && [ -d /run/systemd/system ]; then systemctl disable --now berth-server || true; fi\n`,
      postrm: `if [ "$1" = remove ] || [ "$1" = purge ]; then
  rm -f /etc/systemd/system/berth-server.service
  rm -rf /opt/berth-server
fi
[ ! -d /run/systemd/system ] || systemctl daemon-reload || true
if [ "$1" = purge ]; then
  rm -rf /var/lib/berth-server
  rm -f /etc/berth/release.pub
  ! id berth-server >/dev/null 2>&1 || userdel berth-server
  rmdir --ignore-fail-on-non-empty /etc/berth 2>/dev/null || true
fi
`,
    },
  }
}

/** From the unpacked package of the agent. */
export async function layOutAgentDeb(
  folder: string,
  agent: string,
  platform: string,
): Promise<Deb> {
  await cp(agent, join(folder, 'opt/berth', VERSION), { recursive: true })
  await link(join(folder, 'opt/berth/current'), VERSION)
  await link(join(folder, 'usr/bin/berth-agent'), '/opt/berth/current/bin/berth-agent')
  await put(join(folder, 'usr/lib/systemd/system/berth-agent.service'), `${AGENT_UNIT}\n`)
  const needs = `${NODE_NEEDS}, passwd, git, ca-certificates, iptables, iproute2`
  const fields = fieldsOf('berth-agent', platform, needs, 'Agent of Berth deployments')
  return {
    fields: { ...fields, Recommends: 'openssh-server, docker.io | docker-ce' },
    scripts: {
      postinst: `[ "$1" = configure ] || exit 0
berth-agent setup proxy-account >/dev/null || echo "berth: the proxy has no account; run: berth-agent setup proxy" >&2
[ ! -d /run/systemd/system ] || systemctl daemon-reload
if [ ! -e /var/lib/berth/identity/current ]; then
  echo "berth: join this server, then start it: berth-agent join URL TOKEN; systemctl enable --now berth-agent" >&2
elif [ -d /run/systemd/system ]; then
  systemctl enable --quiet berth-agent
  systemctl restart berth-agent
fi
`,
      prerm: `if [ "$1" = remove ] && [ -d /run/systemd/system ]; then systemctl disable --now berth-agent || true; fi\n`,
      postrm: '[ ! -d /run/systemd/system ] || systemctl daemon-reload || true\n',
    },
  }
}

const COMPLETIONS: Record<string, string> = {
  bash: 'usr/share/bash-completion/completions/berth',
  zsh: 'usr/share/zsh/vendor-completions/_berth',
  fish: 'usr/share/fish/vendor_completions.d/berth.fish',
}

export async function layOutClientDeb(folder: string, client: string): Promise<Deb> {
  await mkdir(join(folder, 'usr/bin'), { recursive: true })
  await cp(client, join(folder, 'usr/bin/berth'))
  for (const [shell, file] of Object.entries(COMPLETIONS)) {
    const script = execFileSync(process.execPath, [client, 'completion', shell])
    await put(join(folder, file), script.toString('utf8'))
  }
  return { fields: fieldsOf('berth', 'all', 'nodejs (>= 18)', 'Client of Berth deployments') }
}

const CONTAINERS = {
  /** Beside the server's archives. */
  docker: [
    'Dockerfile',
    'compose.yaml',
    'haproxy.cfg',
    'Caddyfile',
    'example.env',
    'replace.sh',
    'README.md',
  ],
  kubernetes: ['berth.yaml', 'README.md'],
} as const

export async function fillContainers(kind: keyof typeof CONTAINERS, folder: string): Promise<void> {
  for (const name of CONTAINERS[kind]) {
    await put(join(folder, name), read(`${kind}/${name}`).replaceAll('@VERSION@', VERSION))
  }
}
