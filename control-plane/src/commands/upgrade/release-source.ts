// Finds the control plane of a release in a folder, beside a file or at an address, and checks it: the signature of
// SHA256SUMS with the trusted key, then the file against SHA256SUMS. Nothing of it runs before.
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream, existsSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AGENT_MANIFEST_SIGNATURE, isSignedBy } from '@berth/shared/release'
import { UPGRADE } from '../../limits/installation.ts'

export interface CheckedRelease {
  version: string
  /** The archive or the package. */
  file: string
  bytes: number
  /** Signature of the agents' manifest; undefined: the release has none beside it. */
  agentSignature: Buffer | undefined
}

type Get = (name: string, most: number) => Promise<string | undefined>

const SUMS_BYTES = 65_536

/** An installation takes what it was made from: archives, or Debian packages. */
export type Kind = 'archive' | 'package'

const VERSION_NAME = '(\\d+\\.\\d+\\.\\d+[0-9A-Za-z.+-]*)'
const KINDS = {
  archive: {
    ending: '.tar.gz',
    wrong: 'This installation is not a Debian package. Take the archive (.tar.gz) of the release.',
    name: (arch: string) => `berth-server-${VERSION_NAME}-linux-${arch}\\.tar\\.gz`,
  },
  package: {
    ending: '.deb',
    wrong: 'This installation is a Debian package. Take the package (.deb) of the release.',
    name: (arch: string) => `berth-server_${VERSION_NAME}_${arch === 'x64' ? 'amd64' : arch}\\.deb`,
  },
} as const

/** `scratch`: where downloads go. Throws a sentence; then nothing was changed. */
export async function findRelease(
  from: string,
  key: string,
  kind: Kind,
  scratch: string,
): Promise<CheckedRelease> {
  const isUrl = /^https?:\/\//.test(from)
  const isFile = !isUrl && existsSync(from) && statSync(from).isFile()
  if (isFile && !from.endsWith(KINDS[kind].ending)) throw new Error(KINDS[kind].wrong)
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
  const found = findListed(listed.toString('utf8'), kind)
  if (isFile && basename(from) !== found.name) {
    throw new Error(`${basename(from)} is not for this machine; take ${found.name}.`)
  }
  const file = await need(get, found.name, UPGRADE.archiveBytes)
  if ((await hashFile(file)) !== found.sha256) {
    throw new Error(`${found.name} is damaged or was changed; nothing was changed here.`)
  }
  const agents = await get(AGENT_MANIFEST_SIGNATURE, SUMS_BYTES)
  return {
    version: found.version,
    file,
    bytes: statSync(file).size,
    agentSignature: agents === undefined ? undefined : readFileSync(agents),
  }
}

function findListed(sums: string, kind: Kind): { name: string; version: string; sha256: string } {
  const line = new RegExp(`^([0-9a-f]{64}) {2}(${KINDS[kind].name(process.arch)})$`, 'm')
  const [, sha256 = '', name = '', version = ''] = line.exec(sums) ?? []
  if (name !== '') return { name, version, sha256 }
  throw new Error(
    `The release has no ${kind === 'package' ? 'Debian package of the ' : ''}control plane for linux-${process.arch}.`,
  )
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
