// Environments that are removed with their processes, files, account, cgroups and ports, or emptied and deployed again.
// Real runners, real accounts; the machine itself shows what is left.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { AttemptState, FailureCode, Recipe, StepState } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { allPaths, environmentPaths } from '../../agent/src/machine/files.ts'
import { detectCgroups, listCgroups } from '../../agent/src/machine/process/cgroups.ts'
import { hasMarker, listProcesses, readOwner } from '../../agent/src/machine/process/processes.ts'
import { reviveServices } from '../../agent/src/supervise/control.ts'
import { type Deployment, eventually } from '../fixtures/server/deployment.ts'
import { isRoot } from '../fixtures/server/server.ts'
import { answer, ServiceFixture } from '../fixtures/server/service.ts'

let fixture: ServiceFixture
beforeAll(async () => {
  fixture = await ServiceFixture.open()
})
afterAll(() => fixture.close())

const accountOf = (id: number): string => `${fixture.host.settings.accountPrefix}${id}`
const passwd = (name: string) => spawnSync('getent', ['passwd', name], { encoding: 'utf8' }).stdout

/** An application that ignores SIGTERM, so ending it takes a while. */
const STUBBORN = 'sh -c \'trap "" TERM; while :; do sleep 0.2; done\''

/** A service, a process started without `run`, and destroy steps that write outside of Berth. */
function commit(destroy: string, application = 'sleep 4000'): void {
  fixture.repository.commit({
    '.service.yml': `manual:
  deploy:
    - 'echo data >"$BERTH_SHARED_DIR/data"; mktemp -d /tmp/berth-left-XXXXXX >"$BERTH_SHARED_DIR/left"'
    - setsid ${application} >/dev/null 2>&1 & sleep 0.1
  destroy:
${destroy}
  services:
    web:
      port: auto
      run: exec ${fixture.host.node} server.mjs
      health: /up
      env: { VERSION: one, MODE: "" }
      stop_timeout: 2s
`,
  })
}

async function deploy(environmentId: number, more: object = {}): Promise<Deployment> {
  const deployment = await fixture.host.deploy(fixture.repository, { environmentId, ...more })
  expect(await deployment.verdict()).toMatchObject({ message: '', state: AttemptState.SUCCEEDED })
  return deployment
}

const destroy = (environmentId: number, how: true | 'anyway' = true): Promise<Deployment> =>
  fixture.host.deploy(fixture.repository, { environmentId, destroy: how })

/** A folder for the output of destroy steps, which outlives the environment. */
function outside(name: string): string {
  const folder = join(fixture.host.folder, name)
  mkdirSync(folder, { mode: 0o777 })
  execFileSync('chmod', ['0777', folder])
  return folder
}

/** A freed uid may now belong to an account of another test, whose processes do not count. */
function isTaken(environmentId: number, uid: number): boolean {
  const [name = ''] = passwd(String(uid)).split(':')
  return name !== '' && name !== accountOf(environmentId)
}

/** Everything on this machine that belongs to the environment. */
function leftOf(environmentId: number, uid: number | undefined): string[] {
  const { settings } = fixture.host
  const { shared } = environmentPaths(settings, environmentId)
  const ledger = fixture.host.ledger()
  try {
    return [
      ...allPaths(settings, environmentId).filter((place) => existsSync(place)),
      ...listProcesses()
        .filter(
          ({ pid }) =>
            hasMarker(pid, `BERTH_SHARED_DIR=${shared}`) ||
            (uid !== undefined && readOwner(pid) === uid && !isTaken(environmentId, uid)),
        )
        .map(({ name, pid }) => `${name} ${pid}`),
      ...listCgroups(detectCgroups(), `${accountOf(environmentId)}-`),
      ...passwd(accountOf(environmentId)).split('\n').filter(Boolean),
      ...ledger.listProcesses(environmentId).map(({ service }) => `row of ${service}`),
      ...(ledger.findPlan(environmentId) ? ['plan'] : []),
    ]
  } finally {
    ledger.close()
  }
}

