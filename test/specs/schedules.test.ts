// Actions on a schedule: they start as ordinary tasks, never overlap, and missed runs are reported, not repeated. On both
// databases, with a clock that the tests move.
import type { Action, Environment, ScheduledRun, Task } from '@berth/shared/api'
import { ActionSchema } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { startDueActions } from '../../control-plane/src/app/deployments/schedules.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { until } from '../fixtures/server/installation.ts'

const MINUTE = 60_000
const DAY = 86_400_000
const HOURLY = { name: 'backup', schedule: { cron: '30 * * * *', timezone: 'UTC' } }

describe.each(ENGINES)('schedules on %s', (engine) => {
  let p: Platform
  let environment: Environment
  let path: string
  beforeEach(async () => {
    p = await Platform.start(engine)
    environment = await p.environment('main')
    path = `/api/environments/${environment.id}/actions`
  })
  afterEach(() => p.close())

  type Given = { name: string; schedule?: object; service?: string; disabledReason?: string }
  const deployWith = async (actions: Given[] = [HOURLY]): Promise<void> => {
    p.executor.script = (attempt) => {
      if (attempt.assignment.spec?.kind.case === 'deploy') {
        const made = actions.map((action) => create(ActionSchema, action as never))
        attempt.emit({ case: 'actions', value: { actions: made } })
      }
      attempt.succeed()
    }
    const { body } = await p.deploy(environment.id)
    expect((await p.settled(body.id)).status).toBe('succeeded')
  }
  const now = (): number => p.cp.running.ctx.clock.now()
  const actions = async () => (await p.cp.call<Action[]>('GET', path)).body
  const schedule = async () => (await actions())[0]?.schedule ?? null
  const runs = async (name = 'backup') =>
    (await p.cp.call<ScheduledRun[]>('GET', `${path}/${name}/runs`)).body
  const tasks = async () => {
    const query = '?type=action&trigger=schedule'
    const where = `/api/environments/${environment.id}/tasks${query}`
    return (await p.cp.call<Task[]>('GET', where)).body
  }
  const nextRunAt = async (): Promise<number> => {
    const at = (await schedule())?.next_run_at
    if (!at) throw new Error('there is no next run')
    return Date.parse(at)
  }
  /** Moves to a second after the next run, plus `late`. */
  const toNextRun = async (late = 0): Promise<number> => {
    const due = await nextRunAt()
    await p.cp.advance(due - now() + 1_000 + late)
    return due
  }
  const utc = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`

  test('a due action starts as a task, and the next run is shown', async () => {
    await deployWith([HOURLY, { name: 'seed' }])
    expect((await actions()).map((action) => action.schedule)).toEqual([
      {
        cron: '30 * * * *',
        timezone: 'UTC',
        next_run_at: expect.stringMatching(/:30:00Z$/),
        paused_reason: null,
        last_run: null,
      },
      null,
    ])
    await p.cp.advance(0)
    expect(await tasks()).toEqual([])
    const due = await toNextRun()
    const [task] = await tasks()
    expect(task).toMatchObject({ type: 'action', action: 'backup', trigger: 'schedule' })
    expect(task?.triggered_by.name).toBe('Berth')
    const ended = await p.settled(task?.id ?? 0)
    expect(ended.status).toBe('succeeded')
    const run = {
      outcome: 'started',
      reason: null,
      due_at: utc(due),
      last_due_at: utc(due),
      runs: 1,
      task_id: ended.id,
      task_status: 'succeeded',
    }
    expect(await runs()).toEqual([run])
    expect(await schedule()).toMatchObject({ next_run_at: utc(due + 60 * MINUTE), last_run: run })
    expect(await runs('seed')).toEqual([])
  })

  test('one run starts once, however many processes look', async () => {
    await deployWith()
    const due = await nextRunAt()
    p.cp.clock.offsetMs += due - now() + 1_000
    const { ctx } = p.cp.running
    await Promise.all([startDueActions(ctx), startDueActions(ctx), startDueActions(ctx)])
    expect(await tasks()).toHaveLength(1)
    expect(await runs()).toHaveLength(1)
  })

  test('a run that would overlap is skipped, in one line of the history', async () => {
    await deployWith()
    let end: (() => void) | undefined
    p.executor.script = async (attempt) => {
      await new Promise<void>((resolve) => {
        end = resolve
      })
      attempt.succeed()
    }
    await toNextRun()
    await until('the first run', () => end)
    const [first] = await tasks()
    const second = await toNextRun()
    const third = await toNextRun()
    expect(await tasks()).toHaveLength(1)
    expect((await runs())[0]).toEqual({
      outcome: 'skipped',
      reason: `Task ${first?.id} of this action had not ended.`,
      due_at: utc(second),
      last_due_at: utc(third),
      runs: 2,
      task_id: null,
      task_status: null,
    })
    end?.()
    await p.settled(first?.id ?? 0)
    p.executor.script = (attempt) => attempt.succeed()
    await toNextRun()
    expect((await runs()).map(({ outcome }) => outcome)).toEqual(['started', 'skipped', 'started'])
  })

  test('runs that the control plane missed are reported, and none is repeated', async () => {
    await deployWith()
    const due = await nextRunAt()
    // to the control plane a jump of its clock is the same as an outage: three runs pass, the last is late
    await p.cp.advance(due - now() + 2 * 60 * MINUTE + 10 * MINUTE)
    expect(await tasks()).toEqual([])
    expect(await runs()).toMatchObject([
      {
        outcome: 'missed',
        reason: 'The control plane did not run at that time.',
        due_at: utc(due),
        last_due_at: utc(due + 2 * 60 * MINUTE),
        runs: 3,
      },
    ])
    expect(await nextRunAt()).toBe(due + 3 * 60 * MINUTE)
  })

  test('a server that is offline misses its runs; one that left a moment ago does not', async () => {
    await deployWith()
    p.killAgent()
    await until('the agent to leave', async () => {
      const { body } = await p.cp.call('GET', `/api/servers/${p.serverId}`)
      return body.status !== 'online' || undefined
    })
    const gone = await nextRunAt()
    await leaveAt(gone - 10 * MINUTE)
    await toNextRun()
    const { body } = await p.cp.call('GET', `/api/servers/${p.serverId}`)
    const reason = `${body.name} is offline.`
    expect(await runs()).toMatchObject([{ outcome: 'missed', reason }])
    expect(await tasks()).toEqual([])
    const soon = await nextRunAt()
    await leaveAt(soon - MINUTE)
    await toNextRun()
    const [task] = await tasks()
    expect(task?.status).toBe('queued')
    expect((await runs())[0]).toMatchObject({ outcome: 'started', task_status: 'queued' })
  })

  const leaveAt = async (disconnectedAt: number): Promise<void> => {
    await p.cp.running.ctx.db.updateTable('agents').set({ disconnectedAt }).execute()
  }

  test('pauses while the environment is stopped, and goes on after a start', async () => {
    p.executor.script = (attempt) => {
      const kind = attempt.assignment.spec?.kind.case
      if (kind === 'deploy') {
        attempt.serve([{ name: 'web', port: 20_000 }])
        const made = [create(ActionSchema, { ...HOURLY, service: 'web' } as never)]
        attempt.emit({ case: 'actions', value: { actions: made } })
      }
      attempt.succeed()
    }
    await p.settled((await p.deploy(environment.id)).body.id)
    const ask = async (verb: string) => {
      const where = `/api/environments/${environment.id}/${verb}`
      const { body } = await p.cp.call<Task>('POST', where, {})
      expect((await p.settled(body.id)).status).toBe('succeeded')
    }
    const due = await nextRunAt()
    await ask('stop')
    expect(await schedule()).toMatchObject({ next_run_at: null, paused_reason: 'main is stopped.' })
    await p.cp.advance(due - now() + 1_000)
    await p.cp.advance(60 * MINUTE)
    expect(await tasks()).toEqual([])
    expect(await runs()).toMatchObject([
      { outcome: 'missed', reason: 'main is stopped.', due_at: utc(due), runs: 2 },
    ])
    await ask('start')
    expect(await nextRunAt()).toBe(due + 120 * MINUTE)
    await toNextRun()
    expect(await tasks()).toHaveLength(1)
  })

  test('follows the deployed file: unchanged keeps its time, changed and removed do not', async () => {
    await deployWith()
    const due = await nextRunAt()
    await deployWith()
    expect(await nextRunAt()).toBe(due)
    await deployWith([{ ...HOURLY, schedule: { cron: '31 * * * *', timezone: 'UTC' } }])
    expect(await nextRunAt()).not.toBe(due)
    await deployWith([{ name: 'backup' }])
    expect(await schedule()).toBeNull()
    await p.cp.advance(2 * 60 * MINUTE)
    expect(await tasks()).toEqual([])
  })

  test('a disabled action and an unknown time zone pause with their reason', async () => {
    await deployWith([
      { ...HOURLY, disabledReason: "backup uses 'result: file'." },
      { name: 'sync', schedule: { cron: '0 3 * * *', timezone: 'Mars/Base' } },
      { name: 'never', schedule: { cron: 'x'.repeat(500), timezone: 'UTC' } },
    ])
    expect((await actions()).map((action) => action.schedule)).toMatchObject([
      { next_run_at: null, paused_reason: "backup uses 'result: file'." },
      { next_run_at: null, paused_reason: expect.stringContaining('is not a time zone') },
      { next_run_at: null, paused_reason: expect.stringContaining('must have five fields') },
    ])
    await p.cp.advance(DAY)
    expect(await tasks()).toEqual([])
  })

  test('a removed environment has no schedules, and the history is bounded', async () => {
    await deployWith()
    const { ctx } = p.cp.running
    const row = { environmentId: environment.id, action: 'backup', outcome: 'started' as const }
    const now = ctx.clock.now() // the hourly sweep, which may come meanwhile, leaves them
    const old = Array.from({ length: 150 }, (_, i) => {
      const at = now - 1_000 + i
      return { ...row, dueAt: at, lastDueAt: at, runs: 1, taskId: null, reason: null }
    })
    await ctx.db.insertInto('scheduleRuns').values(old).execute()
    await toNextRun()
    expect(await runs()).toHaveLength(100)
    const [task] = await tasks()
    await p.settled(task?.id ?? 0)
    const where = `/api/environments/${environment.id}`
    const { body } = await p.cp.call<Task>('DELETE', where)
    await p.settled(body.id)
    for (const table of ['schedules', 'scheduleRuns'] as const) {
      expect(await ctx.db.selectFrom(table).selectAll().execute()).toEqual([])
    }
  })
})
