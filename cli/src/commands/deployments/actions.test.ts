import { describe, expect, it } from 'vitest'
import { run as runProgram } from '../../program/invoke.ts'
import {
  berthInTerminal,
  controlCharacters,
  startBerth,
  startInTerminal,
} from '../../testing/berth.ts'
import { type Installation, startInstallation } from '../../testing/installation.ts'
import { testIo } from '../../testing/io.ts'
import { problem, type Scripted } from '../../testing/peer.ts'
import {
  action,
  logLine,
  logRecord,
  phase,
  SHA,
  scheduledRun,
  step,
  task,
} from '../../testing/samples.ts'

const LIST = 'GET /api/environments/101/actions'
const RUNS = 'GET /api/environments/101/tasks'
const POST = 'POST /api/environments/101/actions/seed/tasks'
const TASK = 'GET /api/tasks/830'
const LOG = 'GET /api/tasks/830/log'
const WHERE = ['-p', 'shop', '-e', 'pr-42']
const RUN = ['actions', 'run', 'seed', ...WHERE]
const ndjson = { 'content-type': 'application/x-ndjson' }
const ESC = '\u001b'
const HOSTILE = `${ESC}]52;c;ZXZpbA==\u0007${ESC}]0;title\u0007${ESC}[2J\u009b31m`

/** Behind pipes, in this process; tests that need a terminal or a signal start a separate process. */
async function berth(args: string[], { env }: Pick<Installation, 'env'>) {
  const io = testIo({ env })
  const code = await runProgram(args, io)
  return { code, stdout: io.stdout.text, stderr: io.stderr.text }
}

const run = (status: string, more: object = {}) =>
  task(status, {
    id: 830,
    type: 'action',
    action: 'seed',
    log_lines: 2,
    phases: [phase('run', status === 'queued' ? 'pending' : status)],
    ...more,
  })

const ACTIONS = [
  action('seed', { title: 'Load demo data' }),
  action('export-orders', {
    title: 'Export orders',
    artifact_paths: ['exports/*.csv', 'exports/*.json'],
  }),
  action('legacy-export', { enabled: false, disabled_reason: "uses 'result: file'" }),
]

async function installation(...states: Scripted[]): Promise<Installation> {
  const it = await startInstallation()
  it.peer.script(LIST, { json: ACTIONS })
  it.peer.script(RUNS, { json: [run('failed', { action: 'export-orders' }), run('succeeded')] })
  it.peer.script(POST, { status: 201, json: run('queued') })
  it.peer.script(TASK, ...states)
  const said = [
    logRecord(1, '$ npm run seed\n').replace('"out"', '"system"'),
    logLine(2, '200 orders'),
  ]
  it.peer.script(LOG, { text: `${said.join('\n')}\n`, headers: ndjson })
  return it
}

const bodies = (it: Installation, route = POST) =>
  it.peer.asked(route).map((one) => JSON.parse(one.body || '{}'))

