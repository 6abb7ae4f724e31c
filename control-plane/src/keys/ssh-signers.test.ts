// Authorities at rest: a stored key decrypts only in its own row, and its text does not reveal what it is.
import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { parsePublicKey, signCertificate, verifyCertificate } from '@berth/shared/ssh'
import { afterAll, describe, expect, test } from 'vitest'
import { createKek, LABELS, SecretStore } from './secret-store.ts'
import { SshSigners } from './ssh-signers.ts'

const dir = mkdtempSync(join(tmpdir(), 'berth-signers-'))
afterAll(() => rmSync(dir, { recursive: true, force: true }))
let keks = 0
const makeSecretStore = (): SecretStore => {
  keks += 1
  return new SecretStore(createKek(join(dir, `kek-${keks}`)))
}
const secretStore = makeSecretStore()
const user = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea'
const content = {
  kind: 'user' as const,
  serial: 7n,
  keyId: 'k',
  principals: ['p'],
  validAfter: 1_000,
  validBefore: 2_000,
  criticalOptions: new Map(),
  extensions: new Map(),
}

describe('SshSigners', () => {
  test('another process with the same key file signs with what was stored', async () => {
    const stored = new SshSigners(secretStore).create('user')
    const signer = await new SshSigners(secretStore).open(stored)
    const text = await signCertificate(parsePublicKey(user), content, signer)
    const blob = Buffer.from(text.split(' ')[1] ?? '', 'base64')
    const at = { kind: 'user', nowSeconds: 1_500 } as const
    const authority = parsePublicKey(stored.publicKey)
    expect(verifyCertificate(blob, [authority], at).serial).toBe(7n)
    expect(stored.publicKey).toMatch(/^ssh-ed25519 [A-Za-z0-9+/]+=*$/)
  })

  test('two authorities never share a key', () => {
    const signers = new SshSigners(secretStore)
    const made = [signers.create('user'), signers.create('host'), signers.create('user')]
    expect(new Set(made.map((a) => a.fingerprint)).size).toBe(3)
    for (const a of made) {
      const blob = Buffer.from(a.publicKey.split(' ')[1] ?? '', 'base64')
      const digest = createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')
      expect(a.fingerprint).toBe(`SHA256:${digest}`)
    }
  })

  test('moved to another row, another kind, or sealed by another key file: it does not open', async () => {
    const signers = new SshSigners(secretStore)
    const first = signers.create('user')
    const second = signers.create('user')
    const moved = [
      { ...second, keySealed: first.keySealed },
      { ...first, kind: 'host' as const },
      { ...first, fingerprint: second.fingerprint },
    ]
    for (const row of moved)
      await expect(new SshSigners(secretStore).open(row)).rejects.toThrow(/changed or moved/)
    await expect(new SshSigners(makeSecretStore()).open(first)).rejects.toThrow('another key')
    const swapped = { ...first, publicKey: second.publicKey }
    await expect(new SshSigners(secretStore).open(swapped)).rejects.toThrow('damaged')
    expect((await new SshSigners(secretStore).open(first)).publicKey.type).toBe('ssh-ed25519') // the control
  })

  test('what is stored under another label does not open as an authority', async () => {
    const stored = new SshSigners(secretStore).create('user')
    const place = {
      table: 'ssh_authorities',
      column: 'key_sealed',
      organizationId: null,
      rowId: `user ${stored.fingerprint}`,
    }
    for (const label of LABELS.filter((l) => l !== 'ca')) {
      const keySealed = secretStore.seal(label, place, randomBytes(48))
      await expect(new SshSigners(secretStore).open({ ...stored, keySealed })).rejects.toThrow(
        'changed or moved',
      )
    }
  })

  test('neither inspection nor JSON shows a key', async () => {
    const signers = new SshSigners(secretStore)
    const signer = await signers.open(signers.create('user'))
    const shown = inspect(signers, { depth: 9, showHidden: true }) + inspect(signer, { depth: 9 })
    expect(`${shown}${JSON.stringify(signer)}`).not.toMatch(/PRIVATE|pkcs8|"d"/)
  })
})
