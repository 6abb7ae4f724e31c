// Folders and key files as a container gets them: from root, through a group.
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { makePrivateFolder } from './private-files.ts'

const ACCOUNT = 54_900
const root = mkdtempSync(join(tmpdir(), 'berth-private-'))
chmodSync(root, 0o755)
afterAll(() => rmSync(root, { recursive: true }))

const modeOf = (path: string): number => statSync(path).mode & 0o7777

/** As an account without rights: what it imports is loaded before, because it may not read the checkout. */
function asAccount(source: string): { status: number | null; said: string } {
  const [files, store] = ['./private-files.ts', '../../keys/secret-store.ts'].map(
    (name) => new URL(name, import.meta.url).href,
  )
  const program = `
    const { makePrivateFolder } = await import(${JSON.stringify(files)})
    const { loadKek } = await import(${JSON.stringify(store)})
    process.setgroups([${ACCOUNT}]); process.setgid(${ACCOUNT}); process.setuid(${ACCOUNT})
    try { ${source} } catch (error) { console.log(error.message); process.exitCode = 1 }`
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--input-type=module', '--eval', program],
    { encoding: 'utf8' },
  )
  return { status, said: stdout + stderr }
}

test('a folder of ours becomes private', () => {
  const folder = join(root, 'own')
  mkdirSync(folder, { mode: 0o755 })
  makePrivateFolder(folder)
  expect(modeOf(folder)).toBe(0o700)
})

describe.skipIf(process.getuid?.() !== 0)('given by root through a group', () => {
  test('a folder stays as it is, and what is made in it is private', () => {
    const folder = join(root, 'volume')
    mkdirSync(folder)
    chownSync(folder, 0, ACCOUNT)
    chmodSync(folder, 0o2777)
    const given = JSON.stringify(folder)
    const made = asAccount(`makePrivateFolder(${given}); makePrivateFolder(${given} + '/tls')`)
    expect(made).toEqual({ status: 0, said: '' })
    expect(modeOf(folder)).toBe(0o2777)
    expect(modeOf(join(folder, 'tls')) & 0o777).toBe(0o700)
  })

  test.each([
    [0o440, 0, 'ours'],
    [0o640, 0, 'ours'],
    [0o460, 0, 'open to other users'],
    [0o444, 0, 'open to other users'],
    [0o440, 54_901, 'open to other users'],
  ])('a key file with mode %o of user %i is %s', (mode, owner, expected) => {
    const file = join(root, `kek-${mode}-${owner}`)
    writeFileSync(file, randomBytes(32))
    chownSync(file, owner, ACCOUNT)
    chmodSync(file, mode)
    const { said } = asAccount(`loadKek(${JSON.stringify(file)}); console.log('ours')`)
    expect(said).toContain(expected)
  })
})