describe('the list', () => {
  it('a pipe: tab-separated, every column, ISO times', async () => {
    const { peer, env } = await installation()
    for (const words of [['actions'], ['action'], ['actions', 'list']]) {
      const { code, stdout, stderr } = await berth([...words, ...WHERE], { env })
      expect([code, stderr]).toEqual([0, ''])
      expect(stdout).toBe(
        'seed\tLoad demo data\t-\t2026-11-15T09:13:48Z\tsucceeded\tenabled\t-\t-\t-\t-\t-\n' +
          'export-orders\tExport orders\texports/*.csv,exports/*.json\t2026-11-15T09:13:48Z' +
          '\tfailed\tenabled\t-\t-\t-\t-\t-\n' +
          "legacy-export\tlegacy-export\t-\t-\t-\tdisabled\tuses 'result: file'\t-\t-\t-\t-\n",
      )
    }
    expect(peer.asked(RUNS)[0]?.query.get('type')).toBe('action')
  })

  it('--json is the answer unchanged, and nothing else is asked', async () => {
    const { peer, env } = await installation()
    const { code, stdout } = await berth(['actions', ...WHERE, '--json'], { env })
    expect([code, JSON.parse(stdout)]).toEqual([0, JSON.parse(JSON.stringify(ACTIONS))])
    expect(peer.asked(RUNS)).toEqual([])
  })

  it('shows schedules: when the next run is, or why there is none', async () => {
    const { peer, env } = await installation()
    const later = new Date(Date.now() + 5 * 3_600_000 + 60_000)
    const next = `${later.toISOString().slice(0, 19)}Z`
    const daily = { cron: '0 3 * * *', timezone: 'UTC', paused_reason: null, last_run: null }
    const paused = { ...daily, timezone: 'Europe/Berlin', next_run_at: null }
    peer.script(LIST, {
      json: [
        action('seed', { schedule: { ...daily, next_run_at: next } }),
        action('sync', { schedule: { ...paused, paused_reason: `pr-42 is stopped.${HOSTILE}` } }),
        action('wipe'),
      ],
    })
    const piped = await berth(['actions', ...WHERE], { env })
    expect(piped.stdout.split('\n').map((line) => line.split('\t').slice(7))).toEqual([
      ['0 3 * * *', 'UTC', next, '-'],
      ['0 3 * * *', 'Europe/Berlin', '-', expect.stringContaining('pr-42 is stopped.')],
      ['-', '-', '-', '-'],
      [],
    ])
    const shown = await berthInTerminal(['actions', ...WHERE], { env: { ...env, NO_COLOR: '1' } })
    const lines = shown.stdout.split('\r\n')
    expect(lines[0]).toMatch(/^NAME +TITLE +SCHEDULE +NEXT +ARTIFACTS +LAST$/)
    expect(lines[1]).toMatch(/^seed +- +0 3 \* \* \* +in 5 h +- /)
    expect(lines[2]).toMatch(/^sync +- +0 3 \* \* \* Europe\/Berlin +paused +- /)
    expect(shown.stdout).toContain('The schedule of sync is paused: pr-42 is stopped.')
    expect(controlCharacters(shown.stdout)).toEqual([])
  })

  it('shows what became of scheduled runs', async () => {
    const { peer, env } = await installation()
    const missed = { outcome: 'missed', reason: 'fra-1 is offline.', task_id: null, runs: 3 }
    peer.script('GET /api/environments/101/actions/seed/runs', {
      json: [
        scheduledRun({ ...missed, task_status: null, last_due_at: '2026-11-18T09:12:30Z' }),
        scheduledRun({ task_status: 'failed' }),
      ],
    })
    peer.script('GET /api/environments/101/actions/wipe/runs', { json: [] })
    const args = ['actions', 'history', 'seed', ...WHERE]
    const { stdout } = await berthInTerminal(args, { env: { ...env, NO_COLOR: '1' } })
    expect(stdout).toMatch(/Z to 2026-11-18T09:12:30Z +missed +3 +- +fra-1 is offline\./)
    expect(stdout).toMatch(/Z +✗ failed +1 +830 +-/)
    const unknown = await berth(['actions', 'history', 'wipe', ...WHERE], { env })
    expect([unknown.code, unknown.stderr]).toEqual([5, expect.stringContaining("no action 'wipe'")])
  })

  it('a terminal: a table; a reason does not push the other rows apart', async () => {
    const { peer, env } = await installation()
    const reason = `uses 'result: file'; declare artifacts.paths${HOSTILE}`
    const never = action('never', { title: `Never${HOSTILE}` })
    const legacy = action('legacy', { enabled: false, disabled_reason: reason })
    peer.script(LIST, { json: [...ACTIONS.slice(0, 2), never, legacy] })
    const { code, stdout } = await berthInTerminal(['actions', ...WHERE], {
      env: { ...env, NO_COLOR: '1' },
    })
    expect(code).toBe(0)
    const lines = stdout.split('\r\n')
    expect(lines[0]).toMatch(/^NAME {12}TITLE {12}ARTIFACTS {10}LAST$/)
    expect(lines[1]).toMatch(/^seed {12}Load demo data {3}- {18}\S.* ✓$/)
    expect(lines[2]).toMatch(
      /^export-orders {3}Export orders {4}exports\/\*\.csv, … {3}\S.* ✗ failed$/,
    )
    expect(lines[3]).toMatch(/^never {11}Never {12}- {18}never$/)
    expect(lines[4]).toMatch(/^legacy {10}- {16}disabled: uses 'result: file'; declare artifacts/)
    expect(controlCharacters(stdout)).toEqual([])
  })

  it('no actions: said to people, nothing in a pipe', async () => {
    const { peer, env } = await installation()
    peer.script(LIST, { json: [] })
    const seen = await berthInTerminal(['actions', ...WHERE, '--no-color'], { env })
    expect(seen.stdout).toContain("shop / pr-42 has no actions. They are declared under 'actions'")
    expect(await berth(['actions', ...WHERE], { env })).toEqual({ code: 0, stdout: '', stderr: '' })
  })
})

