// Encrypts secrets at rest. The installation's key (KEK, a file outside the database) wraps one data key per
// organization, which encrypts that organization's values, each under its own key derived with a fresh salt, so nonces
// cannot run out. A value is bound to its label, its place (table, column, organization, row) and the form's version;
// moved elsewhere, it does not decrypt. A new KEK rewraps the data keys and touches no value. Values cannot be printed.
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto'
import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  linkSync,
  openSync,
  readSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { SECRET_STORE } from '../limits/keys.ts'

/** The key-encryption key; `id` identifies the key of a value and reveals nothing. */
export interface Kek {
  readonly id: string
  readonly key: KeyObject
}

/** One organization's key, decrypted; `organizationId: null` is the installation's own. */
export interface DataKey {
  readonly id: number
  readonly organizationId: number | null
  readonly key: KeyObject
}

export const LABELS = [
  'data-key',
  'variable',
  'basic-auth',
  'deploy-key',
  'host-token',
  'registry',
  'backup-storage',
  'webhook-secret',
  'channel',
  'ca',
  'mail',
  'cookie',
  'totp',
  'one-time',
] as const
export type Label = (typeof LABELS)[number]

/** Purposes of keys that only sign or compare; disjoint from the labels of encrypted values. */
type Purpose = 'sign audit' | 'sign cursor' | 'compare requests'

/** Where an encrypted value is stored. `organizationId: null` is the installation itself. */
export interface Place {
  table: string
  column: string
  organizationId: number | null
  rowId: number | string
}

/** The key file is missing or unusable, so the process must not start. The message says what to do. */
export class KekError extends Error {
  override readonly name = 'KekError'
}

/** A stored value that does not decrypt. Names the place, never the value. */
export class SecretStoreError extends Error {
  override readonly name = 'SecretStoreError'
}

function makeKek(bytes: Buffer): Kek {
  const id = createHmac('sha256', bytes).update('berth kek id').digest().subarray(0, 9)
  const kek = { id: id.toString('base64url'), key: createSecretKey(bytes) }
  bytes.fill(0)
  return kek
}

const MAKE_ONE = 'make one with `head -c 32 /dev/urandom | base64`, mode 0400'

function decodeKek(file: string, content: Buffer): Buffer {
  const { kekBytes, kekDistinctBytes } = SECRET_STORE
  const text = content.toString('latin1').trim()
  const encoded = /^[A-Za-z0-9+/_-]{43}=?$/.test(text)
  const key = encoded ? Buffer.from(text, 'base64') : content
  if (key.length < kekBytes)
    throw new KekError(
      `The key file ${file} is too short: ${kekBytes} random bytes are needed, raw or as base64. ` +
        `Restore it from its safe copy; if nothing was stored yet, ${MAKE_ONE}.`,
    )
  if (key.length > kekBytes)
    throw new KekError(
      `The key file ${file} holds something else: exactly ${kekBytes} bytes are needed, raw or ` +
        `as base64. Restore it from its safe copy; if nothing was stored yet, ${MAKE_ONE}.`,
    )
  const typed = key.every((byte) => byte >= 0x20 && byte < 0x7f)
  if (typed || new Set(key).size < kekDistinctBytes)
    throw new KekError(
      `The key in ${file} is not random (zeros, a pattern or a phrase), so anybody can guess it. ` +
        `If nothing was stored yet, ${MAKE_ONE}.`,
    )
  return Buffer.from(key)
}

function openKekFile(file: string): number {
  try {
    return openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code
    if (code === 'ENOENT')
      throw new KekError(
        `The key file ${file} does not exist. Restore it from its safe copy: without it no ` +
          `stored secret can be read. For a new installation, ${MAKE_ONE}.`,
        { cause },
      )
    throw new KekError(
      `The key file ${file} cannot be read (${code}). Make it readable by the user that runs the ` +
        'control plane, and by nobody else: chown and chmod 0400.',
      { cause },
    )
  }
}

/** Reads and validates the key file; throws a KekError for any problem, and the process must stop. */
export function loadKek(file: string): Kek {
  const fd = openKekFile(file)
  try {
    const stat = fstatSync(fd)
    if (!stat.isFile())
      throw new KekError(`${file} is not a regular file; name the key file itself.`)
    const me = process.geteuid?.()
    // as PostgreSQL does: root gives the file to this account by its group, as secrets of Kubernetes arrive
    const isGiven = stat.uid === 0 && me !== 0 && (stat.mode & 0o037) === 0
    if ((stat.mode & 0o077) !== 0 && !isGiven)
      throw new KekError(
        `The key file ${file} is open to other users (mode ${(stat.mode & 0o777).toString(8)}). ` +
          `Run \`chmod 0400 ${file}\`, and think of the key as known if others use this machine.`,
      )
    if (stat.uid !== 0 && stat.uid !== me)
      throw new KekError(
        `The key file ${file} belongs to another user (uid ${stat.uid}), who can read and change ` +
          'it. Give it to the user that runs the control plane: chown.',
      )
    const content = Buffer.alloc(SECRET_STORE.kekFileBytes)
    const length = readSync(fd, content, 0, content.length, 0)
    try {
      return makeKek(decodeKek(file, content.subarray(0, length)))
    } finally {
      content.fill(0)
    }
  } finally {
    closeSync(fd)
  }
}

