// The signature of a release: Ed25519 over SHA256SUMS, raw 64 bytes, so that openssl checks it too. The private key stays
// on a machine without a network; only `sign` needs it.
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  verify,
} from 'node:crypto'
import { createReadStream, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { AGENT_MANIFEST } from '../../shared/src/release/release.ts'

export const SUMS = 'SHA256SUMS'
export const SIGNATURE = 'SHA256SUMS.sig'

const exported = (key: KeyObject): string => key.export({ type: 'spki', format: 'pem' }).toString()

/** For people who compare keys by phone. */
export const fingerprint = (pem: string): string =>
  createHash('sha256')
    .update(createPublicKey(pem).export({ type: 'spki', format: 'der' }))
    .digest('hex')

/** Writes FILE and FILE.pub; keeps a key that is there. Returns the public key. */
export function makeKey(file: string): string {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' })
  writeFileSync(file, pem, { mode: 0o400, flag: 'wx' })
  writeFileSync(`${file}.pub`, exported(publicKey))
  return exported(publicKey)
}

/** The public half of a private key. */
export const publicKeyOf = (keyFile: string): string =>
  exported(createPublicKey(createPrivateKey(readFileSync(keyFile))))

export async function hashFile(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}

export async function writeSums(folder: string): Promise<void> {
  const names = readdirSync(folder).filter(
    (name) => !name.startsWith('.') && !/^SHA256|\.sig$/.test(name),
  )
  const lines: string[] = []
  for (const name of names.toSorted()) {
    lines.push(`${await hashFile(join(folder, name))}  ${name}\n`)
  }
  writeFileSync(join(folder, SUMS), lines.join(''))
}

/** Writes FILE.sig. Returns the public key. */
export function signFile(file: string, keyFile: string): string {
  const key = createPrivateKey(readFileSync(keyFile))
  if (key.asymmetricKeyType !== 'ed25519') throw new Error(`${keyFile} holds no Ed25519 key.`)
  writeFileSync(`${file}.sig`, sign(null, readFileSync(file), key))
  return exported(createPublicKey(key))
}

/** Returns the public key. */
export function signRelease(folder: string, keyFile: string): string {
  signFile(join(folder, AGENT_MANIFEST), keyFile)
  return signFile(join(folder, SUMS), keyFile)
}

const isSignedFile = (file: string, publicKey: string): boolean =>
  existsSync(`${file}.sig`) &&
  verify(null, readFileSync(file), publicKey, readFileSync(`${file}.sig`))

/** What is wrong with a release, in sentences; none: the key's owner released exactly these files. */
export async function checkRelease(folder: string, publicKey: string): Promise<string[]> {
  if (!existsSync(join(folder, SIGNATURE))) return ['The release is not signed.']
  const sums = readFileSync(join(folder, SUMS))
  if (!verify(null, sums, publicKey, readFileSync(join(folder, SIGNATURE)))) {
    return [`${SIGNATURE} was not made with this key, or ${SUMS} was changed.`]
  }
  const manifest = join(folder, AGENT_MANIFEST)
  const problems = isSignedFile(manifest, publicKey)
    ? []
    : [`${AGENT_MANIFEST}.sig was not made with this key, or is missing.`]
  for (const line of sums.toString('utf8').split('\n').filter(Boolean)) {
    const [wanted = '', name = ''] = line.split('  ')
    if (!/^[\w.-]+$/.test(name)) problems.push(`${SUMS} contains a name that is none.`)
    else if (!existsSync(join(folder, name))) problems.push(`${name} is missing.`)
    else if ((await hashFile(join(folder, name))) !== wanted) problems.push(`${name} was changed.`)
  }
  return problems
}
