// Backups of the shared folder of the manual recipe, with a real process that writes to it: the folder of one moment,
// what comes back, who owns it, and that a failure leaves the data of before.
import { randomUUID } from 'node:crypto'
import { existsSync, lstatSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { AttemptState, BackupPartKind, BackupPlace, FailureCode } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { environmentPaths } from '../../agent/src/machine/files.ts'
import { openEdge } from '../../agent/src/proxy/client.ts'
import { recoverManual } from '../../agent/src/runner/manual/recover.ts'
import { reviveServices } from '../../agent/src/supervise/control.ts'
import { type Deployment, eventually } from '../fixtures/server/deployment.ts'
import { isRoot } from '../fixtures/server/server.ts'
import { answer, ServiceFixture } from '../fixtures/server/service.ts'

async function succeeds(deployment: Deployment): Promise<Deployment> {
  const verdict = await deployment.verdict()
  expect(verdict.state, deployment.log() + deployment.runnerLog()).toBe(AttemptState.SUCCEEDED)
  return deployment
}

/** Counts in a file of the shared folder, and answers with what another one holds. */
const SERVER = `
import { readFileSync, appendFileSync, existsSync } from 'node:fs'
import { createServer } from 'node:http'
const dir = process.env.BERTH_SHARED_DIR
if (existsSync(dir + '/broken')) process.exit(1)
setInterval(() => appendFileSync(dir + '/beat', '.'), 5)
createServer((_, answer) => {
  answer.end(existsSync(dir + '/note') ? readFileSync(dir + '/note') : 'nothing')
}).listen(process.env.PORT, '127.0.0.1')
`

describe.skipIf(!isRoot)('the shared folder', () => {
  let fixture: ServiceFixture
  const ID = 31
  beforeAll(async () => {
    fixture = await ServiceFixture.open()
    fixture.repository.commit({ 'server.mjs': SERVER })
    await fixture.deployed(ID, { version: 'one', health: '/' })
  })
  afterAll(() => fixture.close())

  const run = (request: object): Promise<Deployment> =>
    fixture.host.deploy(fixture.repository, { environmentId: ID, ...request })
  const paths = () => environmentPaths(fixture.host.settings, ID)
  const port = () => fixture.rows(ID)[0]?.port
  const note = (text: string): void => writeFileSync(join(paths().shared, 'note'), text)
  const beats = (): number => readFileSync(join(paths().shared, 'beat')).length

  async function backUp() {
    const backup = { backupId: randomUUID(), place: BackupPlace.SERVER }
    const done = await succeeds(await run({ backup }))
    const [made] = done.bodies('backup')
    return { stored: { ...backup, environmentId: ID, parts: made?.parts ?? [] }, done }
  }
  const isSettled = (): void => {
    expect(readdirSync(paths().dir).filter((name) => name.startsWith('.berth'))).toEqual([])
    const ledger = fixture.host.ledger()
    expect(ledger.dataWork.find(ID)).toBeUndefined()
    ledger.close()
  }
  /** As the daemon does after a dead runner. */
  async function recover(): Promise<void> {
    const { settings } = fixture.host
    const ledger = fixture.host.ledger()
    const context = { settings, ledger, edge: openEdge(settings) }
    await recoverManual(context, { environmentId: ID })
    await reviveServices(settings, ledger, {
      occupy: () => true,
      vacate: () => undefined,
      isFirst: () => true,
      onTrouble: (_, error) => {
        throw error
      },
    })
    ledger.close()
  }

  it('is archived while its processes stand still, and comes back as the account owns it', async () => {
    note('first')
    writeFileSync(join(paths().shared, 'log', 'app.log'), 'not data\n')
    const { stored, done } = await backUp()
    expect(stored.parts).toMatchObject([{ file: 'shared.tar.gz', kind: BackupPartKind.FOLDER }])
    expect(done.log()).toMatch(/Paused for \d+ ms: Its processes\./)
    const before = beats()
    await eventually(() => beats() > before, 'its process to go on')

    note('second')
    await succeeds(await run({ restore: stored }))
    expect(await answer(port())).toBe('first')
    const { uid } = lstatSync(paths().home)
    for (const name of ['', 'note', 'log']) {
      expect(lstatSync(join(paths().shared, name)).uid).toBe(uid)
    }
    const logs = readdirSync(join(paths().shared, 'log'))
    expect(logs).toEqual([expect.stringMatching(/^before-restore-/)])
    isSettled()
  })

  it('stays as it was when the service does not start with the backup, or the runner dies', async () => {
    writeFileSync(join(paths().shared, 'broken'), '')
    note('broken')
    const { stored } = await backUp()
    rmSync(join(paths().shared, 'broken'))
    note('good')
    const verdict = await (await run({ restore: stored })).verdict()
    expect(verdict).toMatchObject({ code: FailureCode.RESTORE_FAILED, failedStepId: 'replace' })
    expect(verdict.message).toContain('The data of before is back')
    expect(await answer(port())).toBe('good')
    isSettled()
    for (const at of ['web was stopped', 'web was started']) {
      const request = { environmentId: ID, restore: stored }
      const running = fixture.host.start(fixture.repository, request)
      await eventually(() => running.hasSaid(at), at)
      running.child.kill('SIGKILL')
      await running.ended
      await recover()
      expect(existsSync(join(paths().shared, 'broken'))).toBe(false)
      expect(await eventually(() => answer(port()).catch(() => undefined), 'an answer')).toBe(
        'good',
      )
      isSettled()
    }
  })
})