/**
 * Creates a key file, 0400. It appears under its name only when complete and on disk, and never replaces another:
 * losing a KEK loses every secret.
 */
export function createKek(file: string): Kek {
  const bytes = randomBytes(SECRET_STORE.kekBytes)
  const draft = `${file}.${randomBytes(6).toString('hex')}.new`
  const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants
  const fd = openSync(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o400)
  try {
    writeSync(fd, `${bytes.toString('base64')}\n`)
    fsyncSync(fd)
    linkSync(draft, file) // unlike rename, refuses an existing file
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause
    throw new KekError(`The key file ${file} exists already; it is never replaced.`, { cause })
  } finally {
    closeSync(fd)
    unlinkSync(draft)
  }
  const directory = openSync(dirname(file), constants.O_RDONLY)
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
  return makeKek(bytes)
}

function encodeField(value: number | string | null): Buffer {
  if (typeof value === 'number' && !Number.isSafeInteger(value))
    throw new SecretStoreError('A place is named by whole numbers.')
  // lone surrogates all become U+FFFD in UTF-8, so two names would be equal
  if (typeof value === 'string' && !value.isWellFormed())
    throw new SecretStoreError('A place is named by well-formed text.')
  const kind = value === null ? 0 : typeof value === 'number' ? 1 : 2
  const text = Buffer.from(value === null ? '' : String(value), 'utf8')
  const head = Buffer.alloc(5)
  head.writeUInt8(kind, 0)
  head.writeUInt32BE(text.length, 1)
  return Buffer.concat([head, text])
}

/** Encodes the associated data as typed, length-prefixed fields, so that no two places are equal. */
export const encodePlace = (
  { table, column, organizationId, rowId }: Place,
  version: Version = DIRECT,
): Buffer => Buffer.concat([table, column, organizationId, rowId, version].map(encodeField))

/** Encrypted with the KEK itself: data keys, and values from before there were any. */
const DIRECT = 'v1'
/** Encrypted with a data key. */
const BY_DATA_KEY = 'v2'
type Version = typeof DIRECT | typeof BY_DATA_KEY
const CIPHER = 'aes-256-gcm'
const SALT_BYTES = 16
const NONCE_BYTES = 12
const TAG_BYTES = 16

function deriveKey(from: KeyObject, version: Version, salt: Buffer, label: Label): KeyObject {
  if (!LABELS.includes(label))
    throw new SecretStoreError(`There is no label ${JSON.stringify(label)}.`)
  const bytes = Buffer.from(hkdfSync('sha256', from, salt, `berth ${version} ${label}`, 32))
  const key = createSecretKey(bytes)
  bytes.fill(0)
  return key
}

/** Accepts only the canonical text: base64 has unused bits, and a changed bit must be detected. */
function decodeExactly(text: string | undefined, bytes?: number): Buffer | undefined {
  const decoded = Buffer.from(text ?? '', 'base64url')
  const isExact = text !== undefined && decoded.toString('base64url') === text
  return isExact && (bytes === undefined || decoded.length === bytes) ? decoded : undefined
}

/** The key, and how its values refer to it. */
interface Source {
  version: Version
  id: string
  key: KeyObject
}

export class SecretStore {
  readonly #current: Kek
  readonly #keks: ReadonlyMap<string, Kek>
  readonly #dataKeys = new Map<string, DataKey>()
  readonly #inUse = new Map<number | null, DataKey>()
  #findMissing: ((id: number) => Promise<void>) | undefined

  /** `former` KEKs still decrypt what they encrypted, and encrypt nothing new. */
  constructor(current: Kek, former: readonly Kek[] = []) {
    this.#current = current
    this.#keks = new Map([...former, current].map((kek) => [kek.id, kek]))
  }