/** What the daemon does when it starts. */
async function revive(): Promise<string[]> {
  const ledger = fixture.host.ledger()
  try {
    return await reviveServices(fixture.host.settings, ledger, {
      occupy: () => true,
      vacate: () => undefined,
      isFirst: () => true,
      onTrouble: (_row, error) => expect.unreachable(String(error)),
    })
  } finally {
    ledger.close()
  }
}

const uidOf = (environmentId: number): number | undefined =>
  isRoot ? Number(passwd(accountOf(environmentId)).split(':')[2]) : undefined

describe('a removal', () => {
  it('runs the destroy steps while everything is still there, then leaves nothing', async () => {
    const words = outside('words')
    commit(`    - name: Say goodbye
      run: |
        echo "data: $(cat "$BERTH_SHARED_DIR/data") token: $TOKEN here: $(ls server.mjs)" >${words}/said
        echo "my token is $TOKEN"
        ${fixture.host.node} -e 'fetch("http://127.0.0.1:" + process.env.PORT_WEB).then(r => r.text()).then(t => console.log("web said " + t))'`)
    const deployment = await deploy(20, { variables: { TOKEN: 'the-value-of-then' } })
    const uid = uidOf(20)
    const port = fixture.rows(20)[0]?.port
    const { shared } = environmentPaths(fixture.host.settings, 20)
    const temporary = readFileSync(join(shared, 'left'), 'utf8').trim()
    expect(await answer(port)).toBe('one')
    expect(existsSync(temporary)).toBe(true)
    expect(leftOf(20, uid).filter((what) => what.startsWith('sleep'))).toHaveLength(1)

    const removal = await destroy(20)
    expect(await removal.verdict()).toMatchObject({ message: '', state: AttemptState.SUCCEEDED })
    expect(Object.entries(removal.steps()).map(([id, { state }]) => [id, state])).toEqual([
      ['1', StepState.SUCCEEDED], // objects list numeric keys first; in the plan `unroute` comes first
      ['unroute', StepState.SUCCEEDED],
      ['stop', StepState.SUCCEEDED],
      ['remove', StepState.SUCCEEDED],
    ])
    expect(readFileSync(join(words, 'said'), 'utf8')).toBe(
      'data: data token: the-value-of-then here: server.mjs\n',
    )
    expect(removal.log()).toContain('web said one')
    expect(removal.log()).toContain('my token is ***')
    expect(removal.log()).not.toContain('the-value-of-then')
    expect(removal.log()).toContain(`web of deployment ${deployment.taskId} stopped in`)
    expect(leftOf(20, uid)).toEqual([])
    if (isRoot) expect(existsSync(temporary)).toBe(false)
    await expect(answer(port)).rejects.toThrow()
  })

  it('is over when it is over: no restart of the agent brings a service back', async () => {
    const words = outside('revived')
    commit(`    - touch ${words}/gone`)
    await deploy(21)
    const uid = uidOf(21)
    expect((await (await destroy(21)).verdict()).state).toBe(AttemptState.SUCCEEDED)
    expect(await revive()).not.toContain(`${accountOf(21)}/web`)
    expect(leftOf(21, uid)).toEqual([])
  })

  it('of what was never deployed here succeeds, whatever the recipe', async () => {
    for (const recipe of [Recipe.MANUAL, Recipe.DOCKER]) {
      const removal = await fixture.host.deploy(fixture.repository, {
        environmentId: 22,
        destroy: true,
        recipe,
      })
      expect((await removal.verdict()).state).toBe(AttemptState.SUCCEEDED)
      expect(removal.log()).toContain('had nothing of pr-42')
    }
    expect(leftOf(22, undefined)).toEqual([])
  })

  it('of a first deployment that failed takes its account and folders along', async () => {
    fixture.repository.commit({ '.service.yml': 'manual: { deploy: [exit 3] }\n' })
    const deployment = await fixture.host.deploy(fixture.repository, { environmentId: 23 })
    expect((await deployment.verdict()).state).toBe(AttemptState.FAILED)
    const uid = uidOf(23)
    expect(leftOf(23, uid)).not.toEqual([])
    expect((await (await destroy(23)).verdict()).state).toBe(AttemptState.SUCCEEDED)
    expect(leftOf(23, uid)).toEqual([])
  })

  it('fails with a failing step and its output; everything stays up, and it may be tried again', async () => {
    const words = outside('retried')
    commit(`    - 'echo first >>${words}/log'
    - 'test -e ${words}/ready || { echo "the database is busy"; exit 4; }'`)
    await deploy(24)
    const uid = uidOf(24)
    const port = fixture.rows(24)[0]?.port
    const removal = await destroy(24)
    expect(await removal.verdict()).toMatchObject({
      state: AttemptState.FAILED,
      code: FailureCode.STEP_FAILED,
      failedStepId: '2',
      exitCode: 4,
      platformCheck: false,
    })
    expect(removal.log()).toContain('the database is busy')
    expect(removal.steps().remove).toMatchObject({ state: StepState.SKIPPED })
    expect(await answer(port)).toBe('one')

    writeFileSync(join(words, 'ready'), '')
    expect((await (await destroy(24)).verdict()).state).toBe(AttemptState.SUCCEEDED)
    expect(readFileSync(join(words, 'log'), 'utf8')).toBe('first\nfirst\n')
    expect(leftOf(24, uid)).toEqual([])
  })

  it('goes on over a step that may fail, and says so', async () => {
    commit('    - { run: exit 9, allow_failure: true }')
    await deploy(25)
    const uid = uidOf(25)
    const removal = await destroy(25)
    expect((await removal.verdict()).state).toBe(AttemptState.SUCCEEDED)
    expect(removal.bodies('warning')).toMatchObject([{ code: 'step_failed_allowed', stepId: '1' }])
    expect(leftOf(25, uid)).toEqual([])
  })

  it('without the steps, when it is to go anyway', async () => {
    const words = outside('skipped')
    commit(`    - 'echo ran >${words}/log; exit 1'`)
    await deploy(26)
    const uid = uidOf(26)
    const removal = await destroy(26, 'anyway')
    expect((await removal.verdict()).state).toBe(AttemptState.SUCCEEDED)
    expect(removal.log()).toContain('destroy steps are skipped, as asked')
    expect(existsSync(join(words, 'log'))).toBe(false)
    expect(leftOf(26, uid)).toEqual([])
  })

  it('of one whose files somebody removed by hand succeeds with a warning', async () => {
    const words = outside('by-hand')
    commit(`    - 'echo ran >${words}/log'`)
    await deploy(27)
    const uid = uidOf(27)
    execFileSync('rm', ['-rf', environmentPaths(fixture.host.settings, 27).dir])
    const removal = await destroy(27)
    expect((await removal.verdict()).state).toBe(AttemptState.SUCCEEDED)
    expect(removal.bodies('warning')).toMatchObject([{ code: 'destroy_steps_skipped' }])
    expect(leftOf(27, uid)).toEqual([])
  })

  it('whose runner is killed in between is finished by the next one, without the steps again', async () => {
    const words = outside('killed')
    commit(`    - 'echo ran >>${words}/log'`, STUBBORN)
    await deploy(28)
    const uid = uidOf(28)
    const removal = fixture.host.start(fixture.repository, {
      environmentId: 28,
      destroy: true,
      killGraceMs: 60_000,
    })
    await eventually(() => !leftOf(28, uid).includes('plan'), 'the point of no return')
    removal.child.kill('SIGKILL')
    await removal.ended
    expect(leftOf(28, uid)).toContain(environmentPaths(fixture.host.settings, 28).dir)
    // the daemon in between would end it and never start it
    expect(await revive()).toEqual([])
    expect(fixture.rows(28)).toEqual([])
    const again = await destroy(28)
    expect((await again.verdict()).state).toBe(AttemptState.SUCCEEDED)
    expect(readFileSync(join(words, 'log'), 'utf8')).toBe('ran\n')
    expect(leftOf(28, uid)).toEqual([])
  })

  it('can be canceled while a step runs, and nothing was taken away', async () => {
    commit("    - 'echo waiting; sleep 4000'")
    await deploy(29)
    const port = fixture.rows(29)[0]?.port
    const removal = fixture.host.start(fixture.repository, { environmentId: 29, destroy: true })
    await eventually(() => removal.steps()['1'] && removal.log().includes('waiting'), 'the step')
    removal.stop('not yet')
    expect((await removal.verdict()).state).toBe(AttemptState.CANCELED)
    expect(await answer(port)).toBe('one')
    expect((await (await destroy(29, 'anyway')).verdict()).state).toBe(AttemptState.SUCCEEDED)
  })

  it('that has begun to take things away cannot be canceled any more', async () => {
    commit('    - "true"', STUBBORN)
    await deploy(35)
    const uid = uidOf(35)
    const removal = fixture.host.start(fixture.repository, { environmentId: 35, destroy: true })
    await eventually(() => !leftOf(35, uid).includes('plan'), 'the point of no return')
    removal.stop('too late')
    expect((await removal.verdict()).state).toBe(AttemptState.SUCCEEDED)
    expect(leftOf(35, uid)).toEqual([])
  })

  it('leaves an account of the same name alone that is not of Berth', async () => {
    if (!isRoot) return
    const name = accountOf(30)
    execFileSync('useradd', ['--home-dir', '/nonexistent', '--no-create-home', '--', name])
    try {
      const removal = await destroy(30)
      expect((await removal.verdict()).state).toBe(AttemptState.SUCCEEDED)
      expect(removal.log()).toContain('was left alone')
      expect(passwd(name)).toContain('/nonexistent')
    } finally {
      execFileSync('userdel', [name])
    }
  })
})