describe('starting', () => {
  it('says so after 201 with a task, and exits 0 at once', async () => {
    const it = await installation()
    const { code, stdout, stderr } = await berth([...RUN, '--message', 'by hand'], it)
    expect(code).toBe(0)
    expect(stdout).toBe(`830\tqueued\tshop\tpr-42\t${SHA}\t-\n`)
    expect(stderr).toContain('Task 830  shop / pr-42  seed on checkout-v2 @ c136499')
    expect(stderr).toContain('Started, queued. Watch it with: berth tasks log 830 -f\n')
    expect(bodies(it)).toEqual([{ message: 'by hand' }])
    expect(it.peer.asked(POST)[0]?.headers['idempotency-key']).toMatch(/^[0-9a-f-]{36}$/)
  })

  it('--json is the task', async () => {
    const { env } = await installation()
    const { code, stdout } = await berth([...RUN, '--json'], { env })
    expect([code, JSON.parse(stdout).id]).toEqual([0, 830])
  })

  it.each([
    ['200 with a task', { status: 200, json: run('queued') }],
    ['a deployment', { status: 201, json: task('queued') }],
    ['a task of another environment', { status: 201, json: run('queued', { environment_id: 5 }) }],
    ['nothing', { status: 201, text: '' }],
  ])('%s is never "started": 1', async (_, reply) => {
    const { peer, env } = await installation({ json: run('succeeded') })
    peer.script(POST, reply)
    const { code, stdout, stderr } = await berth([...RUN, '--wait'], { env })
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(/^error: .*it is not known whether the action was started\n/)
    expect(stderr).toContain('hint:  berth tasks -p shop -e pr-42 --type action shows it')
  })
})

describe('an action that asks first', () => {
  const asks = problem('confirmation_required', 'seed asks first: Delete all orders? …', {
    confirm: `Delete all orders?${HOSTILE}`,
  })
  async function asking(): Promise<Installation> {
    const it = await installation()
    it.peer.script(POST, asks, { status: 201, json: run('queued') })
    return it
  }

  it('without a terminal: 2, naming --yes, nothing started', async () => {
    const it = await asking()
    const { code, stdout, stderr } = await berth(RUN, it)
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toBe(
      'error: seed asks first: Delete all orders? Nothing was started\nhint:  add --yes\n',
    )
    expect(bodies(it)).toEqual([{}])
  })

  it('--yes sends the confirmation with the first request', async () => {
    const it = await installation()
    expect((await berth([...RUN, '--yes'], it)).code).toBe(0)
    expect(bodies(it)).toEqual([{ confirm: true }])
  })

  it('a terminal shows the question; yes starts it, under another key', async () => {
    const it = await asking()
    const running = startInTerminal([...RUN, '--no-color'], it)
    await running.shows(/Delete all orders\? \[y\/N\] /)
    running.type('y\r')
    const { code, stdout } = await running.ended
    expect(code).toBe(0)
    expect(stdout).toContain('Task 830  shop / pr-42')
    expect(controlCharacters(stdout)).toEqual([])
    expect(bodies(it)).toEqual([{}, { confirm: true }])
    const keys = it.peer.asked(POST).map((one) => one.headers['idempotency-key'])
    expect(new Set(keys).size).toBe(2)
  })

  it.each([
    ['n', 'n\r', 6],
    ['only Enter', '\r', 6],
    ['the end of input', '\u0004', 6],
    ['Ctrl-C', '\u0003', 130],
  ])('%s starts nothing: %s', async (_, typed, exitCode) => {
    const it = await asking()
    const running = startInTerminal(RUN, it)
    await running.shows(/\[y\/N\] /)
    running.type(typed)
    const { code, stdout } = await running.ended
    expect(code).toBe(exitCode)
    expect(stdout).not.toContain('Task 830')
    expect(bodies(it)).toEqual([{}])
  })

  it.each([['--no-input'], ['--json']])('%s asks nothing on a terminal: 2', async (flag) => {
    const it = await asking()
    const { code, stdout } = await berthInTerminal([...RUN, flag], it)
    expect(code).toBe(2)
    expect(stdout).not.toContain('[y/N]')
  })
})

