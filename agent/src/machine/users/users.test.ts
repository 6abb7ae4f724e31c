// Real accounts, as root; each run uses its own names and removes what it made.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { dropRights } from '../process/confinement.ts'
import { runProgram } from '../process/programs.ts'
import { AccountError, ensureAccount, findClosedFolder, isRoot } from './users.ts'

describe.skipIf(!isRoot())('accounts', () => {
  const name = `bt${randomBytes(2).toString('hex')}-e1`
  let dir: string
  beforeAll(() => {
    dir = mkdtempSync(join(tmpdir(), 'berth-users-'))
    chmodSync(dir, 0o755)
  })
  afterAll(() => {
    execFileSync('userdel', [name])
    rmSync(dir, { recursive: true })
  })

  it('are made once: no password, no shell, no groups, no subordinate ids', async () => {
    const first = await ensureAccount(name, dir, 'Berth environment 1')
    const again = await ensureAccount(name, dir, 'Berth environment 1')
    expect([first.isNew, again.isNew]).toEqual([true, false])
    expect(again.account).toEqual(first.account)
    const line = readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .find((l) => l.startsWith(`${name}:`))
    expect(line).toMatch(new RegExp(`:Berth environment 1:${dir}:\\S*(nologin|false)$`))
    expect(readFileSync('/etc/shadow', 'utf8')).toMatch(new RegExp(`^${name}:!`, 'm'))
    expect(execFileSync('id', ['-Gn', name], { encoding: 'utf8' }).trim()).toBe(name)
    expect(readFileSync('/etc/subuid', 'utf8')).not.toContain(name)
  })

  it('are made by many at once', async () => {
    const made = await Promise.all([1, 2, 3, 4].map(() => ensureAccount(name, dir, 'x')))
    expect(new Set(made.map(({ account }) => account.uid)).size).toBe(1)
  })

  it('of somebody else are not used', async () => {
    await expect(ensureAccount('root', dir, 'x')).rejects.toThrow(AccountError)
    await expect(ensureAccount('nobody', dir, 'x')).rejects.toThrow(/is not of Berth: its home is/)
    await expect(ensureAccount('-x', dir, 'x')).rejects.toThrow(AccountError)
  })

  it('have no right but their own', async () => {
    const { account } = await ensureAccount(name, dir, 'x')
    const status = await runProgram([...dropRights(account), '/bin/cat', '/proc/self/status'])
    const text = status.stdout.toString()
    expect(text).toMatch(
      new RegExp(`^Uid:\\t${account.uid}\\t${account.uid}\\t${account.uid}\\t`, 'm'),
    )
    expect(text).toMatch(/^Groups:\s*$/m)
    expect(text).toMatch(/^NoNewPrivs:\t1$/m)
    for (const set of ['Inh', 'Prm', 'Eff', 'Bnd', 'Amb']) {
      expect(text).toMatch(new RegExp(`^Cap${set}:\\t0+$`, 'm'))
    }
  })

  it('find the first folder that is closed to them', async () => {
    const { account } = await ensureAccount(name, dir, 'x')
    const inner = join(dir, 'a', 'b')
    mkdirSync(inner, { recursive: true })
    expect(await findClosedFolder(account, inner)).toBeUndefined()
    chmodSync(join(dir, 'a'), 0o700)
    expect(await findClosedFolder(account, inner)).toBe(join(dir, 'a'))
  })
})
