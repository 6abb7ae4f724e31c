// What a command finds in world-writable paths, and what it leaves there: it sees nothing of others and leaves nothing
// for them, however it was started. The same script without the confinement sees everything.
import { execFileSync, spawnSync } from 'node:child_process'
import { randomBytes, randomInt } from 'node:crypto'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { AttemptState } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { environmentPaths } from '../../agent/src/machine/files.ts'
import { type Account, dropRights } from '../../agent/src/machine/process/confinement.ts'
import { ownNamespaces } from '../../agent/src/machine/process/namespaces.ts'
import { searchSharedPaths, sharedPaths } from '../../agent/src/machine/users/shared-paths.ts'
import { findAccount } from '../../agent/src/machine/users/users.ts'
import { missing } from '../fixtures/platform/components.ts'
import {
  type Deployment,
  eventually,
  type Repository,
  readTree,
} from '../fixtures/server/deployment.ts'
import { isRoot } from '../fixtures/server/server.ts'
import { SshFixture } from '../fixtures/sshd/server.ts'

const word = `berth-${randomBytes(6).toString('hex')}`
/** Sizes that identify shared memory segments. */
const OUTSIDE = 1_000_000 + randomInt(1_000_000)
const INSIDE = 3_000_000 + randomInt(1_000_000)
const canHide = isRoot && ownNamespaces('/usr/bin/unshare').includes('--ipc')

/** Prints what it sees of the word in each path, then leaves a file of its own there. */
const script = (paths: string[]): string => `who=$1
for at in ${paths.join(' ')}; do
  for found in "$at/${word}"*; do
    [ ! -e "$found" ] || echo "$who sees $found"
  done
done
if grep -q ' ${OUTSIDE} ' /proc/sysvipc/shm; then echo "$who sees memory"; fi
for at in ${paths.join(' ')}; do
  echo left >"$at/${word}-$who" || true
  [ ! -d "$at/${word}-open" ] || echo deep >"$at/${word}-open/$who" || true
done
ipcmk -M ${INSIDE} >/dev/null
echo "$who is done"
`

const memory = (): string => readFileSync('/proc/sysvipc/shm', 'utf8')
const argvOf = (...argv: string[]): string =>
  Buffer.from(JSON.stringify(argv)).toString('base64url')

describe.skipIf(missing('sshd') || !isRoot || !canHide)(
  'places that everybody may write to',
  () => {
    let fixture: SshFixture
    let repository: Repository
    let paths: string[]
    /** World-writable and in no list; it must be found by a search. */
    const opened = `/var/lib/${word}`
    let segment = ''

    beforeAll(async () => {
      // not below /tmp, as in production: commands do not see files there
      fixture = await SshFixture.open({}, mkdtempSync('/var/lib/berth-test-'))
      mkdirSync(opened)
      chmodSync(opened, 0o777)
      await searchSharedPaths(fixture.settings)
      expect(sharedPaths(fixture.settings)).toEqual(
        expect.arrayContaining(['/tmp', '/var/tmp', opened]),
      )
      paths = [...sharedPaths(fixture.settings), '/dev/shm']
      for (const at of paths) {
        writeFileSync(join(at, `${word}-outside`), '', { mode: 0o644 })
        mkdirSync(join(at, `${word}-open`))
        chmodSync(join(at, `${word}-open`), 0o777)
      }
      const made = execFileSync('ipcmk', ['-M', String(OUTSIDE)], { encoding: 'utf8' })
      segment = /id: (\d+)/.exec(made)?.[1] ?? ''
      repository = fixture.host.repository()
      repository.commit({
        'look.sh': script(paths),
        '.service.yml': `manual:
  deploy: [sh look.sh step]
  services:
    web: { run: 'sh look.sh service; exec sleep 1000' }
actions:
  look: { run: sh look.sh action }
`,
      })
    })
    afterAll(async () => {
      execFileSync('ipcrm', ['-m', segment])
      for (const at of paths) {
        for (const name of readdirSync(at).filter((found) => found.startsWith(word))) {
          rmSync(join(at, name), { recursive: true })
        }
      }
      rmSync(opened, { recursive: true })
      await fixture.close()
    })

    /** Everything with the word in its name, or in the world-writable folder. */
    const left = (): string[] =>
      paths.flatMap((at) => [
        ...readdirSync(at).filter(
          (name) => name.startsWith(word) && !/-(outside|open)$/.test(name),
        ),
        ...readdirSync(join(at, `${word}-open`)),
      ])

    async function done(deployment: Deployment): Promise<string> {
      const verdict = await deployment.verdict()
      const log = deployment.log()
      expect([verdict.message, verdict.state], log).toEqual(['', AttemptState.SUCCEEDED])
      return log
    }

    async function ownAccount(): Promise<Account> {
      const found = await findAccount(`${fixture.settings.accountPrefix}1`)
      if (!found) throw new Error('no account')
      return found
    }

    it('are the environment’s own: for steps, services, actions, commands and shells of people', async () => {
      const shell = { certificate: await fixture.shell(), account: 'berth-shell' as const }
      const said = [await done(await fixture.host.deploy(repository))]
      const { logs, temporary } = environmentPaths(fixture.settings, 1)
      said.push(
        await eventually(() => {
          const text = readTree(logs).toString()
          return text.includes('service is done') && text
        }, 'the service'),
      )
      said.push(await done(await fixture.host.deploy(repository, { action: 'look' })))
      const words = ['exec', '-', argvOf('sh', 'look.sh', 'exec')]
      said.push((await fixture.login({ ...shell, words })).out)
      const typed = 'sh look.sh shell; exit\n'
      const again = { certificate: await fixture.shell(), account: 'berth-shell' as const }
      said.push((await fixture.login({ ...again, words: ['shell'], flags: ['-tt'], typed })).out)
      const all = said.join('\n')
      for (const who of ['step', 'service', 'action', 'exec', 'shell']) {
        expect(all).toContain(`${who} is done`)
        // in its own folder each sees what earlier ones left
        expect(readdirSync(temporary)).toContain(`${word}-${who}`)
      }
      expect(all).not.toMatch(/sees \S*-(outside|open)/)
      expect(all).not.toContain('sees memory')
      expect(all).not.toMatch(/sees \/dev\/shm/)
      expect(left()).toEqual([])
      expect(memory()).not.toContain(` ${INSIDE} `)
      // another environment sees none of it
      const other = await done(await fixture.host.deploy(repository, { environmentId: 2 }))
      expect(other).toContain('step is done')
      expect(other).not.toContain('step sees')
    })

    it('keep nothing of an account when its environment goes, where it got there all the same', async () => {
      const account = await ownAccount()
      const argv = [...dropRights(account).slice(1), 'sh', '-c', script(paths), 'sh', 'control']
      const control = spawnSync('setpriv', argv, { encoding: 'utf8' })
      // the control: what the test above did not see is visible here
      for (const at of paths) expect(control.stdout).toContain(`sees ${at}/${word}-outside`)
      expect(control.stdout).toContain('sees memory')
      expect(left()).toHaveLength(2 * paths.length)
      expect(memory()).toContain(` ${INSIDE} `)
      const removal = await fixture.host.deploy(repository, { destroy: true })
      expect(await done(removal)).not.toContain('Warning')
      expect(left()).toEqual([])
      expect(memory()).not.toContain(` ${INSIDE} `)
      for (const at of paths) {
        expect(readdirSync(at)).toEqual(expect.arrayContaining([`${word}-outside`, `${word}-open`]))
      }
    })
  },
)