describe('refusals', () => {
  it.each([
    ['not_deployed', {}, 'error: Because.\nhint:  berth deploy -p shop -e pr-42 --wait\n'],
    ['action_disabled', {}, 'error: seed is disabled: Because.\n'],
    [
      'too_many_tasks',
      { limit: 5 },
      'error: Because.\nhint:  berth tasks -p shop -e pr-42 --type action lists them; berth tasks cancel ID\n',
    ],
    [
      'deployment_in_progress',
      { task_id: 812, task_status: 'running', trigger: 'webhook', started_at: null },
      'error: a deployment is already running (task 812, started by a push)\n' +
        'hint:  wait for it with  berth deploy -p shop -e pr-42 --attach     ' +
        'or stop it with  berth tasks cancel 812\n',
    ],
    [
      'environment_protected',
      { owner: { id: 8, name: 'Grace Hopper' } },
      'error: pr-42 is protected; only its owner (Grace Hopper) can run it\n',
    ],
  ] as const)('%s: 6', async (reason, more, expected) => {
    const { peer, env } = await installation()
    peer.script(POST, problem(reason, 'Because.', more))
    const { code, stdout, stderr } = await berth([...RUN, '--wait'], { env })
    expect([code, stdout, stderr]).toEqual([6, '', expected])
  })

  it('an unknown action: 5, with the nearest name', async () => {
    const { env } = await installation()
    const { code, stderr } = await berth(['actions', 'run', 'sede', ...WHERE], { env })
    expect([code, stderr]).toEqual([
      5,
      "error: no action 'sede' in shop / pr-42\nhint:  did you mean seed?\n",
    ])
  })

  it('an environment without actions: 5, in the words of the server', async () => {
    const { peer, env } = await installation()
    peer.script(LIST, { json: [] })
    peer.script(POST, problem('not_found', 'pr-42 has no actions.'))
    const { code, stderr } = await berth(RUN, { env })
    expect([code, stderr]).toEqual([5, 'error: pr-42 has no actions.\n'])
  })

  it.each(['..', '.', 'a/b', 'Seed', ''])(
    '%j is no name of an action and no path: 5',
    async (name) => {
      const { peer, env } = await installation()
      const { code } = await berth(['actions', 'run', name, ...WHERE, '--yes'], { env })
      expect(code).toBe(5)
      expect(peer.requests.filter((one) => one.method === 'POST')).toEqual([])
    },
  )

  it.each([
    [['actions', 'run', ...WHERE], 'missing: <name>'],
    [[...RUN, '--timeout', '5m'], '--timeout needs --wait'],
    [[...RUN, '--downlaod', 'x'], "unknown option '--downlaod'"],
    [['actions', 'rnu'], 'did you mean run?'],
  ])('%j is a usage error: 2', async (args, message) => {
    const { env } = await installation()
    const { code, stderr } = await berth(args, { env })
    expect(code).toBe(2)
    expect(stderr).toContain(message)
  })
})

