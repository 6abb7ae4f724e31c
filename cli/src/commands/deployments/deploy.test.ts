import { describe, expect, it } from 'vitest'
import { berth, nowhere, startBerth } from '../../testing/berth.ts'
import { type Installation, startInstallation } from '../../testing/installation.ts'
import { problem, type Scripted } from '../../testing/peer.ts'
import { environment, failedTask, logLine, phase, SHA, task } from '../../testing/samples.ts'

const POST = 'POST /api/environments/101/tasks'
const TASK = 'GET /api/tasks/813'
const LOG = 'GET /api/tasks/813/log'
const created = { status: 201, json: task('queued'), headers: { location: '/api/tasks/813' } }
const ARGS = ['deploy', '-p', 'shop', '-e', 'pr-42']
const ndjson = { 'content-type': 'application/x-ndjson' }

async function installation(...states: Scripted[]): Promise<Installation> {
  const it = await startInstallation()
  it.peer.script(POST, created)
  it.peer.script(TASK, ...states)
  return it
}

describe('starting', () => {
  it('says so after 201 with a task, and exits 0 at once', async () => {
    const { peer, env } = await installation()
    const args = ['--commit', SHA, '--no-cache', '-m', 'by hand']
    const { code, stdout, stderr } = await berth([...ARGS, ...args], { env })
    expect(code).toBe(0)
    expect(stderr).toContain('Task 813  shop / pr-42  checkout-v2 @ c136499 "Fix totals"')
    expect(stdout).toBe(`813\tqueued\tshop\tpr-42\t${SHA}\t-\n`)
    const [request] = peer.asked(POST)
    expect(JSON.parse(request?.body ?? '')).toEqual({
      commit_sha: SHA,
      no_cache: true,
      message: 'by hand',
    })
    expect(request?.headers['idempotency-key']).toMatch(/^[0-9a-f-]{36}$/)
  })

  it.each([
    ['500', problem('internal_error', 'Internal error')],
    ['503 storage_full', problem('storage_full', 'The storage is full.')],
    ['201 without a task', { status: 201, json: {} }],
    ['201 with nothing', { status: 201, text: '' }],
    ['200 with a task', { status: 200, json: task('queued') }],
    ['202 with a task', { status: 202, json: task('queued') }],
    ['a task of another environment', { status: 201, json: task('queued', { environment_id: 5 }) }],
  ])('%s is never "started": 1', async (_, reply) => {
    const { peer, env } = await installation({ json: task('succeeded') })
    peer.script(POST, reply)
    const { code, stdout, stderr } = await berth([...ARGS, '--wait'], { env })
    expect(code).toBe(1)
    expect(stdout).toBe('')
    expect(stderr).toMatch(/^error: /)
    expect(stderr).not.toMatch(/Task 813|succeeded|^Started/m)
    expect(peer.asked(TASK)).toEqual([])
  })

  it('a lost answer is asked for again with the same key', async () => {
    const { peer, env } = await installation()
    peer.script(POST, 'drop', created)
    expect((await berth(ARGS, { env })).code).toBe(0)
    const keys = peer.asked(POST).map((one) => one.headers['idempotency-key'])
    expect(keys).toHaveLength(2)
    expect(new Set(keys).size).toBe(1)
  })

  it('two invocations have two keys', async () => {
    const { peer, env } = await installation()
    await Promise.all([berth(ARGS, { env }), berth(ARGS, { env })])
    expect(new Set(peer.asked(POST).map((one) => one.headers['idempotency-key'])).size).toBe(2)
  })

  it('no answer at all: 1, and it is not known whether it started', async () => {
    const { peer, env } = await installation()
    peer.script(POST, 'drop')
    const { code, stderr } = await berth(ARGS, { env })
    expect(code).toBe(1)
    expect(stderr).toContain('it is not known whether a deployment was started')
  })
})

