// The built dashboard (`npm run build:dashboard`), read once into memory: file by address, with the policy its page
// needs. A missing folder is looked for again at the next request. Only files found in the folder have an address: a
// name from a request never reaches the file system.
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { extname, join, relative, sep } from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { DASHBOARD } from '../../limits/browser.ts'

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.json': 'application/json',
  '.webmanifest': 'application/manifest+json',
  '.txt': 'text/plain; charset=utf-8',
  '.woff2': 'font/woff2',
}
/** These are compressed already. */
const PACKED = new Set(['.png', '.ico', '.woff2'])
const compress = promisify(gzip)

export interface DashboardFile {
  type: string
  bytes: Buffer
  /** Undefined if compression saves too little. */
  gzipped: Buffer | undefined
  tag: string
  /** True if the name changes with the contents. */
  isImmutable: boolean
}

export interface Dashboard {
  index: DashboardFile
  /** By path relative to the folder, with slashes. */
  files: ReadonlyMap<string, DashboardFile>
  /** Sources of the inline scripts of its page, for `script-src`. */
  scriptHashes: readonly string[]
}

/** The only inline script sets the theme before the first paint. */
function hashInlineScripts(html: string): string[] {
  const inline = [...html.matchAll(/<script(?![^>]*\ssrc=)[^>]*>([\s\S]*?)<\/script>/gi)]
  return inline.map(
    ([, text = '']) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`,
  )
}

async function toFile(path: string, bytes: Buffer): Promise<DashboardFile> {
  const kind = extname(path)
  const gzipped = PACKED.has(kind) ? undefined : await compress(bytes, { level: 9 })
  return {
    type: TYPES[kind] ?? 'application/octet-stream',
    bytes,
    gzipped: gzipped && gzipped.length < bytes.length ? gzipped : undefined,
    tag: `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 16)}"`,
    isImmutable: path.startsWith('assets/') && /-[\w-]{8,}\.\w+$/.test(path),
  }
}

/** Undefined if it was not built. */
export async function readDashboard(folder: string): Promise<Dashboard | undefined> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  const paths = entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)).split(sep).join('/'))
  if (!paths.includes('index.html')) return undefined
  if (paths.length > DASHBOARD.files) throw new Error(`${folder} holds too many files`)
  const files = new Map<string, DashboardFile>()
  let size = 0
  for (const path of paths) {
    const bytes = await readFile(join(folder, path))
    size += bytes.length
    if (size > DASHBOARD.bytes) throw new Error(`${folder} is larger than a dashboard of ours`)
    files.set(path, await toFile(path, bytes))
  }
  const index = files.get('index.html')
  if (!index) return undefined
  return { index, files, scriptHashes: hashInlineScripts(index.bytes.toString()) }
}