describe('a reset', () => {
  it('removes the running version and its data by its own steps, then deploys', async () => {
    const words = outside('reset')
    commit(`    - 'echo "destroyed $VERSION_OF_TOKEN" >>${words}/log'`)
    const first = await deploy(31, { variables: { VERSION_OF_TOKEN: 'first-value' } })
    const { shared, releases, variables } = environmentPaths(fixture.host.settings, 31)
    writeFileSync(join(shared, 'precious'), 'x')
    const account = passwd(accountOf(31))
    fixture.commit({ version: 'two' })
    const second = await deploy(31, {
      fresh: true,
      variables: { VERSION_OF_TOKEN: 'second-value' },
    })
    expect(readFileSync(join(words, 'log'), 'utf8')).toBe('destroyed first-value\n')
    expect(existsSync(join(shared, 'precious'))).toBe(false)
    expect(existsSync(join(shared, 'data'))).toBe(false)
    expect(existsSync(join(releases, String(first.taskId)))).toBe(false)
    expect(existsSync(join(variables, `${first.taskId}.sh`))).toBe(false)
    expect(passwd(accountOf(31))).toBe(account)
    expect(second.steps().reset).toMatchObject({ state: StepState.SUCCEEDED })
    expect(fixture.rows(31).map(({ taskId, state }) => [taskId, state])).toEqual([
      [second.taskId, 'serving'],
    ])
    expect(await answer(fixture.rows(31)[0]?.port)).toBe('two')
  })

  it('loses nothing when something cheap fails before it', async () => {
    commit('    - "true"')
    await deploy(32)
    const port = fixture.rows(32)[0]?.port
    const { shared } = environmentPaths(fixture.host.settings, 32)
    fixture.repository.commit({ '.service.yml': 'manual: { deplyo: [x] }\n' })
    const second = await fixture.host.deploy(fixture.repository, { environmentId: 32, fresh: true })
    expect(await second.verdict()).toMatchObject({ failedStepId: 'read-config' })
    expect(await answer(port)).toBe('one')
    expect(existsSync(join(shared, 'data'))).toBe(true)
  })

  it('stops at a failing destroy step, with the running version still up', async () => {
    commit("    - 'echo cannot drop; exit 5'")
    await deploy(33)
    const port = fixture.rows(33)[0]?.port
    const second = await fixture.host.deploy(fixture.repository, { environmentId: 33, fresh: true })
    expect(await second.verdict()).toMatchObject({
      code: FailureCode.STEP_FAILED,
      failedStepId: 'reset',
      exitCode: 5,
    })
    expect(second.log()).toContain('cannot drop')
    expect(await answer(port)).toBe('one')
  })

  it('of what was never deployed is an ordinary deployment', async () => {
    fixture.commit({ version: 'one' })
    await deploy(34, { fresh: true })
    expect(await answer(fixture.rows(34)[0]?.port)).toBe('one')
  })
})
