// Random sequences of changes at every level, in environments of each kind, against a simple model: the nearest level
// wins, exactly the environments that get another value are flagged, a fork gets nothing it may not have, and no value is
// in any answer, event, audit entry, row, file or log line.
import type {
  Environment,
  ProjectLevel,
  ProjectVariable,
  Task,
  Variable,
  VariableLevel,
} from '@berth/shared/api'
import fc from 'fast-check'
import { afterEach, describe, expect, test } from 'vitest'
import { type Host, makeHost, sha } from '../fixtures/forge/webhook-sender.ts'
import type { Answer } from '../fixtures/platform/control-plane.ts'
import { ENGINES, type EngineName } from '../fixtures/platform/engines.ts'
import { LiveSocket } from '../fixtures/platform/live-socket.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { readFolder, readTables, type Traces, tracesOf } from '../fixtures/platform/traces.ts'

const KEYS = ['ALPHA', 'BETA', 'GAMMA']
const LEVELS: ProjectLevel[] = ['project', 'previews', 'manual']
const KINDS = ['staging', 'preview', 'fork'] as const
type Kind = (typeof KINDS)[number]
type At = ProjectLevel | Kind

type Step =
  | { do: 'set'; at: At; keys: string[]; value: number }
  | { do: 'unset'; at: At; keys: string[] }
  | { do: 'forks'; at: ProjectLevel; key: string; on: boolean }
  | { do: 'deploy'; kind: Kind }

const at = fc.constantFrom<At>(...LEVELS, ...KINDS)
const keys = fc.uniqueArray(fc.constantFrom(...KEYS), { minLength: 1 })
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant('set' as const), at, keys, value: fc.nat(5) }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('unset' as const), at, keys }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('forks' as const),
      at: fc.constantFrom(...LEVELS),
      key: fc.constantFrom(...KEYS),
      on: fc.boolean(),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('deploy' as const), kind: fc.constantFrom(...KINDS) }),
  },
)

interface Held {
  value: string
  forks: boolean
}
type Values = Map<string, Held>

/** What the product must do, in as few words as possible. */
class Model {
  readonly at = new Map<At, Values>([...LEVELS, ...KINDS].map((name) => [name, new Map()]))
  readonly flagged = new Set<Kind>()

  holds(name: At): Values {
    return this.at.get(name) as Values
  }

  /** From near to far. */
  sources(kind: Kind): [VariableLevel, Values][] {
    const middle = kind === 'staging' ? 'manual' : 'previews'
    return [
      ['environment', this.holds(kind)],
      [middle, this.holds(middle)],
      ['project', this.holds('project')],
    ]
  }

  gets(kind: Kind): { key: string; level: VariableLevel; shadows: string[]; value: string }[] {
    return KEYS.flatMap((key) => {
      const found = this.sources(kind).flatMap(([level, values]) => {
        const held = values.get(key)
        const isAllowed = kind !== 'fork' || level === 'environment' || held?.forks
        return held && isAllowed ? [{ level, value: held.value }] : []
      })
      const [first, ...others] = found
      return first ? [{ key, ...first, shadows: others.map(({ level }) => level) }] : []
    })
  }

  /** Performs a change; kinds that get another value are flagged. */
  change(work: () => void): void {
    const look = () =>
      KINDS.map((kind) =>
        JSON.stringify(this.gets(kind).map(({ key, level, value }) => [key, level, value])),
      )
    const before = look()
    work()
    for (const [n, now] of look().entries())
      if (now !== before[n]) this.flagged.add(KINDS[n] as Kind)
  }
}

class Run {
  readonly p: Platform
  readonly h: Host
  readonly engine: EngineName
  readonly seen: string[]
  readonly logged: string[]
  readonly ids = new Map<Kind, number>()
  model = new Model()
  given: Record<string, string> = {}

  private constructor(p: Platform, h: Host, engine: EngineName, seen: string[], logged: string[]) {
    this.p = p
    this.h = h
    this.engine = engine
    this.seen = seen
    this.logged = logged
  }

