// Holds the private keys of the SSH authorities: created here, encrypted by the secret store, decrypted into a
// KeyObject that signs and is never exposed. Invariant: a key decrypts only in its own row (kind and fingerprint are
// part of its place) and only if it matches the row's public key. There is no export, no import and no other key type.
import { createPrivateKey, generateKeyPairSync, sign } from 'node:crypto'
import { SSH } from '@berth/shared'
import type { Signer } from '@berth/shared/ssh'
import { ed25519PublicKey, fingerprintOf, formatPublicKey } from '@berth/shared/ssh'
import type { Place, SecretStore } from './secret-store.ts'

export type AuthorityKind = 'user' | 'host'

interface SealedAuthority {
  kind: AuthorityKind
  /** `ssh-ed25519 AAAA…` */
  publicKey: string
  fingerprint: string
  keySealed: string
}

export const sshAuthorityPlace = (authority: { kind: string; fingerprint: string }): Place => ({
  table: 'ssh_authorities',
  column: 'key_sealed',
  organizationId: null,
  rowId: `${authority.kind} ${authority.fingerprint}`,
})

export class SshSigners {
  readonly #secretStore: SecretStore
  readonly #opened = new Map<string, Signer>()

  constructor(secretStore: SecretStore) {
    this.#secretStore = secretStore
  }

  /** Creates an authority, ready to be stored; its key is encrypted before it leaves this function. */
  create(kind: AuthorityKind): SealedAuthority {
    const { privateKey } = generateKeyPairSync('ed25519')
    const open = ed25519PublicKey(privateKey)
    const authority = { kind, publicKey: formatPublicKey(open), fingerprint: fingerprintOf(open) }
    const plain = privateKey.export({ format: 'der', type: 'pkcs8' })
    const keySealed = this.#secretStore.seal('ca', sshAuthorityPlace(authority), plain)
    plain.fill(0)
    return { ...authority, keySealed }
  }

  /** Returns the signer of a stored authority; decrypted once per process. */
  async open(authority: SealedAuthority): Promise<Signer> {
    const known = this.#opened.get(authority.keySealed)
    if (known) return known
    const plain = Buffer.from(
      await this.#secretStore.open('ca', sshAuthorityPlace(authority), authority.keySealed),
    )
    const key = createPrivateKey({ key: plain, format: 'der', type: 'pkcs8' })
    plain.fill(0)
    const publicKey = ed25519PublicKey(key)
    if (formatPublicKey(publicKey) !== authority.publicKey)
      throw new Error(
        `The stored SSH ${authority.kind} authority is damaged: its two halves do not belong ` +
          'together. Restore the database from a backup, or rotate the authority.',
      )
    const signer: Signer = { publicKey, sign: (bytes) => sign(null, bytes, key) }
    if (this.#opened.size >= SSH.authoritiesOpened)
      this.#opened.delete(this.#opened.keys().next().value as string)
    this.#opened.set(authority.keySealed, signer)
    return signer
  }
}
