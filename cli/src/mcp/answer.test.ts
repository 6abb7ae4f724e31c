// Limits and cleaning of what a model receives, and plans; pure functions, tested as tables.

import { describe, expect, test } from 'vitest'
import { ApiFailure } from '../client/problem.ts'
import { MCP } from '../limits/client.ts'
import { CliError, EXIT } from '../terminal/exit.ts'
import { environment, project, task } from '../testing/samples.ts'
import {
  boundStructured,
  cleanOutput,
  fence,
  jsonSize,
  oneLine,
  toResult,
  UNTRUSTED,
  withOutput,
} from './answer.ts'
import { planDeployment, presentTask, progressOf } from './deploy.ts'
import { boundDiagnostics } from './diagnostics.ts'
import { changedParts, hashPlan } from './plan.ts'
import { explain, sentence } from './refusal.ts'
import { inputOf, instructionsOf, toolsFor } from './server.ts'
import { createTargets, matchOne } from './targets.ts'
import { planChange, wrongKeys } from './variables.ts'

const target = { project: project(), environment: environment() }
const variable = (key: string, more: object = {}) => ({
  level: 'environment' as const,
  shadows: [],
  key,
  updated_at: '2026-11-15T09:20:00Z',
  updated_by: { id: 7, name: 'Ada' },
  changed_since_deployment: false,
  ...more,
})

describe('answers', () => {
  test('lines are cleaned and cut, and what nobody sees is gone', () => {
    expect(cleanOutput('\u001b[31mred\u001b[0m\ra\u200bb\u{e0041}\n')).toEqual(['ab', ''])
    expect(cleanOutput('x'.repeat(2_000))[0]).toHaveLength(MCP.lineChars)
    expect(oneLine('a\nb\u001b]0;title\u0007c')).toBe('a bc')
  })

  test('a fence is longer than any in the output', () => {
    expect(fence(['plain'])).toBe('```text\nplain\n```')
    expect(fence(['```', '`````'])).toBe('``````text\n```\n`````\n``````')
  })

  test('the end of an output stays, its beginning gives way', () => {
    const lines = Array.from({ length: 400 }, (_, i) => `${i} ${'y'.repeat(100)}`)
    const text = withOutput('# head', lines, (shown) => `${shown} lines`, 'foot')
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(MCP.textBytes)
    expect(text).toContain('\n399 yy')
    expect(text).not.toContain('\n0 yy')
    expect(withOutput('# head', [], () => 'none', 'foot')).toBe('# head\nfoot')
  })

  test('whatever it is, text and data stay within their bounds', () => {
    const keys = Array.from({ length: 200 }, (_, i) => `K${i}_${'A'.repeat(120)}`)
    const result = toResult({ text: 'ü'.repeat(20_000), structured: { keys, set: keys, id: 7 } })
    expect(Buffer.byteLength(result.content[0]?.text ?? '')).toBeLessThanOrEqual(MCP.textBytes)
    expect(jsonSize(result.structuredContent)).toBeLessThanOrEqual(MCP.structuredBytes)
    expect(result.structuredContent).toMatchObject({ truncated: true, id: 7 })
    expect(keys).toHaveLength(200)
    const long = boundStructured({ a: { b: 'z'.repeat(100_000) }, url: 'https://example.com' })
    expect(jsonSize(long)).toBeLessThanOrEqual(MCP.structuredBytes)
    expect(long.url).toBe('https://example.com')
  })

  test('diagnostics keep the last lines that fit, with their numbers', () => {
    const lines = Array.from({ length: 500 }, (_, i) => `${i + 1} ${'"'.repeat(200)}`)
    const found = boundDiagnostics(
      {
        environment_id: 101,
        status: 'failed',
        task: null,
        failure: null,
        output: lines.join('\n'),
        output_first_line: 1,
        output_last_line: 500,
        output_truncated: false,
        output_complete: true,
        hints: [],
        since_last_success: null,
        log_url: null,
        web_url: null,
        superseded_by: null,
      },
      MCP.linesMax,
    )
    expect(jsonSize(found)).toBeLessThanOrEqual(MCP.structuredBytes)
    const shown = found.output?.split('\n') ?? []
    expect(shown.at(-1)).toBe(lines.at(-1))
    expect(found.output_first_line).toBe(500 - shown.length + 1)
    expect(found.output_truncated).toBe(true)
  })
})