  static async open(engine: EngineName): Promise<Run> {
    const logged: string[] = []
    const seen: string[] = []
    const p = await Platform.start(engine, { logTo: (line) => void logged.push(line) })
    const call = p.cp.call.bind(p.cp) as (...of: unknown[]) => Promise<Answer>
    p.cp.call = (async (...of: unknown[]) => {
      const answer = await call(...of)
      seen.push(JSON.stringify([...answer.headers]), answer.text)
      return answer
    }) as typeof p.cp.call
    // no deployment but those of the sequence, however long it takes
    const over = { default_recipe: 'docker', auto_deploy: false }
    const h = await makeHost(p.cp, p.serverId, over)
    const run = new Run(p, h, engine, seen, logged)
    p.executor.script = (a) => {
      run.given = Object.fromEntries(
        a.secrets.variables.map((v) => [v.key, Buffer.from(v.value).toString()]),
      )
      a.say('nothing to see\n')
      a.succeed()
    }
    await run.#environments()
    return run
  }

  async #environments(): Promise<void> {
    const { p, h } = this
    this.ids.set('staging', (await p.cp.environment(h.projectId, 'staging')).id)
    const opened = await h.opened({ number: 7, head: sha(7) })
    for (const task of opened.body.task_ids) await p.settled(task)
    await h.opened({ number: 51, head: sha(1), branch: 'main', fork: 9_001 })
    const url = `/api/projects/${h.projectId}/pull_requests/51/approve`
    const approved = await p.cp.call<{ task: Task | null }>('POST', url, { head_sha: sha(1) })
    if (approved.body.task) await p.settled(approved.body.task.id)
    this.ids.set('preview', (await h.environment('pr-7'))?.id ?? 0)
    this.ids.set('fork', (await h.environment('pr-51'))?.id ?? 0)
  }

  #path(name: At): [string, object] {
    const id = this.ids.get(name as Kind)
    return id === undefined
      ? [`/api/projects/${this.h.projectId}/variables`, { level: name }]
      : [`/api/environments/${id}/variables`, {}]
  }

  async #patch(name: At, body: object): Promise<Answer> {
    const [path, level] = this.#path(name)
    return this.p.cp.call('PATCH', path, { ...level, ...body })
  }

  async perform(one: Step, texts: readonly string[]): Promise<void> {
    const { model } = this
    if (one.do === 'set') {
      const value = texts[one.value % texts.length] as string
      const set = Object.fromEntries(one.keys.map((key) => [key, `${value} ${key}`]))
      const answer = await this.#patch(one.at, { set })
      expect(answer.status, answer.text).toBe(200)
      const held = model.holds(one.at)
      model.change(() => {
        for (const [key, text] of Object.entries(set)) {
          held.set(key, { value: text, forks: held.get(key)?.forks ?? false })
        }
      })
    } else if (one.do === 'unset') {
      expect((await this.#patch(one.at, { unset: one.keys })).status).toBe(200)
      model.change(() => {
        for (const key of one.keys) model.holds(one.at).delete(key)
      })
    } else if (one.do === 'forks') {
      const held = model.holds(one.at).get(one.key)
      const isAllowed = one.at !== 'manual' && held !== undefined
      const answer = await this.#patch(one.at, { forks: { [one.key]: one.on } })
      expect(answer.status, answer.text).toBe(isAllowed ? 200 : 422)
      if (isAllowed) model.change(() => Object.assign(held, { forks: one.on }))
    } else await this.#deploy(one.kind)
    await this.#compare()
  }

  async #deploy(kind: Kind): Promise<void> {
    const { p, model } = this
    const answer = await p.deploy(this.ids.get(kind) as number)
    expect(answer.status, answer.text).toBe(201)
    expect((await p.settled(answer.body.id)).status).toBe('succeeded')
    const expected = model.gets(kind).map(({ key, value }) => [key, value])
    expect(this.given).toEqual(Object.fromEntries(expected))
    model.flagged.delete(kind)
    if (kind !== 'fork') return
    // said once more without the rule of levels: its own, or marked
    const allowed = (['project', 'previews'] as const).flatMap((name) =>
      [...model.holds(name).values()].filter((held) => held.forks),
    )
    const may = new Set([...model.holds('fork').values(), ...allowed].map((held) => held.value))
    for (const value of Object.values(this.given)) expect(may).toContain(value)
  }

  async #compare(): Promise<void> {
    const { model, p } = this
    for (const kind of KINDS) {
      const path = `/api/environments/${this.ids.get(kind)}`
      const shown = (await p.cp.call<Variable[]>('GET', `${path}/variables`)).body
      const expected = model.gets(kind).map(({ key, level, shadows }) => ({ key, level, shadows }))
      expect(shown.map(({ key, level, shadows }) => ({ key, level, shadows }))).toEqual(expected)
      const { body } = await p.cp.call<Environment>('GET', path)
      expect([kind, body.variables_changed]).toEqual([kind, model.flagged.has(kind)])
    }
    const url = `/api/projects/${this.h.projectId}/variables`
    const levels = (await p.cp.call<ProjectVariable[]>('GET', url)).body
    const expected = LEVELS.flatMap((level) =>
      KEYS.flatMap((key) => {
        const held = model.holds(level).get(key)
        return held ? [{ level, key, forks: held.forks }] : []
      }),
    )
    expect(levels.map(({ level, key, forks }) => ({ level, key, forks }))).toEqual(expected)
  }

  /** Everything back to nothing, for the next sequence. */
  async clear(): Promise<void> {
    for (const name of [...LEVELS, ...KINDS]) {
      const unset = [...this.model.holds(name).keys()]
      if (unset.length > 0) await this.#patch(name, { unset })
    }
    this.model = new Model()
    for (const kind of KINDS) await this.#deploy(kind)
  }

  /** Every answer about variables that exists, besides those of the comparison. */
  async look(): Promise<void> {
    const { projectId } = this.h
    const input = (of: object) => `?input=${encodeURIComponent(JSON.stringify(of))}`
    const environments = [...this.ids.values()].flatMap((id) => [
      `/api/environments/${id}/variables/history?per_page=100`,
      `/api/environments/${id}/diagnostics`,
      `/api/environments/${id}/tasks?type=all`,
      `/trpc/variable.list${input({ environment_id: id })}`,
      `/trpc/variable.history${input({ environment_id: id })}`,
    ])
    for (const path of [
      ...environments,
      `/api/projects/${projectId}/variables/history?per_page=100`,
      `/trpc/variable.levels${input({ project_id: projectId })}`,
      `/trpc/variable.projectHistory${input({ project_id: projectId })}`,
      '/api/organizations/1/audit?per_page=100',
      '/api/admin/audit?per_page=100',
    ]) {
      expect((await this.p.cp.call('GET', path)).status, path).toBe(200)
    }
  }

  async traces(): Promise<Traces> {
    const { cp } = this.p
    return new Map([
      ['an answer', Buffer.from(this.seen.join('\n'))],
      ['a log line', Buffer.from(this.logged.join('\n'))],
      ...(await readTables(cp.running.ctx.db, this.engine)),
      ...readFolder(cp.dir, 'data'),
      ...readFolder(this.p.agentDir, 'agent'),
    ])
  }
}

