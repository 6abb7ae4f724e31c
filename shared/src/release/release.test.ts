import { generateKeyPairSync, sign } from 'node:crypto'
import { expect, test } from 'vitest'
import { compareVersions, isSignedBy, readAgentManifest } from './release.ts'

test('versions are compared by their numbers', () => {
  expect(compareVersions('1.15.0', '1.9.9')).toBeGreaterThan(0)
  expect(compareVersions('1.15.0', '1.15.0')).toBe(0)
  expect(compareVersions('0.9.0', '1.0.0')).toBeLessThan(0)
  expect(compareVersions('1.16.0-rc.1', '1.16.0')).toBeLessThan(0)
  expect(compareVersions('1.16.0-rc.2', '1.16.0-rc.1')).toBeGreaterThan(0)
})

test('only the right key signs, and only the same bytes', () => {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const pem = publicKey.export({ type: 'spki', format: 'pem' }).toString()
  const other = generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'pem' })
  const bytes = Buffer.from('manifest')
  const signature = sign(null, bytes, privateKey)
  expect(isSignedBy(pem, bytes, signature)).toBe(true)
  expect(isSignedBy(pem, Buffer.from('manifesT'), signature)).toBe(false)
  expect(isSignedBy(String(other), bytes, signature)).toBe(false)
  expect(isSignedBy('no key', bytes, signature)).toBe(false)
  expect(isSignedBy(pem, bytes, Buffer.alloc(3))).toBe(false)
})

const good = {
  version: '1.16.0',
  counter: 7,
  minimum_control_plane: '1.15.0',
  platforms: {
    'linux-x64': {
      file: 'berth-agent-linux-x64.tar.gz',
      sha256: 'a'.repeat(64),
      bytes: 10,
    },
  },
}
const read = (changed: object) => () =>
  readAgentManifest(Buffer.from(JSON.stringify({ ...good, ...changed })))

test('a manifest is read completely or not at all', () => {
  expect(read({})()).toEqual(good)
  const x64 = good.platforms['linux-x64']
  for (const broken of [
    { version: '../1' },
    { counter: 0 },
    { counter: '7' },
    { minimum_control_plane: undefined },
    { platforms: undefined },
    { platforms: { 'linux-x64': { ...x64, file: '../berth-agent-x.tar.gz' } } },
    { platforms: { 'linux-x64': { ...x64, sha256: 'A' } } },
    { platforms: { 'linux-x64': { ...x64, bytes: 2 ** 40 } } },
  ]) {
    expect(read(broken)).toThrow('The manifest is not one of an agent release.')
  }
  expect(() => readAgentManifest(Buffer.from('{'))).toThrow()
})
