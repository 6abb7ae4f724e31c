// Encrypts backups in the age format (age-encryption.org/v1): chunks of 64 KiB with ChaCha20-Poly1305, numbered, the
// last one marked, so a changed or missing byte is noticed. The program `age` opens them without Berth. The library's
// own scrypt would stop the process for a second, so that step runs in Node's thread pool.
import { createCipheriv, createDecipheriv, randomBytes, scrypt } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import type { ReadableStream as WebStream } from 'node:stream/web'
import { Decrypter, Encrypter, type Identity, type Recipient, Stanza } from 'age-encryption'
import { BACKUPS } from '../limits/installation.ts'
import { BackupError, damaged } from './faults.ts'

/** Either a passphrase or public keys (`age1…`); neither: the backup is not encrypted. */
export interface Lock {
  passphrase?: string | undefined
  recipients?: string[] | undefined
}

/** What opens a backup: a passphrase or a secret key (`AGE-SECRET-KEY-1…`). */
export interface Unlock {
  passphrase?: string | undefined
  identity?: string | undefined
}

export const AGE_MAGIC = 'age-encryption.org/v1'
const LABEL = 'age-encryption.org/v1/scrypt'
const CIPHER = 'chacha20-poly1305'
const TAG_BYTES = 16
const NONCE = Buffer.alloc(12) // the key is used once

function readSecretFile(file: string): string {
  const content = readFileSync(file)
  if (content.length > BACKUPS.passphraseBytes) throw new BackupError(`${file} is too long.`)
  const text = content.toString('utf8').replace(/\r?\n$/, '')
  if (text === '') throw new BackupError(`${file} is empty.`)
  return text
}

export function readPassphrase(file: string): string {
  const text = readSecretFile(file)
  if (text.length < 12) {
    throw new BackupError(
      `The passphrase in ${file} is too short: everyone who has a backup can guess as often as they like. Take at least 12 characters, e.g. from \`head -c 24 /dev/urandom | base64\`.`,
    )
  }
  return text
}

/** A file of age-keygen has comments around the key. */
export function readIdentity(file: string): string {
  const key = /^AGE-SECRET-KEY-(?:PQ-)?1[A-Z0-9]+$/m.exec(readSecretFile(file))
  if (key) return key[0]
  throw new BackupError(`${file} holds no secret key of age (AGE-SECRET-KEY-1…).`)
}

const derive = (passphrase: string, salt: Uint8Array, logN: number): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    const options = { N: 2 ** logN, r: 8, p: 1, maxmem: BACKUPS.scryptBytes }
    scrypt(passphrase, Buffer.concat([Buffer.from(LABEL), salt]), 32, options, (error, key) =>
      error ? reject(error) : resolve(key),
    )
  })

const toBase64 = (bytes: Uint8Array): string =>
  Buffer.from(bytes).toString('base64').replaceAll('=', '')

const passphraseRecipient = (passphrase: string): Recipient => ({
  async wrapFileKey(fileKey) {
    const salt = randomBytes(16)
    const key = await derive(passphrase, salt, BACKUPS.scryptLogN)
    const cipher = createCipheriv(CIPHER, key, NONCE, { authTagLength: TAG_BYTES })
    const body = Buffer.concat([cipher.update(fileKey), cipher.final(), cipher.getAuthTag()])
    return [new Stanza(['scrypt', toBase64(salt), String(BACKUPS.scryptLogN)], body)]
  },
})

const passphraseIdentity = (passphrase: string): Identity => ({
  async unwrapFileKey(stanzas) {
    const [kind, salt = '', factor = ''] = stanzas[0]?.args ?? []
    if (kind !== 'scrypt' || stanzas.length !== 1) return null
    const logN = /^[1-9]\d?$/.test(factor) ? Number(factor) : Number.POSITIVE_INFINITY
    if (logN > BACKUPS.scryptMostLogN) throw damaged('its header asks for too much work')
    const key = await derive(passphrase, Buffer.from(salt, 'base64'), logN)
    const body = Buffer.from(stanzas[0]?.body ?? [])
    const decipher = createDecipheriv(CIPHER, key, NONCE, { authTagLength: TAG_BYTES })
    try {
      decipher.setAuthTag(body.subarray(-TAG_BYTES))
      return Buffer.concat([decipher.update(body.subarray(0, -TAG_BYTES)), decipher.final()])
    } catch {
      return null // another passphrase
    }
  },
})

export const isLocked = ({ passphrase, recipients }: Lock): boolean =>
  passphrase !== undefined || (recipients ?? []).length > 0

/** Returns the stream itself if there is no lock. */
export async function encrypt(plain: Readable, lock: Lock): Promise<Readable> {
  if (!isLocked(lock)) return plain
  const encrypter = new Encrypter()
  for (const recipient of lock.recipients ?? []) addRecipient(encrypter, recipient)
  if (lock.passphrase !== undefined) encrypter.addRecipient(passphraseRecipient(lock.passphrase))
  const sealed = await encrypter.encrypt(Readable.toWeb(plain) as ReadableStream<Uint8Array>)
  return Readable.fromWeb(sealed as unknown as WebStream<Uint8Array>)
}

function addRecipient(encrypter: Encrypter, recipient: string): void {
  try {
    encrypter.addRecipient(recipient)
  } catch {
    throw new BackupError(
      `${JSON.stringify(recipient)} is not a public key of age (age1…). \`age-keygen\` makes a pair.`,
    )
  }
}

/** Throws a BackupError if the passphrase or the key is another one. */
export async function decrypt(sealed: Readable, unlock: Unlock): Promise<Readable> {
  const decrypter = new Decrypter()
  if (unlock.passphrase !== undefined) decrypter.addIdentity(passphraseIdentity(unlock.passphrase))
  if (unlock.identity !== undefined) decrypter.addIdentity(unlock.identity)
  if (unlock.passphrase === undefined && unlock.identity === undefined) {
    sealed.destroy()
    throw new BackupError(
      'The backup is encrypted. Name its passphrase with --passphrase-file, or its secret key with --identity-file.',
    )
  }
  try {
    const plain = await decrypter.decrypt(Readable.toWeb(sealed) as ReadableStream<Uint8Array>)
    return Readable.fromWeb(plain as unknown as WebStream<Uint8Array>)
  } catch (error) {
    sealed.destroy()
    if (error instanceof BackupError) throw error
    if (!/no identity matched/i.test(String(error))) throw damaged('its header is changed', error)
    throw new BackupError(
      unlock.passphrase === undefined
        ? 'The backup was encrypted for another key. Name the file with its secret key in --identity-file.'
        : 'The passphrase is wrong: the backup was encrypted with another one. Name the file with the right one in --passphrase-file.',
      { cause: error },
    )
  }
}
