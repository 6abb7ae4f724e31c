import { describe, expect, it } from 'vitest'
import { failedTask, phase, step, task } from '../testing/samples.ts'
import { blockLines, describeChanges, describeStill, summaryLines } from './progress.ts'

const paint = (_: unknown, text: string) => text
const at = { serverNow: Date.parse('2026-11-15T09:13:11.200Z'), frame: 2, width: 79, paint }
const texts = (...words: Parameters<typeof describeChanges>) =>
  describeChanges(...words).map((event) => event.text)

const running = task('running', {
  phases: [
    phase('checkout', 'succeeded'),
    phase('build', 'running', {
      steps: [
        step('web', 'succeeded', { duration_ms: 12_000 }),
        step('api', 'running', { message: '#11 RUN npm run build\u001b]0;x\u0007' }),
        step('later', 'pending'),
      ],
    }),
    phase('release', 'pending'),
    phase('start', 'pending'),
  ],
})

describe('the live block', () => {
  it('shows what is done, what runs and what comes', () => {
    expect(blockLines(running, at)).toEqual([
      '✓ Check out       1.8s',
      '⠹ Build           41.2s   3 steps',
      '  ✓ web           12.0s',
      '  ⠹ api           41.2s   #11 RUN npm run build',
      '· Release  · Start',
    ])
  })

  it('prefers the last line of the log', () => {
    const lastLine = (name: string) => (name === 'api' ? 'added 812 packages' : undefined)
    const lines = blockLines(running, { ...at, lastLine })
    expect(lines[3]).toBe('  ⠹ api           41.2s   added 812 packages')
    const one = task('running', {
      phases: [phase('build', 'running', { steps: [step('api', 'running')] })],
    })
    expect(blockLines(one, at)).toHaveLength(1)
    expect(blockLines(one, { ...at, lastLine })).toHaveLength(2)
  })

  it('cuts every line', () => {
    const narrow = blockLines(running, { ...at, width: 20 })
    for (const line of narrow) expect(line.length).toBeLessThanOrEqual(20)
  })

  it('says what a queued task waits for, and that its server is away', () => {
    const waiting_for = {
      code: 'server',
      message: 'fra-1 is offline',
      since: '2026-11-15T09:02:00Z',
      deadline: null,
      task_id: null,
      position: null,
    }
    const lines = blockLines(task('queued', { waiting_for, phases: [] }), at)
    expect(lines).toEqual(['⠹ Queued: fra-1 is offline'])
    const away = task('running', { unreachable_since: '2026-11-15T09:12:40Z', phases: [] })
    expect(blockLines(away, at)[0]).toContain('unreachable since 2026-11-15T09:12:40Z')
  })
})

it('what still runs, in one line', () => {
  const now = at.serverNow + 60_000
  const said = (text: Parameters<typeof describeStill>[0], line?: string) =>
    describeStill(text, now, () => line)
  expect(said(running, 'added \u001b[1m8 packages')).toBe(
    'still in build  api, 1m41s: added 8 packages',
  )
  expect(said(running)).toBe('still in build  api, 1m41s: #11 RUN npm run build')
  expect(said(task('queued', { id: 5 }))).toBe('task 5 is still queued')
  expect(said(task('running', { id: 5, phases: [] }))).toBe('task 5 is still running')
})

describe('events', () => {
  it('a deployment, seen in four polls', () => {
    const queued = task('queued')
    const begun = task('running', { phases: [phase('checkout', 'running')] })
    expect(texts(null, queued, 'shop/pr-42')).toEqual(['task 813 queued  shop/pr-42 c136499'])
    expect(texts(queued, begun, 'x')).toEqual(['checkout  started'])
    expect(texts(begun, running, 'x')).toEqual(['checkout  succeeded 1.8s', 'build  started'])
    expect(texts(running, running, 'x')).toEqual([])
  })

  it('a phase that began and ended between two polls is told whole', () => {
    expect(texts(task('queued'), failedTask(), 'x')).toEqual([
      'checkout  started',
      'checkout  succeeded 1.8s',
      'build  started',
      'build  failed 29.9s in "Build image web" (exit code 1)',
    ])
  })

  it('a request to stop is told once', () => {
    const asked = task('running', { cancel_requested_at: '2026-11-15T09:13:00Z', phases: [] })
    expect(texts(task('running', { phases: [] }), asked, 'x')).toEqual([
      'task 813 is asked to stop',
    ])
    expect(texts(asked, asked, 'x')).toEqual([])
  })
})

it('the summary breaks into lines that fit', () => {
  const names = ['checkout', 'configure', 'build', 'release', 'start', 'route', 'verify']
  const done = task('succeeded', { phases: names.map((name) => phase(name, 'succeeded')) })
  const lines = summaryLines(done, 40, paint)
  expect(lines.length).toBeGreaterThan(1)
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(40)
  expect(lines.join('  ')).toBe(summaryLines(done, 1_000, paint)[0])
})
