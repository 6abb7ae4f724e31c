// One server, real runner processes: what the events, the log and the machine say after each kind of deployment.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { AttemptState, FailureCode, type StepChanged, StepState } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { environmentPaths } from '../../agent/src/machine/files.ts'
import type { RunningEdge } from '../../agent/src/proxy/edge/edge.ts'
import { type Repository, readTree } from '../fixtures/server/deployment.ts'
import { portsEdge } from '../fixtures/server/proxy-server.ts'
import { AgentHost, isRoot } from '../fixtures/server/server.ts'

let host: AgentHost
let repository: Repository

let edge: RunningEdge
beforeAll(async () => {
  host = new AgentHost()
  edge = await portsEdge(host.settings)
  repository = host.repository()
})
afterAll(async () => {
  await host.close()
  edge.close()
})

const SERVER = `import { createServer } from 'node:http'
console.log('up with', process.env.API_TOKEN)
createServer((request, response) => {
  response.end(JSON.stringify({ release: process.env.BERTH_RELEASE_DIR, token: process.env.API_TOKEN }))
}).listen(process.env.PORT, '127.0.0.1')
process.on('SIGTERM', () => process.exit(0))
`

const service = (run: string, rest = 'port: auto'): string =>
  `manual:\n  deploy: [echo deployed]\n  services:\n    web: { ${rest}, run: ${JSON.stringify(run)} }\n`