describe('tools', () => {
  test('every hint of every tool is explicit; writing ones are there only when allowed', () => {
    expect(toolsFor(false).map(({ name }) => name)).toEqual([
      'get_deploy_diagnostics',
      'list_variables',
    ])
    for (const { hints } of toolsFor(true)) {
      expect(Object.values(hints).map((hint) => typeof hint)).toEqual(Array(4).fill('boolean'))
    }
  })

  test('inputs are strict, and what the server is fixed to is none', () => {
    const [tool] = toolsFor(true)
    if (!tool) throw new Error('no tool')
    const names = (words: { project?: string; environment?: string }) =>
      Object.keys(
        inputOf(tool, createTargets({ project: undefined, environment: undefined, ...words }))
          .shape,
      )
    expect(names({})).toEqual(['project', 'environment', 'max_lines'])
    expect(names({ project: 'shop' })).toEqual(['environment', 'max_lines'])
    expect(names({ project: 'shop', environment: 'pr-42' })).toEqual(['max_lines'])
    expect(names({ environment: 'id:101' })).toEqual(['max_lines'])
    expect(() => names({ environment: 'pr-42' })).toThrow('-e needs the project')
    const free = inputOf(tool, { fixed: { project: false, environment: false } })
    const given = { project: 'shop', environment: 'pr-42' }
    expect(free.parse(given)).toEqual({ ...given, max_lines: 80 })
    expect(free.safeParse({ ...given, force: true }).success).toBe(false)
    expect(free.safeParse({ ...given, max_lines: 501 }).success).toBe(false)
  })

  test('instructions name the server and what is fixed', () => {
    expect(instructionsOf('https://deploy.example.com', 'project shop (id 12)')).toBe(
      'Deployments of the projects on https://deploy.example.com. Start with get_deploy_diagnostics when a ' +
        'deployment failed. Variable values can never be read. Every call is about project shop (id 12). ' +
        UNTRUSTED,
    )
    expect(instructionsOf(undefined, '')).toContain('not logged in yet')
  })

  test('a number that is a pull request and an id is asked about', () => {
    const known = [
      environment({ id: 5, identifier: 'pr-42' }),
      environment({ id: 42, identifier: 'main' }),
    ]
    expect(() => matchOne('42', known, 'shop', 'change')).toThrow('fits several environments')
    expect(matchOne('id:42', known, 'shop', 'change').identifier).toBe('main')
    expect(matchOne('5', known, 'shop', 'change').identifier).toBe('pr-42')
  })

  test('progress rises with the phases', () => {
    const phases = (...statuses: string[]) =>
      task('running', {
        phases: statuses.map((status, i) => ({
          name: `p${i}`,
          title: `P${i}`,
          status,
          started_at: null,
          duration_ms: null,
          steps: [],
        })),
      })
    expect(progressOf(phases('pending', 'pending'))).toMatchObject({ done: 0, total: 2 })
    expect(progressOf(phases('succeeded', 'running'))).toEqual({
      done: 1.5,
      total: 2,
      message: 'P1',
    })
    expect(progressOf(task('queued', { phases: [] })).message).toBe('queued')
    expect(presentTask(task('running', { commit_message: 'One\nTwo' })).commit_message).toBe(
      '<untrusted>One</untrusted>',
    )
  })
})