describe('refusals', () => {
  it('already deploying: 6, with the task and what to do', async () => {
    const { peer, env } = await installation()
    const more = { task_id: 812, task_status: 'running', trigger: 'webhook', started_at: null }
    peer.script(POST, problem('deployment_in_progress', 'Environment pr-42 …', more))
    const { code, stderr } = await berth(ARGS, { env })
    expect(code).toBe(6)
    expect(stderr).toBe(
      'error: a deployment is already running (task 812, started by a push)\n' +
        'hint:  wait for it with  berth deploy -p shop -e pr-42 --attach     ' +
        'or stop it with  berth tasks cancel 812\n',
    )
  })

  it('protected: 6, with the owner', async () => {
    const { peer, env } = await installation()
    const owner = { id: 8, name: 'Grace Hopper' }
    peer.script(POST, problem('environment_protected', 'Protected.', { owner }))
    const { code, stderr } = await berth(ARGS, { env })
    expect(code).toBe(6)
    expect(stderr).toBe('error: pr-42 is protected; only its owner (Grace Hopper) can deploy it\n')
  })

  it.each([
    ['permission_denied', 6],
    ['server_not_ready', 6],
    ['environment_removing', 6],
    ['insufficient_scope', 4],
    ['token_revoked', 4],
    ['validation_failed', 1],
  ] as const)('%s: %d', async (reason, exitCode) => {
    const { peer, env } = await installation()
    peer.script(POST, problem(reason, 'Because.'))
    const { code, stderr } = await berth(ARGS, { env })
    expect(code).toBe(exitCode)
    expect(stderr).toMatch(/^error: Because\./)
  })

  it('not logged in: 4', async () => {
    const { code, stderr } = await berth(ARGS, { env: { BERTH_CONFIG_DIR: nowhere() } })
    expect(code).toBe(4)
    expect(stderr).toContain('berth login --url')
  })

  it('an environment nobody knows: 5, with the one that may be meant', async () => {
    const { peer, env } = await installation()
    const { code, stderr } = await berth(['deploy', '-p', 'shop', '-e', 'pr-24'], { env })
    expect(code).toBe(5)
    expect(stderr).toBe("error: no environment 'pr-24' in shop\nhint:  did you mean pr-42?\n")
    expect(peer.asked(POST)).toEqual([])
  })

  it.each([
    [['deploy', '-p', 'shop'], 'which environment?'],
    [[...ARGS, '--commit', 'abc123'], '--commit takes a SHA, or its first 7'],
    [[...ARGS, '--timeout', '5m'], '--timeout needs --wait'],
    [[...ARGS, '--wait', '--timeout', 'soon'], '--timeout takes a time'],
    [[...ARGS, '--attach', '-m', 'x'], '--attach starts nothing'],
    [[...ARGS, '--unknown'], "unknown option '--unknown'"],
    [['deploy', '-p', '', '-e', 'pr-42'], '--project is empty'],
    [[...ARGS, 'extra'], 'too many arguments'],
  ])('%j is a usage error: 2', async (args, message) => {
    const { peer, env } = await installation()
    const { code, stderr } = await berth(args, { env })
    expect(code).toBe(2)
    expect(stderr).toContain(message)
    expect(peer.asked(POST)).toEqual([])
  })
})