describe('a deployment that succeeds', () => {
  it('runs the commands, starts the service, proves it and reports each step', async () => {
    repository.commit(
      { '.service.yml': service(`exec ${host.node} server.mjs`), 'server.mjs': SERVER },
      'Add server',
    )
    const first = await host.deploy(repository, { variables: { API_TOKEN: 'hunter2-very-secret' } })
    const verdict = await first.verdict()
    expect(verdict).toMatchObject({ state: AttemptState.SUCCEEDED, code: FailureCode.UNSPECIFIED })
    expect(first.attempts().map(({ state }) => state)).toEqual([
      AttemptState.RUNNING,
      AttemptState.SUCCEEDED,
    ])
    const [checkout, whole] = first.bodies('plan')
    const ids = whole?.phases.flatMap(({ steps }) => steps.map(({ stepId }) => stepId)) ?? []
    expect(checkout?.phases.flatMap(({ steps }) => steps.map(({ stepId }) => stepId))).toEqual(
      ids.slice(0, 8),
    )
    expect(Object.keys(first.steps()).sort()).toEqual([...ids].sort())
    for (const step of Object.values(first.steps())) expect(step.state).toBe(StepState.SUCCEEDED)
    const records = first.records()
    const digest = createHash('sha256')
    for (const { data } of records) digest.update(data)
    expect(verdict.finalLogSeq).toBe(BigInt(records.length))
    expect(Buffer.from(verdict.logSha256).toString('hex')).toBe(digest.digest('hex'))
    for (const [index, id] of ids.entries()) {
      const { firstLogSeq, lastLogSeq } = first.steps()[id] as StepChanged
      const own = records.slice(Number(firstLogSeq) - 1, Number(lastLogSeq))
      expect(
        own.every(({ step }) => step === index),
        id,
      ).toBe(true)
    }
    expect(first.bodies('commit')[0]).toMatchObject({
      commitSha: repository.git('rev-parse', 'HEAD'),
      subject: 'Add server',
      authorName: 'Ada',
    })
    const [web] = first.bodies('services')[0]?.services ?? []
    const answer = await (await fetch(`http://127.0.0.1:${web?.port}/`)).json()
    const paths = environmentPaths(host.settings, 1)
    expect(answer).toEqual({
      release: join(paths.releases, String(first.taskId)),
      token: 'hunter2-very-secret',
    })
    expect(readlinkSync(paths.current)).toBe(`releases/${first.taskId}`)
    expect(existsSync(join(paths.current, '.git'))).toBe(false)
    if (isRoot) expect(statSync(join(paths.current, 'server.mjs')).uid).not.toBe(0)
  })

  it('alternates ports on the next deployment and stops the version before', async () => {
    const ledger = host.ledger()
    const before = ledger.listProcesses(1)
    const second = await host.deploy(repository, {
      variables: { API_TOKEN: 'hunter2-very-secret' },
    })
    expect(await second.verdict(), second.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
    const after = ledger.listProcesses(1)
    const third = await host.deploy(repository)
    expect(await third.verdict(), third.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
    const last = ledger.listProcesses(1)
    ledger.close()
    expect(before).toHaveLength(1)
    expect(after).toHaveLength(1)
    expect(after[0]?.port).not.toBe(before[0]?.port)
    expect(last[0]?.port).toBe(before[0]?.port)
    await expect(fetch(`http://127.0.0.1:${after[0]?.port}/`)).rejects.toThrow()
    const answer = await (await fetch(`http://127.0.0.1:${last[0]?.port}/`)).json()
    expect(answer).toMatchObject({
      release: expect.stringMatching(new RegExp(`/${third.taskId}$`)),
    })
  })

  it('masks values in the service log too', () => {
    const logs = readTree(environmentPaths(host.settings, 1).logs).toString()
    expect(logs).toContain('up with ***')
    expect(logs).not.toContain('hunter2')
  })
})

describe('variables', () => {
  it('are there on the first deployment, custom or not, and in the file', async () => {
    const show =
      'printf "%s|" "$SERVICE_DOMAIN" "$SERVICE_ENV_IDENTIFIER" "$SERVICE_ENV_TYPE" "$SERVICE_ENV_BRANCH" "$FROM_FILE"; echo; cat "$BERTH_VARIABLES_FILE"'
    const yaml = `manual:\n  env: { FROM_FILE: file }\n  deploy: [${JSON.stringify(show)}]\n`
    repository.commit({ '.service.yml': yaml })
    const without = await host.deploy(repository, { environmentId: 2 })
    expect((await without.verdict()).state).toBe(AttemptState.SUCCEEDED)
    const line = 'pr-42-2.shop.example.com|pr-42|pull_request|feature/ünïcode|file|'
    expect(without.log()).toContain(line)
    const paths = environmentPaths(host.settings, 2)
    const file = join(paths.variables, `${without.taskId}.sh`)
    expect(readFileSync(file, 'utf8')).toContain("SERVICE_ENV_IDENTIFIER='pr-42'\n")
    expect(statSync(file).mode & 0o777).toBe(isRoot ? 0o440 : 0o400)
    const custom = { FROM_FILE: 'custom', SERVICE_DOMAIN: 'evil', MULTI: "it's\ntwo lines" }
    const second = await host.deploy(repository, { environmentId: 2, variables: custom })
    expect(await second.verdict(), second.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
    expect(second.log()).not.toContain('evil')
    expect(second.bodies('warning').map(({ code }) => code)).toEqual(['reserved_key'])
    const dotenv = readFileSync(join(paths.variables, `${second.taskId}.env`), 'utf8')
    expect(dotenv).toContain('FROM_FILE=custom\nMULTI="it\'s\\ntwo lines"\n')
    expect(dotenv).toContain('SERVICE_DOMAIN=pr-42-2.shop.example.com\n')
  })

  it('cannot bring code into a process that still has rights', async (t) => {
    if (!isRoot) return t.skip('needs root')
    const yaml = `manual:\n  deploy: [{ run: id -u, env: { LD_PRELOAD: /nonexistent/step.so } }]\n`
    repository.commit({ '.service.yml': yaml })
    const custom = { LD_LIBRARY_PATH: '/nonexistent', ENV: '/nonexistent' }
    const deployment = await host.deploy(repository, { environmentId: 2, variables: custom })
    expect((await deployment.verdict()).state).toBe(AttemptState.SUCCEEDED)
    // the loader complains about LD_PRELOAD once per process, and only in those without root rights
    const complaints = deployment.log().match(/step\.so/g)?.length ?? 0
    expect(complaints).toBeGreaterThan(0)
    expect(complaints).toBeLessThanOrEqual(2)
    expect(deployment.log()).not.toMatch(/^0\r?$/m)
  })

  it('reach no file of the attempt, whatever a command does with them', async () => {
    const secret = 'cr0ss-the-border-42'
    const print = [
      'i=0; while [ $i -lt 300 ]; do printf "%s" "$SECRET"; i=$((i+1)); done; echo',
      'printf "cr0ss-the"; sleep 0.4; printf "%s\\n" "-border-42"',
      'printf "%s" "$SECRET" | base64',
      'printf "x%s" "$SECRET" | base64',
      'printf "%s" "$SECRET" | od -An -tx1 | tr -d " \\n"; echo',
      'printf "\\033[31m%s\\033[0m\\n" "$SECRET"; echo "$KEY"',
      'exit 3',
    ]
    const yaml = `manual:\n  deploy:\n    - |\n${print.map((line) => `      ${line}\n`).join('')}`
    repository.commit({ '.service.yml': yaml }, `About ${secret}`)
    const key = `-----BEGIN OPENSSH PRIVATE KEY-----\n${'bGluZS1vZi1hLWtleQ'.repeat(3)}\n-----END-----\n`
    const deployment = await host.deploy(repository, {
      environmentId: 2,
      variables: { SECRET: secret, KEY: key },
      deployKey: key,
    })
    expect(await deployment.verdict()).toMatchObject({ state: AttemptState.FAILED, exitCode: 3 })
    expect(deployment.log()).toContain('***')
    const raw = readTree(deployment.dir).toString('latin1')
    const forms = [secret, Buffer.from(secret).toString('base64').replace(/=+$/, '')]
    forms.push(Buffer.from(secret).toString('hex'), 'bGluZS1vZi1hLWtleQ')
    // the middle of each form too, because half a value is a leak as well
    for (const form of forms) expect(raw).not.toContain(form.slice(3, -3))
    expect(existsSync(join(host.settings.runDir, 'attempts', deployment.attemptId))).toBe(false)
  })
})

describe('a deployment that fails', () => {
  it('names the command and its exit code, skips the rest, leaves nothing', async () => {
    const yaml = `manual:
  deploy:
    - name: Left over
      run: sleep 300 & echo started
    - name: Migrate
      run: |
        echo migrating
        sleep 300 &
        exit 42
    - echo never
`
    repository.commit({ '.service.yml': yaml })
    const deployment = await host.deploy(repository, { environmentId: 3 })
    const verdict = await deployment.verdict()
    expect(verdict).toMatchObject({
      state: AttemptState.FAILED,
      code: FailureCode.STEP_FAILED,
      failedStepId: '2',
      exitCode: 42,
      platformCheck: false,
    })
    expect(verdict.message).toMatch(/^`echo migrating sleep 300 & exit 42` exited with 42\.$/)
    const steps = deployment.steps()
    expect(steps['2']).toMatchObject({ state: StepState.FAILED, exitCode: 42 })
    expect(steps['3']).toMatchObject({ state: StepState.SKIPPED })
    expect(deployment.log()).not.toContain('never')
    const paths = environmentPaths(host.settings, 3)
    expect(readdirSync(paths.releases)).toEqual([])
    expect(readdirSync(paths.variables)).toEqual([])
    expect(existsSync(paths.current)).toBe(false)
    // processes that an earlier, successful step left running may stay; those of the failed step may not
    expect(deployment.processes()).toBe(1)
  })

  it('puts current back when a step had moved it early and a later one fails', async () => {
    const show = 'readlink "$BERTH_SHARED_DIR/../current" || echo none'
    const yaml = (last: string) =>
      `manual:\n  deploy:\n    - '${show}'\n    - berth-activate\n    - '${show}'\n    - ${last}\n`
    const paths = environmentPaths(host.settings, 8)
    repository.commit({ '.service.yml': yaml('exit 1') })
    const first = await host.deploy(repository, { environmentId: 8 })
    expect((await first.verdict()).failedStepId).toBe('4')
    expect(first.log()).toMatch(new RegExp(`none[^]*releases/${first.taskId}\\r?\\n`))
    expect(existsSync(paths.current)).toBe(false)
    repository.commit({ '.service.yml': yaml('echo fine') })
    const second = await host.deploy(repository, { environmentId: 8 })
    expect(await second.verdict(), second.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
    repository.commit({ '.service.yml': yaml('exit 1') })
    const third = await host.deploy(repository, { environmentId: 8 })
    expect((await third.verdict()).state).toBe(AttemptState.FAILED)
    expect(third.log()).toContain(`releases/${third.taskId}`)
    expect(readlinkSync(paths.current)).toBe(`releases/${second.taskId}`)
  })

  it('shows an allowed failure as a warning and goes on', async () => {
    const yaml = 'manual:\n  deploy: [{ run: exit 5, allow_failure: true }, echo after]\n'
    repository.commit({ '.service.yml': yaml })
    const deployment = await host.deploy(repository, { environmentId: 3 })
    expect((await deployment.verdict()).state).toBe(AttemptState.SUCCEEDED)
    expect(deployment.steps()['1']).toMatchObject({ state: StepState.SUCCEEDED, exitCode: 5 })
    expect(deployment.bodies('warning')[0]).toMatchObject({ stepId: '1' })
    expect(deployment.log()).toContain('after')
  })

  it.each([
    ['../../..', 'the folder above'],
    ['out', 'a link out of the checkout'],
  ])('refuses the folder %s (%s)', async (folder) => {
    const yaml = `manual:\n  deploy: [{ run: pwd, dir: ${folder} }]\n`
    repository.commit({ '.service.yml': yaml, out: { link: '/' } })
    const deployment = await host.deploy(repository, { environmentId: 3 })
    const verdict = await deployment.verdict()
    expect(verdict.state).toBe(AttemptState.FAILED)
    expect([FailureCode.STEP_FAILED, FailureCode.CONFIG_INVALID]).toContain(verdict.code)
    repository.commit({ out: null })
  })
})