describe('refusals', () => {
  const server = (status: number, code: string, message: string, details: object = {}) =>
    new ApiFailure('refused', EXIT.error, message, { status, code, details: { ...details } })
  const CASES: [string, unknown, 'read' | 'start' | 'change', string, string][] = [
    [
      'nobody',
      new CliError(EXIT.notLoggedIn, 'not logged in'),
      'read',
      'not_logged_in',
      'Not logged in. Run: berth login.',
    ],
    [
      'ended',
      new CliError(EXIT.notLoggedIn, 'this login has ended'),
      'read',
      'not_logged_in',
      'Not logged in. Run: berth login (this login has ended)',
    ],
    [
      'unknown',
      new CliError(EXIT.notFound, "no project 'x'", 'projects: a, b'),
      'read',
      'not_found',
      "No project 'x'. Projects: a, b.",
    ],
    [
      'protected',
      server(403, 'environment_protected', '-', { owner: { id: 9, name: 'Grace Hopper' } }),
      'change',
      'environment_protected',
      'pr-42 is protected; only Grace Hopper can change it.',
    ],
    [
      'running',
      server(409, 'deployment_in_progress', '-', {
        task_id: 812,
        task_status: 'running',
        trigger: 'webhook',
      }),
      'start',
      'deployment_in_progress',
      'Not started: task 812 is already running (started by a push). Ask get_deploy_diagnostics for its state.',
    ],
    [
      'fields',
      server(422, 'validation_failed', '-', {
        title: 'The request is not valid',
        errors: [{ field: 'set.A', code: 'value_too_large', message: 'is too large' }],
      }),
      'change',
      'validation_failed',
      'The request is not valid.\n- set.A (value_too_large): is too large',
    ],
    [
      'fault',
      server(500, 'internal_error', 'Internal error (status 500, request req_1)', {
        request_id: 'req_1',
      }),
      'start',
      'internal_error',
      'Internal error (status 500, request req_1)',
    ],
    [
      'lost',
      new ApiFailure(
        'no_answer',
        EXIT.error,
        'no contact with https://deploy.example.com (connection refused)',
      ),
      'start',
      'no_contact',
      'No contact with https://deploy.example.com (connection refused) It is not known whether a deployment ' +
        'started: ask get_deploy_diagnostics (latest_task).',
    ],
    [
      'our own',
      new TypeError('secret detail'),
      'change',
      'internal_error',
      'Internal error of berth mcp (TypeError) It is not known whether the change was made: ask list_variables, or repeat the call.',
    ],
  ]
  test.each(CASES)('%s', (_name, error, undertaking, code, text) => {
    const answer = explain(error, { undertaking, target })
    expect(answer).toMatchObject({ text, isError: true, structured: { code } })
    expect(JSON.stringify(answer)).not.toContain('secret detail')
  })

  test('what was started before is named', () => {
    const answer = explain(new CliError(EXIT.error, 'no contact'), {
      undertaking: 'read',
      taskId: 9,
    })
    expect(answer.text).toContain('Task 9 was started, but how it ends is not known: no contact.')
    expect(answer.structured.task_id).toBe(9)
    expect(sentence('pr-42 is protected')).toBe('pr-42 is protected.')
  })

  test('a key that is none is not repeated', () => {
    expect(JSON.stringify(wrongKeys(['OK', 'KEY=hunter2', '1X']))).not.toContain('hunter2')
    expect(wrongKeys(['OK', 'KEY=hunter2'])).toMatchObject([
      { field: 'key 2', code: 'invalid_key' },
    ])
    expect(wrongKeys(['SERVICE_DOMAIN', 'BERTH_X'])).toHaveLength(2)
    expect(wrongKeys(['OK'])).toBeUndefined()
  })
})

describe('plans', () => {
  test('a hash tells which part has moved, and holds no value', () => {
    const before = planChange(target, [variable('A')], { set: { A: 'one', B: 'two' } })
    expect(before.plan).toMatchObject({ added: ['B'], replaced: ['A'], removed: [], missing: [] })
    const hash = hashPlan(before.parts)
    const otherValue = planChange(target, [variable('A')], { set: { A: 'x', B: 'y' } })
    expect(hashPlan(otherValue.parts)).toBe(hash)
    const changed = [variable('A', { updated_at: '2026-11-15T10:00:00Z' })]
    const moved = planChange(target, changed, { set: { A: 'one', B: 'two' } })
    expect(changedParts(hash, moved.parts)).toEqual(['variables'])
    expect(changedParts('nonsense', moved.parts)).toEqual(['plan_hash'])
    const unset = planChange(target, [variable('A')], { unset: ['A', 'Z'] })
    expect(unset.plan).toMatchObject({ removed: ['A'], missing: ['Z'] })
    expect(changedParts(hash, unset.parts)).toContain('target')
  })

  test('a deployment: commit, what runs, variables, server, protection', () => {
    const { plan, parts } = planDeployment(
      target,
      [variable('A', { changed_since_deployment: true })],
      undefined,
    )
    expect(plan).toMatchObject({
      target: 'shop / pr-42',
      commit_sha: null,
      variable_keys_changed: ['A'],
      services: ['web'],
      server: 'fra-1',
      refused_because: null,
    })
    const hash = hashPlan(parts)
    const locked = environment({
      may: [],
      locked: true,
      locked_by: { task_id: 8, trigger: 'cli', status: 'running' },
      commit_sha: 'a'.repeat(40),
    })
    const later = planDeployment(
      { ...target, environment: locked },
      [variable('A')],
      'b'.repeat(40),
    )
    expect(later.plan.refused_because).toBe('task 8 is running')
    expect(changedParts(hash, later.parts)).toEqual(['commit', 'what runs now', 'what is allowed'])
    const guarded = environment({ may: [], protected: true, owner: { id: 1, name: 'Grace' } })
    const refused = planDeployment({ ...target, environment: guarded }, [], undefined).plan
    expect(refused.refused_because).toBe('it is protected; only Grace may')
  })
})
