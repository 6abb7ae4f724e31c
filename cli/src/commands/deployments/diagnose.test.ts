import { Diagnostics } from '@berth/shared/api'
import { describe, expect, it } from 'vitest'
import { berth, berthInTerminal, controlCharacters } from '../../testing/berth.ts'
import { startInstallation } from '../../testing/installation.ts'
import { problem } from '../../testing/peer.ts'
import { buildFailure, failedTask, SHA } from '../../testing/samples.ts'

const PATH = 'GET /api/environments/101/diagnostics'
const ASK = ['diagnose', '-p', 'shop', '-e', 'pr-42']

const diagnostics = (more: object = {}): Diagnostics =>
  Diagnostics.parse({
    environment_id: 101,
    status: 'failed',
    task: {
      id: 809,
      status: 'failed',
      commit_sha: SHA,
      branch: 'checkout-v2',
      trigger: 'webhook',
      finished_at: '2026-11-15T09:13:48Z',
      url: 'https://deploy.example.com/tasks/809',
    },
    failure: buildFailure,
    output: 'src/cart.ts(14,7): error TS2322: no',
    output_first_line: 380,
    output_last_line: 412,
    output_truncated: false,
    output_complete: true,
    hints: [
      { code: 'compile_error', message: 'The TypeScript build failed in src/cart.ts:14: no' },
      { code: 'commit_changed', message: 'The commit is another.' },
    ],
    since_last_success: {
      task_id: 801,
      commit_sha: 'a51241a'.padEnd(40, '0'),
      service_file_changed: false,
      variable_keys_changed: ['APP_KEY'],
    },
    log_url: 'https://deploy.example.com/api/tasks/809/log',
    web_url: 'https://deploy.example.com/tasks/809#L396',
    superseded_by: null,
    ...more,
  })

const none = diagnostics({
  status: 'none',
  task: null,
  failure: null,
  output: null,
  output_first_line: null,
  output_last_line: null,
  hints: [],
  since_last_success: null,
  log_url: null,
  web_url: null,
})

async function ask(answer: Diagnostics, words: string[] = []) {
  const { peer, env } = await startInstallation({ NO_COLOR: '1' })
  peer.script(PATH, { json: answer })
  peer.script('GET /api/tasks/809', {
    json: failedTask({ id: 809, trigger: 'webhook', commit_message: 'Add coupon field\n\nwhy' }),
  })
  return { peer, ...(await berth([...ASK, ...words], { env })) }
}

describe('berth diagnose', () => {
  it('tells the failed step, its own output, what is known about it and what changed', async () => {
    const { code, stdout, stderr, peer } = await ask(diagnostics())
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout.split('\n')).toEqual([
      expect.stringMatching(/^✗ Task 809 failed .* in build \/ Build image web \(exit code 1\)$/),
      '  c136499 "Add coupon field" by Ada Lovelace, push',
      '  src/cart.ts(14,7): error TS2322: no',
      '  → The TypeScript build failed in src/cart.ts:14: no',
      '  Changed since the last success (801, a51241a): commits, variable APP_KEY; .service.yml is the same',
      '',
    ])
    expect(peer.asked(PATH)[0]?.query.get('lines')).toBe('200')
  })

  it('says that a later deployment succeeded', async () => {
    const superseded_by = { id: 813, status: 'succeeded' }
    const { stdout } = await ask(diagnostics({ status: 'recovered', superseded_by }))
    expect(stdout).toContain('  A later deployment (813) succeeded, so this is history.\n')
  })

  it('names a platform check and says its message', async () => {
    const failure = {
      ...buildFailure,
      code: 'config_invalid',
      phase: 'configure',
      step: 'read-config',
      step_title: 'Read .service.yml',
      exit_code: null,
      is_platform_check: true,
    }
    const output = ".service.yml:6:7 unknown key 'domian'; did you mean 'domain'?"
    const { stdout } = await ask(
      diagnostics({ failure, output, since_last_success: null, hints: [] }),
    )
    expect(stdout).toMatch(/ in configure \/ Read \.service\.yml \(platform check\)\n/)
    expect(stdout).toContain(`  ${output}\n`)
    expect(stdout).not.toContain('Changed since')
  })

  it.each([
    [
      { commit_sha: SHA, variable_keys_changed: [] },
      'Nothing changed since the last success (801, c136499); .service.yml is the same',
    ],
    [{ service_file_changed: null }, 'commits, variable APP_KEY; .service.yml was not read'],
    [
      { service_file_changed: true, variable_keys_changed: ['A', 'B'] },
      'commits, variables A, B, .service.yml',
    ],
  ])('tells what changed: %o', async (more, line) => {
    const since = { ...diagnostics().since_last_success, ...more }
    expect((await ask(diagnostics({ since_last_success: since }))).stdout).toContain(`${line}\n`)
  })

  it('says that some of the output has not arrived yet', async () => {
    const { stdout } = await ask(diagnostics({ output_complete: false }))
    expect(stdout).toContain('has not arrived yet; ask again')
  })

  it('nothing failed: says so, exit 0', async () => {
    const { code, stdout } = await ask(none)
    expect([code, stdout]).toEqual([0, 'No deployment of pr-42 has failed.\n'])
  })

  it('prints the object as it came with --json', async () => {
    const { stdout } = await ask(diagnostics(), ['--json'])
    expect(JSON.parse(stdout)).toEqual(diagnostics())
  })

  it('asks for as many lines as wanted, and refuses more than there can be', async () => {
    const { peer } = await ask(diagnostics({ output_truncated: true }), ['--lines', '50'])
    expect(peer.asked(PATH)[0]?.query.get('lines')).toBe('50')
    expect((await ask(none, ['--lines', '2001'])).code).toBe(2)
  })

  it('answers without the task, which is only needed for a line', async () => {
    const { peer, env } = await startInstallation({ NO_COLOR: '1' })
    peer.script(PATH, { json: diagnostics() })
    peer.script('GET /api/tasks/809', problem('not_found', 'gone'))
    const { code, stdout } = await berth(ASK, { env })
    expect(code).toBe(0)
    expect(stdout).toContain('✗ Task 809 failed')
  })

  it('lets no output of a deployment steer the terminal', async () => {
    const { peer, env } = await startInstallation({ NO_COLOR: '1' })
    peer.script(PATH, { json: diagnostics({ output: 'a\u001b]0;owned\u0007b\u001b[2Jc' }) })
    peer.script('GET /api/tasks/809', { json: failedTask({ id: 809 }) })
    const { stdout } = await berthInTerminal(ASK, { env })
    expect(controlCharacters(stdout)).toEqual([])
  })
})
