// What an agent takes and refuses: the key it was installed with decides, then counter, control plane and platform.
import { generateKeyPairSync, sign } from 'node:crypto'
import { expect, test } from 'vitest'
import { answerOffer } from './offer.ts'

const { privateKey, publicKey } = generateKeyPairSync('ed25519')
const key = publicKey.export({ type: 'spki', format: 'pem' }).toString()
const stranger = generateKeyPairSync('ed25519').privateKey

const good = {
  version: '1.16.0',
  counter: 20,
  minimum_control_plane: '1.15.0',
  platforms: {
    'linux-x64': { file: 'berth-agent-linux-x64.tar.gz', sha256: 'a'.repeat(64), bytes: 10 },
  },
}

function offer(changed: object = {}, signer = privateKey, facts: object = {}) {
  const manifest = Buffer.from(JSON.stringify({ ...good, ...changed }))
  return answerOffer({
    manifest,
    signatures: [sign(null, manifest, signer)],
    key,
    own: { version: '1.15.0', counter: 10 },
    controlPlane: '1.16.0',
    platform: 'linux-x64',
    ...facts,
  })
}
const why = (answer: ReturnType<typeof answerOffer>): string =>
  answer.kind === 'refused' ? answer.message : 'taken'

test('a newer release with the right signature is taken', () => {
  expect(offer()).toMatchObject({ kind: 'take', file: { bytes: 10 } })
})

test('a wrong signature is refused, whatever the manifest says', () => {
  expect(why(offer({}, stranger))).toContain('not signed with the key')
  expect(why(offer({}, privateKey, { signatures: [] }))).toContain('not signed with the key')
  const other = Buffer.from(JSON.stringify({ ...good, counter: 99 }))
  const moved = { signatures: [sign(null, other, privateKey)] }
  expect(why(offer({}, privateKey, moved))).toContain('not signed with the key')
})

test('a second signature is enough, so that a key can be replaced', () => {
  const manifest = Buffer.from(JSON.stringify(good))
  const signatures = [sign(null, manifest, stranger), sign(null, manifest, privateKey)]
  expect(offer({}, privateKey, { signatures }).kind).toBe('take')
})

test('an older release, and the same one, are refused', () => {
  expect(why(offer({ counter: 9 }))).toContain('was released before 1.15.0')
  expect(why(offer({ counter: 10 }))).toContain('was released before 1.15.0')
})

test('a release for a newer control plane or another machine is refused', () => {
  expect(why(offer({ minimum_control_plane: '1.17.0' }))).toContain(
    'needs a control plane of 1.17.0',
  )
  expect(why(offer({}, privateKey, { platform: 'linux-riscv64' }))).toContain('no package for')
  expect(why(offer({ platforms: null }))).toContain('not one of an agent release')
})
