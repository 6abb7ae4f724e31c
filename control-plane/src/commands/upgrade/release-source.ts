// Finds the archive of a release in a folder, beside a file or at an address, and checks it: the signature of SHA256SUMS
// with the trusted key, then the archive against SHA256SUMS. Nothing of it runs before.
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream, existsSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AGENT_MANIFEST_SIGNATURE, isSignedBy } from '@berth/shared/release'
import { UPGRADE } from '../../limits/installation.ts'

export interface CheckedRelease {
  version: string
  archive: string
  bytes: number
  /** Signature of the agents' manifest; undefined: the release has none beside it. */
  agentSignature: Buffer | undefined
}

type Get = (name: string, most: number) => Promise<string | undefined>

const SUMS_BYTES = 65_536

/** `scratch`: where downloads go. Throws a sentence; then nothing was changed. */
export async function findRelease(
  from: string,
  key: string,
  platform: string,
  scratch: string,
): Promise<CheckedRelease> {
  const isUrl = /^https?:\/\//.test(from)
  const isFile = !isUrl && existsSync(from) && statSync(from).isFile()
  if (isFile && from.endsWith('.deb')) {
    throw new Error(
      'This installation is not a Debian package. Take the archive (.tar.gz) of the release.',
    )
  }
  const folder = isFile ? dirname(from) : from
  const get: Get = isUrl ? download(from, scratch) : async (name) => findFile(folder, name)
  const sums = await need(get, 'SHA256SUMS', SUMS_BYTES)
  const signature = await need(get, 'SHA256SUMS.sig', SUMS_BYTES)
  const listed = readFileSync(sums)
  if (!isSignedBy(key, listed, readFileSync(signature))) {
    throw new Error(
      'The release is not signed with the key that this installation trusts; nothing was changed. If the release has a new key, pass its public half with --key FILE.',
    )
  }
  const found = findArchive(listed.toString('utf8'), platform)
  if (isFile && basename(from) !== found.name) {
    throw new Error(`${basename(from)} is not the archive for ${platform}, which is ${found.name}.`)
  }
  const archive = await need(get, found.name, UPGRADE.archiveBytes)
  if ((await hashFile(archive)) !== found.sha256) {
    throw new Error(`${found.name} is damaged or was changed; nothing was changed here.`)
  }
  const agents = await get(AGENT_MANIFEST_SIGNATURE, SUMS_BYTES)
  return {
    version: found.version,
    archive,
    bytes: statSync(archive).size,
    agentSignature: agents === undefined ? undefined : readFileSync(agents),
  }
}

function findArchive(
  sums: string,
  platform: string,
): { name: string; version: string; sha256: string } {
  for (const line of sums.split('\n')) {
    const [, sha256 = '', name = '', version = ''] =
      /^([0-9a-f]{64}) {2}(berth-server-(\d+\.\d+\.\d+[0-9A-Za-z.+-]*)-linux-(?:x64|arm64)\.tar\.gz)$/.exec(
        line,
      ) ?? []
    if (name.endsWith(`-${platform}.tar.gz`)) {
      return { name, version, sha256 }
    }
  }
  throw new Error(`The release has no control plane for ${platform}.`)
}

const findFile = (folder: string, name: string): string | undefined => {
  const file = join(folder, name)
  return existsSync(file) ? file : undefined
}

async function need(get: Get, name: string, most: number): Promise<string> {
  const file = await get(name, most)
  if (file !== undefined) return file
  throw new Error(`${name} is missing. It belongs to the release, beside the archive.`)
}

function download(base: string, scratch: string): Get {
  return async (name, most) => {
    const url = `${base.replace(/\/$/, '')}/${name}`
    const answer = await fetch(url, { signal: AbortSignal.timeout(UPGRADE.downloadMs) }).catch(
      (error: Error) => {
        throw new Error(`${url} could not be downloaded (${String(error.cause ?? error.message)}).`)
      },
    )
    if (answer.status === 404) return undefined
    if (!answer.ok || !answer.body) throw new Error(`${url} answered ${answer.status}.`)
    const file = join(scratch, name)
    let bytes = 0
    await pipeline(
      Readable.fromWeb(answer.body),
      async function* (chunks: AsyncIterable<Buffer>) {
        for await (const chunk of chunks) {
          bytes += chunk.length
          if (bytes > most) throw new Error(`${url} is larger than a release.`)
          yield chunk
        }
      },
      createWriteStream(file, { mode: 0o600 }),
    )
    return file
  }
}

async function hashFile(file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}