describe('waiting', () => {
  it('succeeded: 0, a line per event, the address at the end', async () => {
    const { env } = await installation(
      { json: task('running', { phases: [phase('checkout', 'running')] }) },
      { json: task('running') },
      { json: task('succeeded') },
    )
    const { code, stdout, stderr } = await berth([...ARGS, '--wait'], { env })
    expect(code).toBe(0)
    const lines = stderr.trimEnd().split('\n')
    for (const line of lines) expect(line).toMatch(/^\d\d:\d\d:\d\d /)
    expect(lines.map((line) => line.slice(9))).toEqual([
      'task 813 queued  shop/pr-42 c136499',
      'checkout  started',
      'checkout  succeeded 1.8s',
      'task 813 succeeded 1m18s https://pr-42.shop.example.com',
    ])
    expect(stdout).toBe(`813\tsucceeded\tshop\tpr-42\t${SHA}\thttps://pr-42.shop.example.com\n`)
  })

  it("failed: 3, with the failed step's last lines and what still runs", async () => {
    const { peer, env } = await installation({ json: task('running') }, { json: failedTask() })
    const text = [396, 397].map((n) => `${logLine(n, `error ${n}`)}\n`).join('')
    peer.script(LOG, { text, headers: ndjson })
    const { code, stdout, stderr } = await berth([...ARGS, '--wait'], { env })
    expect(code).toBe(3)
    expect(stdout).toMatch(/^813\tfailed\t/)
    expect(stderr).toContain('task 813 failed 1m18s in "Build image web" (exit code 1)')
    expect(stderr).toContain('  396 │ error 396\n  397 │ error 397\n')
    expect(stderr).toContain('The version deployed before keeps running.')
    expect(stderr).toContain('Full log:   berth tasks log 813')
    expect(stderr).toContain('/tasks/813#L396')
    expect(peer.asked(LOG)[0]?.query.get('step')).toBe('build:web')
  })

  it('failed, with a log as plain text', async () => {
    const { peer, env } = await installation({ json: failedTask() })
    peer.script(LOG, { text: 'one\n\ntwo\n', headers: { 'content-type': 'text/plain' } })
    const { code, stderr } = await berth([...ARGS, '--wait'], { env })
    expect(code).toBe(3)
    expect(stderr).toContain('   │ one\n   │ \n   │ two\n')
  })

  it('failed, and nothing more can be read: still 3, with the reason', async () => {
    const { peer, env } = await installation({ json: failedTask() })
    peer.script(LOG, problem('log_expired', 'The log is past its retention.'))
    peer.script('GET /api/environments/101', problem('internal_error', 'Internal error'))
    const { code, stderr } = await berth([...ARGS, '--wait'], { env })
    expect(code).toBe(3)
    expect(stderr).toContain('(its output could not be read: The log is past its retention.)')
    expect(stderr).toContain('`RUN npm run build` exited with 1.')
    expect(stderr).not.toContain('keeps running')
  })

  it('canceled: 3, with the reason; superseded names the other task', async () => {
    const superseded = task('canceled', { cancel_reason: 'superseded', superseded_by: 815 })
    const first = await installation({ json: superseded })
    const ended = await berth([...ARGS, '--wait'], { env: first.env })
    expect(ended.code).toBe(3)
    expect(ended.stderr).toContain('task 813 canceled: superseded by task 815')
    expect(ended.stderr).toContain('Follow task 815 with:  berth deploy -p shop -e pr-42 --attach')
    const byAda = task('canceled', { cancel_reason: 'user', canceled_by: 'Ada' })
    const second = await installation({ json: byAda })
    const other = await berth([...ARGS, '--wait'], { env: second.env })
    expect(other.code).toBe(3)
    expect(other.stderr).toContain('task 813 canceled: canceled by Ada')
  })

  it('--timeout: 7, and the deployment goes on', async () => {
    const { peer, env } = await installation({ json: task('running') })
    const { code, stdout, stderr } = await berth([...ARGS, '--wait', '--timeout', '200ms'], { env })
    expect(code).toBe(7)
    expect(stdout).toBe('')
    expect(stderr).toContain(
      'the deployment continues; resume: berth deploy -p shop -e pr-42 --attach',
    )
    expect(peer.asked('POST /api/tasks/813/cancel')).toEqual([])
  })

  it('Ctrl-C: 130 at once, nothing is canceled', async () => {
    const { peer, env } = await installation({ json: task('running') })
    const running = startBerth([...ARGS, '--wait'], { env })
    await running.shows(/checkout {2}succeeded/)
    running.interrupt()
    const { code, stderr } = await running.ended
    expect(code).toBe(130)
    expect(stderr).toContain('the deployment continues; resume: berth deploy')
    expect(peer.asked('POST /api/tasks/813/cancel')).toEqual([])
  })

  it('a cut connection and a restarted control plane do not change the verdict', async () => {
    const { peer, env } = await installation({ json: task('running') })
    const running = startBerth([...ARGS, '--wait'], { env })
    await running.shows(/checkout {2}succeeded/)
    await peer.stop()
    await running.shows(/no contact with .*; trying again/)
    peer.script(
      TASK,
      problem('unavailable', 'Starting.'),
      { text: '<html>' },
      { json: failedTask() },
    )
    peer.script(LOG, { text: '', headers: ndjson })
    await peer.start()
    const { code, stderr } = await running.ended
    expect(code).toBe(3)
    expect(stderr).toContain('contact again')
  })

  it('the token expires half-way: 4, and the deployment may continue', async () => {
    const expired = problem('token_expired', 'The token has expired.')
    const { env } = await installation({ json: task('running') }, expired)
    const { code, stderr } = await berth([...ARGS, '--wait'], { env })
    expect(code).toBe(4)
    expect(stderr).toContain('the deployment may continue')
  })

  it('--json prints the final task as the API gave it, failed or not', async () => {
    const raw = { ...failedTask(), novelty: true }
    const { peer, env } = await installation({ json: raw })
    peer.script(LOG, { text: '' })
    const { code, stdout } = await berth([...ARGS, '--wait', '--json'], { env })
    expect(code).toBe(3)
    expect(JSON.parse(stdout)).toEqual(raw)
    const started = await berth([...ARGS, '--json'], { env })
    expect(JSON.parse(started.stdout)).toEqual(created.json)
  })

  it('--quiet says nothing but the failure', async () => {
    const { env } = await installation({ json: task('running') }, { json: task('succeeded') })
    const { code, stderr } = await berth([...ARGS, '--wait', '-q'], { env })
    expect([code, stderr]).toEqual([0, ''])
  })

  it('--log shows the raw log, resumed where it broke; the verdict is the task', async () => {
    const { peer, env } = await installation({ json: task('running') })
    peer.script(
      LOG,
      (_, res) => {
        res.writeHead(200, ndjson)
        res.write(`${logLine(1, 'one')}\n`, () => res.destroy())
      },
      {
        text: `${logLine(2, 'two\u001b]52;c;eA==\u0007')}\n`,
        headers: ndjson,
        before: () => peer.script(TASK, { json: failedTask({ log_lines: 2 }) }),
      },
      { text: '', headers: ndjson },
    )
    const { code, stdout } = await berth([...ARGS, '--wait', '--log'], { env })
    expect(code).toBe(3)
    expect(stdout).toBe('one\ntwo\n')
  })
})