  /**
   * Derives keys that sign or compare, the current KEK's first. Signatures of a former KEK stay verifiable as long as
   * it is known.
   */
  deriveKeys(purpose: Purpose): KeyObject[] {
    const keks = [this.#current, ...[...this.#keks.values()].filter((k) => k !== this.#current)]
    return keks.map((kek) =>
      createSecretKey(
        Buffer.from(hkdfSync('sha256', kek.key, '', `berth ${DIRECT} ${purpose}`, 32)),
      ),
    )
  }

  /**
   * Adds a data key whose row is committed. It decrypts from now on, and encrypts unless it is retired or a newer one
   * does. Concurrent rotations may add their keys in any order; ids follow the order of the rows.
   */
  addDataKey(key: DataKey, { retired = false } = {}): void {
    this.#dataKeys.set(String(key.id), key)
    const present = this.#inUse.get(key.organizationId)
    if (!retired && (!present || present.id < key.id)) this.#inUse.set(key.organizationId, key)
  }

  /** Called for a value whose data key another control plane made: adds the key if it exists. */
  findMissingWith(find: (id: number) => Promise<void>): void {
    this.#findMissing = find
  }

  knowsDataKey(id: number): boolean {
    return this.#dataKeys.has(String(id))
  }

  /** The key that encrypts now. */
  findDataKey(organizationId: number | null): DataKey | undefined {
    return this.#inUse.get(organizationId)
  }

  /** Keys that only decrypt. */
  listRetired(): DataKey[] {
    return [...this.#dataKeys.values()].filter(
      (key) => this.#inUse.get(key.organizationId)?.id !== key.id,
    )
  }

  /** Values that it encrypted no longer decrypt. */
  forget(id: number): void {
    this.#dataKeys.delete(String(id))
  }

  /** `v2|data key|salt|nonce|ciphertext|tag`, base64url; `v1|kek|…` if there is no data key. */
  seal(label: Label, place: Place, plain: Uint8Array): string {
    const dataKey = this.#inUse.get(place.organizationId)
    const source: Source = dataKey
      ? { version: BY_DATA_KEY, id: String(dataKey.id), key: dataKey.key }
      : this.#direct()
    return sealWith(source, label, place, plain)
  }

  /** Wraps a data key for its row, always with the KEK itself. */
  wrap(place: Place, dataKey: Uint8Array): string {
    return sealWith(this.#direct(), 'data-key', place, dataKey)
  }

  /** The id of the KEK that wrapped it. */
  static kekOf(wrapped: string): string {
    return wrapped.split('|', 2)[1] ?? ''
  }

  /** Returns whether it was wrapped with the current KEK. */
  isWrappedNow(wrapped: string): boolean {
    return wrapped.startsWith(`${DIRECT}|`) && SecretStore.kekOf(wrapped) === this.#current.id
  }

  #direct(): Source {
    return { version: DIRECT, id: this.#current.id, key: this.#current.key }
  }

  /** Returns the value, or throws a SecretStoreError: changed, moved, another label, or an unknown key. */
  async open(label: Label, place: Place, sealed: string): Promise<Uint8Array> {
    const where = `The secret in ${place.table}.${place.column}, row ${place.rowId},`
    const [version, keyId = '', ...texts] = sealed.split('|', 8)
    const salt = decodeExactly(texts[0], SALT_BYTES)
    const nonce = decodeExactly(texts[1], NONCE_BYTES)
    const ciphertext = decodeExactly(texts[2])
    const tag = decodeExactly(texts[3], TAG_BYTES)
    const known = version === DIRECT || version === BY_DATA_KEY
    if (!known || texts.length !== 4 || !salt || !nonce || !ciphertext || !tag)
      throw new SecretStoreError(`${where} is not in a form this version can read.`)
    const key = await this.#keyFor(version, keyId, place.organizationId)
    if (!key)
      throw new SecretStoreError(
        `${where} was sealed with another key than the key file holds (or was changed). Start ` +
          'with the key file that belongs to this database.',
      )
    const decipher = createDecipheriv(CIPHER, deriveKey(key, version, salt, label), nonce, {
      authTagLength: TAG_BYTES,
    })
    decipher.setAAD(encodePlace(place, version))
    decipher.setAuthTag(tag)
    const plain = decipher.update(ciphertext)
    try {
      return Buffer.concat([plain, decipher.final()])
    } catch {
      throw new SecretStoreError(
        `${where} was changed or moved from another place; it is not used.`,
      )
    }
  }

  /** A data key decrypts only values of its own organization. */
  async #keyFor(
    version: Version,
    id: string,
    organizationId: number | null,
  ): Promise<KeyObject | undefined> {
    if (version === DIRECT) return this.#keks.get(id)?.key
    if (!this.#dataKeys.has(id) && /^[1-9]\d{0,8}$/.test(id)) await this.#findMissing?.(Number(id))
    const dataKey = this.#dataKeys.get(id)
    return dataKey?.organizationId === organizationId ? dataKey.key : undefined
  }
}

function sealWith(source: Source, label: Label, place: Place, plain: Uint8Array): string {
  if (plain.length > SECRET_STORE.plainBytes)
    throw new SecretStoreError(`A secret has at most ${SECRET_STORE.plainBytes} bytes.`)
  const salt = randomBytes(SALT_BYTES)
  const nonce = randomBytes(NONCE_BYTES)
  const key = deriveKey(source.key, source.version, salt, label)
  const cipher = createCipheriv(CIPHER, key, nonce)
  cipher.setAAD(encodePlace(place, source.version))
  const ciphertext = Buffer.concat([cipher.update(plain), cipher.final()])
  const parts = [salt, nonce, ciphertext, cipher.getAuthTag()]
  return [source.version, source.id, ...parts.map((part) => part.toString('base64url'))].join('|')
}