describe('waiting', () => {
  it('succeeded: 0; stdout is what the action wrote, and only that', async () => {
    const { env } = await installation({ json: run('running') }, { json: run('succeeded') })
    const { code, stdout, stderr } = await berth([...RUN, '--wait'], { env })
    expect([code, stdout]).toEqual([0, '200 orders\n'])
    expect(
      stderr
        .trimEnd()
        .split('\n')
        .map((line) => line.slice(9)),
    ).toEqual([
      'task 830 queued  shop/pr-42 seed c136499',
      'run  started',
      'run  succeeded 1.8s',
      'task 830 succeeded 1m18s',
    ])
  })

  it('--json: the final task on stdout, the output on stderr', async () => {
    const { env } = await installation({ json: run('succeeded') })
    const { code, stdout, stderr } = await berth([...RUN, '--wait', '--json'], { env })
    expect([code, JSON.parse(stdout).status]).toEqual([0, 'succeeded'])
    expect(stderr).toContain('\n200 orders\n')
  })

  it('an output that cannot be read does not change the verdict', async () => {
    const { peer, env } = await installation({ json: run('succeeded') })
    peer.script(LOG, problem('log_expired', 'The log is gone.'))
    const { code, stderr } = await berth([...RUN, '--wait'], { env })
    expect(code).toBe(0)
    expect(stderr).toContain('its output could not be read: The log is gone. (berth tasks log 830)')
  })

  const failure = {
    code: 'step_failed',
    phase: 'run',
    step: 'command',
    step_title: 'Load demo data',
    message: '`npm run seed` exited with 3.',
    exit_code: 3,
    line: 2,
    is_platform_check: false,
  }
  const failed = run('failed', {
    failure,
    phases: [phase('run', 'failed', { steps: [step('command', 'failed', { exit_code: 3 })] })],
  })

  it('failed: 3, with its last lines; canceled: 3', async () => {
    const { env } = await installation({ json: failed })
    const { code, stdout, stderr } = await berth([...RUN, '--wait'], { env })
    expect([code, stdout]).toEqual([3, ''])
    expect(stderr).toContain('task 830 failed 1m18s in "Load demo data" (exit code 3)')
    expect(stderr).toContain('2 │ 200 orders')
    expect(stderr).toContain('Full log:   berth tasks log 830')
    expect(stderr).not.toContain('version deployed before')
    const other = await installation({ json: run('canceled', { cancel_reason: 'user' }) })
    expect((await berth([...RUN, '--wait'], other)).code).toBe(3)
  })

  it('--timeout: 7, and the action goes on', async () => {
    const { peer, env } = await installation({ json: run('running') })
    const { code, stderr } = await berth([...RUN, '--wait', '--timeout', '200ms'], { env })
    expect(code).toBe(7)
    expect(stderr).toContain('the action continues; resume: berth tasks log 830 -f')
    expect(peer.asked('POST /api/tasks/830/cancel')).toEqual([])
  })

  it('Ctrl-C: 130 at once, nothing is canceled', async () => {
    const { peer, env } = await installation({ json: run('running') })
    const running = startBerth([...RUN, '--wait'], { env })
    await running.shows(/run {2}started/)
    running.interrupt()
    const { code, stderr } = await running.ended
    expect(code).toBe(130)
    expect(stderr).toContain('the action continues; resume: berth tasks log 830 -f')
    expect(peer.asked('POST /api/tasks/830/cancel')).toEqual([])
  })

  it('--log shows the raw log as it comes', async () => {
    const { env } = await installation({ json: run('succeeded') })
    const { code, stdout } = await berth([...RUN, '--wait', '--log'], { env })
    expect([code, stdout]).toEqual([0, '$ npm run seed\n200 orders\n'])
  })

  it('on a terminal: phases live, then the output and the result', async () => {
    const { peer, env } = await installation({ json: run('running') })
    peer.script(LOG, { text: `${logLine(1, `200 ${HOSTILE}orders`)}\n`, headers: ndjson })
    const running = startInTerminal([...RUN, '--wait'], { env })
    await running.shows(/Run/)
    peer.script(TASK, { json: run('succeeded', { log_lines: 1 }) })
    const { code, stdout } = await running.ended
    expect(code).toBe(0)
    const text = stdout.replace(new RegExp(`${ESC}\\[[0-9;]*m|${ESC}\\[\\d+A\r${ESC}\\[J`, 'g'), '')
    expect(text).toContain('200 orders\r\n✓ Run 1.8s\r\n✓ seed finished in 1m18s\r\n')
    expect(controlCharacters(text)).toEqual([])
  })

  it.each([
    ['NO_COLOR', { NO_COLOR: '1' }],
    ['CI=true', { CI: 'true' }],
  ])('%s on a terminal: no escape byte', async (_, more) => {
    const { peer, env } = await installation({ json: run('running') }, { json: run('succeeded') })
    const text = `${logLine(2, `${HOSTILE}${ESC}[31mred`)}\n`
    peer.script(LOG, { text, headers: ndjson })
    const { code, stdout } = await berthInTerminal([...RUN, '--wait'], { env: { ...env, ...more } })
    expect(code).toBe(0)
    expect(stdout).toContain('red')
    expect(controlCharacters(stdout)).toEqual([])
  })
})
