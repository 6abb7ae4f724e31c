import { execFileSync, spawnSync } from 'node:child_process'
import { createPrivateKey, createPublicKey, sign, verify } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sshpk from 'sshpk'
import { afterAll, describe, expect, test } from 'vitest'
import { createDeployKey } from './deploy-key.ts'

const folder = mkdtempSync(join(tmpdir(), 'berth-deploy-key-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
function write(name: string, text: string): string {
  const file = join(folder, name)
  writeFileSync(file, text, { mode: 0o600 })
  return file
}
// part of every OpenSSH; if it is missing, CI fails and other runs skip these checks
const isMissing = spawnSync('ssh-keygen', ['-?']).error !== undefined && process.env.CI !== 'true'
const keygen = (...args: string[]) => execFileSync('ssh-keygen', args, { encoding: 'utf8' }).trim()

describe("a project's deploy key", () => {
  test.skipIf(isMissing)(
    'is read by OpenSSH, which finds the same public line and fingerprint',
    () => {
      const key = createDeployKey('shop')
      expect(key.publicLine).toMatch(/^ssh-ed25519 [A-Za-z0-9+/]{68} shop@berth$/)
      expect(keygen('-y', '-f', write('private', key.privateKey))).toBe(key.publicLine)
      const shown = keygen('-l', '-E', 'sha256', '-f', write('public', `${key.publicLine}\n`))
      expect(shown).toBe(`256 ${key.fingerprint} shop@berth (ED25519)`)
    },
  )

  test('signs with its private half what its public half verifies', () => {
    const key = createDeployKey('shop')
    const pem = sshpk.parsePrivateKey(key.privateKey, 'ssh-private').toString('pkcs8')
    const point = sshpk.parseKey(key.publicLine, 'ssh').toString('pkcs8')
    const text = Buffer.from('fetch')
    const signature = sign(null, text, createPrivateKey(pem))
    expect(verify(null, text, createPublicKey(point), signature)).toBe(true)
  })

  test('is another one each time', () => {
    expect(createDeployKey('shop').publicLine).not.toBe(createDeployKey('shop').publicLine)
  })

  test.skipIf(isMissing).each([
    ['a b\nssh-rsa AAAA', 'a-b-ssh-rsa-AAAA@berth'],
    ['', 'project@berth'],
    ['Käse & Co', 'K-se-Co@berth'],
    ['x'.repeat(500), `${'x'.repeat(64)}@berth`],
  ])('of project %j has a harmless comment', (project, comment) => {
    const key = createDeployKey(project)
    expect(key.publicLine.split(' ')).toHaveLength(3)
    expect(key.publicLine.endsWith(` ${comment}`)).toBe(true)
    expect(keygen('-y', '-f', write('named', key.privateKey))).toBe(key.publicLine)
  })
})