describe('--attach', () => {
  const LIST = 'GET /api/environments/101/tasks'

  it('waits for the deployment that is going on and starts nothing', async () => {
    const { peer, env } = await installation({ json: task('succeeded') })
    peer.script(LIST, { json: [task('running')] })
    expect((await berth([...ARGS, '--attach'], { env })).code).toBe(0)
    expect(peer.asked(LIST)[0]?.query.getAll('status')).toEqual(['queued', 'running'])
    expect(peer.asked(POST)).toEqual([])
  })

  it('reports the last one when none is going on', async () => {
    const { peer, env } = await installation({ json: failedTask() })
    peer.script(LIST, { json: [] }, { json: [failedTask({ phases: undefined })] })
    peer.script(LOG, { text: '' })
    expect((await berth([...ARGS, '--attach'], { env })).code).toBe(3)
  })

  it('never deployed: 5', async () => {
    const { peer, env } = await installation()
    peer.script(LIST, { json: [] })
    const { code, stderr } = await berth([...ARGS, '--attach'], { env })
    expect(code).toBe(5)
    expect(stderr).toContain('pr-42 was never deployed')
  })
})

describe('in CI', () => {
  it('GitHub Actions: phases are groups that are closed again', async () => {
    const { env } = await installation(
      { json: task('running', { phases: [phase('checkout', 'running')] }) },
      { json: task('succeeded') },
    )
    const github = { ...env, CI: 'true', GITHUB_ACTIONS: 'true' }
    const { stderr } = await berth([...ARGS, '--wait'], { env: github })
    expect(stderr).toMatch(
      /::group::Check out\n.*checkout {2}started\n.*checkout {2}succeeded 1\.8s\n::endgroup::\n/,
    )
  })

  it('GitLab: sections only where escape sequences are allowed', async () => {
    const states = [{ json: task('succeeded') }] as const
    const { env } = await installation(...states)
    const gitlab = { ...env, CI: 'true', GITLAB_CI: 'true' }
    expect((await berth([...ARGS, '--wait'], { env: gitlab })).stderr).not.toContain('\u001b')
    const coloured = await berth([...ARGS, '--wait'], { env: { ...gitlab, FORCE_COLOR: '1' } })
    expect(coloured.stderr).toMatch(
      /section_start:\d+:berth_checkout\r.*section_end:\d+:berth_checkout\r/s,
    )
  })
})

it('an environment by id needs no project', async () => {
  const { peer, env } = await installation()
  peer.script('GET /api/environments/101', { json: environment() })
  expect((await berth(['deploy', '-e', 'id:101'], { env })).code).toBe(0)
  expect(peer.asked('GET /api/projects')).toEqual([])
})