describe.each(ENGINES)('levels of variables against a model on %s', (engine) => {
  let run: Run | undefined
  afterEach(() => run?.p.close())

  test('nearest wins, exact flags, no value anywhere, and a fork gets only what it may have', async () => {
    run = await Run.open(engine)
    const it = run
    const socket = new LiveSocket(it.p.cp, it.p.cp.token)
    await socket.ask('environment.events', {
      environment_id: it.ids.get('preview'),
      lastEventId: '0',
    })
    const all = new Set<string>()
    const texts = fc.uniqueArray(fc.uuid(), { minLength: 3, maxLength: 4 })
    const steps = fc.array(step, { minLength: 12, maxLength: 25 })
    await fc.assert(
      fc.asyncProperty(texts, steps, async (values, sequence) => {
        for (const value of values) all.add(value)
        for (const one of sequence) await it.perform(one, values)
        await it.clear()
      }),
      { numRuns: engine === 'sqlite' ? 10 : 2, endOnFailure: true },
    )
    await it.look()
    it.seen.push(socket.said)
    expect(socket.said).toContain('variables')
    socket.close()
    const traces = await it.traces()
    expect([...all].flatMap((value) => tracesOf(value, traces))).toEqual([])
    // the same search finds what is there
    expect(tracesOf('ALPHA', traces)).toEqual(
      expect.arrayContaining(['an answer: raw', 'table audit: raw', 'table events: raw']),
    )
  }, 300_000)
})
