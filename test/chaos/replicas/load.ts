// A flow of deployments by clients that repeat a request under its Idempotency-Key until they know its outcome, and the
// oracle outside Berth: applications write their own starts, ends and output. All of it becomes a history.
import { createHash, randomUUID } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Task } from '@berth/shared/api'
import pg from 'pg'
import { until } from '../../fixtures/server/installation.ts'
import { judgeDeployment } from '../../histories/acknowledged.ts'
import { HistoryWriter } from '../../histories/history.ts'
import {
  EventSourceReader,
  followLog,
  recordPublicEvents,
  Subscriber,
} from '../../histories/readers.ts'
import { NoticeWatch } from '../notices.ts'
import type { ReplicasInstallation } from './installation.ts'

const PATIENCE_MS = 10_000
const AGAIN_MS = 300
const FAILS = 7 // one of so many deployments fails on purpose, so that both verdicts are judged

const SERVICE_FILE = `manual:
  deploy:
    - name: Write
      run: exec sh write.sh
`
const WRITE = `task=\${BERTH_RELEASE_DIR##*/}
mark() {
  printf '%s %s %s %s\\n' "$1" "$(date +%s%3N)" "$SERVICE_ENV_IDENTIFIER" "$task" >> "$ORACLE/runs"
}
mark invoke
echo "BEGIN $task"
awk -v seed="$task" 'BEGIN {
  srand(seed)
  for (b = 0; b < 15; b++) {
    for (i = 0; i < 60; i++)
      printf "%d of task %d %s\\n", ++n, seed, substr("abcdefghijklmnopqrstuvwxyz0123456789", 1 + int(rand() * 30))
    fflush()
    system("sleep 0.1")
  }
}' | tee "$ORACLE/log-$task"
echo "END $task"
if [ $((task % ${FAILS})) -eq 0 ]; then mark fail; exit 3; fi
mark ok
`

const digestOf = (bytes: string | Buffer): string =>
  createHash('sha256').update(bytes).digest('hex')

/** The application's part of a log; undefined if it is not there exactly once. */
function between(log: string, task: number): string | undefined {
  const begin = `BEGIN ${task}\n`
  const from = log.indexOf(begin)
  const to = log.indexOf(`END ${task}\n`)
  if (from < 0 || to < 0 || log.indexOf(begin, from + 1) >= 0) return undefined
  return log.slice(from + begin.length, to)
}

interface Place {
  id: number
  identifier: string
}

type Answer = { status: number; body: Record<string, unknown> } | undefined

export class ReplicasLoad {
  readonly #installation: ReplicasInstallation
  readonly #oracle: string
  readonly #file: string
  readonly #history: HistoryWriter
  readonly #places: Place[] = []
  readonly #readers: (Subscriber | EventSourceReader)[] = []
  readonly #followers: Promise<void>[] = []
  #notices: NoticeWatch | undefined
  #organizationId = 0
  #loops: Promise<void>[] = []
  #isStopping = false
  #deadline = Number.POSITIVE_INFINITY
  acknowledged = 0

  private constructor(installation: ReplicasInstallation) {
    this.#installation = installation
    const { dir } = installation.fixture
    this.#file = join(dir, 'history.jsonl')
    this.#history = new HistoryWriter(this.#file, 'harness')
    this.#oracle = join(dir, 'oracle')
    mkdirSync(this.#oracle)
    chmodSync(this.#oracle, 0o1777)
    // every environment has its own account, and all of them append here
    writeFileSync(join(this.#oracle, 'runs'), '')
    chmodSync(join(this.#oracle, 'runs'), 0o666)
  }

  static async start(
    installation: ReplicasInstallation,
    environments: number,
  ): Promise<ReplicasLoad> {
    const load = new ReplicasLoad(installation)
    const { fixture, serverIds } = installation
    const files = { '.service.yml': SERVICE_FILE, 'write.sh': WRITE }
    const project = await fixture.post<{ id: number; organization_id: number }>('/api/projects', {
      name: 'chaos',
      repo_url: fixture.repository('chaos', files),
      domain: 'chaos.example.com',
      server_ids: serverIds,
      default_recipe: 'manual',
    })
    const me = await fixture.get<{ organizations: { id: number }[] }>('/api/me')
    load.#organizationId = me.organizations[0]?.id ?? 0
    load.#notices = await NoticeWatch.start(fixture)
    for (let i = 0; i < environments; i++) {
      const identifier = `e${i + 1}`
      const path = `/api/projects/${project.id}/environments`
      const { id } = await fixture.post<{ id: number }>(path, {
        identifier,
        branch: 'main',
        server_id: serverIds[i % serverIds.length],
        auto_deploy: false,
        variables: { ORACLE: load.#oracle },
      })
      load.#places.push({ id, identifier })
    }
    load.#startReaders()
    load.#loops = load.#places.map((place) => load.#keepBusy(place))
    return load
  }

  #startReaders(): void {
    const { url, token } = this.#installation.fixture
    for (let n = 1; n <= 3; n++) {
      const source = { url, token, history: this.#history }
      this.#readers.push(new Subscriber(source, `subscriber-${n}`, this.#organizationId).start())
      if (n < 3) this.#readers.push(new EventSourceReader(source, `stream-${n}`).start())
    }
  }

  /** Resolves when an application runs: the moment to strike. */
  async busy(): Promise<void> {
    await until('a running deployment', () => {
      const runs = this.#runs()
      const ended = new Set(runs.filter(({ type }) => type !== 'invoke').map(({ task }) => task))
      return runs.some(({ task }) => !ended.has(task)) || undefined
    })
  }

  async #keepBusy(place: Place): Promise<void> {
    while (!this.#isStopping) {
      const task = await this.#deploy(place)
      if (task === undefined) {
        await delay(AGAIN_MS)
        continue
      }
      this.acknowledged += 1
      if (this.acknowledged % 2 === 0) this.#followers.push(this.#follow(task))
      await this.#ended(task)
    }
  }

  /** Returns the task, or undefined after a refusal. */
  async #deploy({ id: environment }: Place): Promise<number | undefined> {
    const key = randomUUID()
    const about = { f: 'deploy', key, environment } as const
    while (performance.now() < this.#deadline) {
      this.#history.add({ ...about, type: 'invoke' })
      const answer = await this.#send('POST', `/api/environments/${environment}/tasks`, {
        'idempotency-key': key,
      })
      const judged = judgeDeployment(answer)
      if (typeof judged === 'number') {
        this.#history.add({ ...about, type: 'ok', task: judged })
        return judged
      }
      if (judged === 'refused') {
        this.#history.add({ ...about, type: 'fail' })
        return undefined
      }
      this.#history.add({ ...about, type: 'info' })
      await delay(AGAIN_MS)
    }
    return undefined
  }

  async #send(method: string, path: string, headers: Record<string, string> = {}): Promise<Answer> {
    const { url, token } = this.#installation.fixture
    try {
      const signal = AbortSignal.timeout(PATIENCE_MS)
      const authorization = `Bearer ${token}`
      const answer = await fetch(url + path, {
        method,
        signal,
        headers: { ...headers, authorization },
      })
      return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
    } catch {
      return undefined
    }
  }

  async #ended(task: number): Promise<void> {
    while (performance.now() < this.#deadline) {
      const answer = await this.#send('GET', `/api/tasks/${task}`)
      if (answer?.status === 200 && answer.body.finished_at !== null) return
      if (answer?.status === 404) return // the checker finds it
      await delay(AGAIN_MS)
    }
  }

  async #follow(task: number): Promise<void> {
    const { url, token } = this.#installation.fixture
    const isOver = () => performance.now() > this.#deadline
    const text = await followLog({ url, token }, task, isOver)
    const own = text === undefined ? undefined : between(text, task)
    const digest = own === undefined ? 'incomplete' : digestOf(own)
    this.#history.add({ f: 'followed', type: 'ok', reader: `follower-${task}`, task, digest })
  }

  #runs() {
    const file = join(this.#oracle, 'runs')
    return readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => {
        const [type, t, identifier, task] = line.split(' ')
        return {
          type: type as 'invoke' | 'ok' | 'fail',
          t: Number(t),
          identifier,
          task: Number(task),
        }
      })
  }

  /** Starts no new deployments, waits for the end of all others, and completes the history; returns its file. */
  async finish(waitMs: number): Promise<{ file: string; notes: string[] }> {
    const { fixture } = this.#installation
    this.#isStopping = true
    this.#deadline = performance.now() + waitMs
    await Promise.all(this.#loops)
    await Promise.all(this.#followers)
    const tasks: Task[] = []
    for (const { id } of this.#places) tasks.push(...(await this.#tasksOf(id)))
    const notices = await this.#notices?.judge(tasks, waitMs)
    for (const { id, taskId, type } of this.#notices?.arrived ?? []) {
      this.#history.add({ f: 'notice', type: 'ok', id, task: taskId, about: type })
    }
    await this.#caughtUp()
    await Promise.all(this.#readers.map((reader) => reader.stop()))
    this.#recordRuns()
    for (const task of tasks) await this.#recordTask(task)
    await this.#recordTables()
    const { url, token } = this.#installation.fixture
    await recordPublicEvents({ url, token, history: this.#history })
    await this.#notices?.close()
    const { disordered = 0, forged = 0 } = notices ?? {}
    const notes = [
      ...(disordered > 0 ? [`${disordered} notifications overtook others`] : []),
      ...(forged > 0 ? [`${forged} notifications with a wrong signature`] : []),
    ]
    if (!existsSync(this.#file)) throw new Error(`no history in ${fixture.dir}`)
    return { file: this.#file, notes }
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    this.#deadline = 0
    await Promise.all([...this.#loops, ...this.#followers, ...this.#readers.map((r) => r.stop())])
    await this.#notices?.close()
  }

  async #tasksOf(environment: number): Promise<Task[]> {
    const all: Task[] = []
    let path: string | undefined = `/api/environments/${environment}/tasks?per_page=100`
    while (path) {
      const answer = await this.#installation.fixture.call('GET', path)
      all.push(...((await answer.json()) as Task[]))
      const next: string | undefined = /<([^>]+)>; rel="next"/.exec(
        answer.headers.get('link') ?? '',
      )?.[1]
      path = next?.slice(next.indexOf('/api/'))
    }
    return all
  }

  /** The readers have what the table has. */
  async #caughtUp(): Promise<void> {
    const client = await this.#database()
    try {
      const { rows } = await client.query<{ seq: string }>(
        'select max(seq) as seq from events where organization_id = $1',
        [this.#organizationId],
      )
      const last = Number(rows[0]?.seq)
      const isDone = () => this.#readers.every((reader) => reader.at >= last) || undefined
      await until('the readers', isDone, 30_000).catch(() => undefined) // the checker finds what is missing
    } finally {
      await client.end()
    }
  }

  async #database(): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: this.#installation.databaseUrl })
    await client.connect()
    return client
  }

  #recordRuns(): void {
    const ids = new Map(this.#places.map(({ id, identifier }) => [identifier, id]))
    const writer = new HistoryWriter(this.#file, 'application')
    for (const { type, t, identifier = '', task } of this.#runs()) {
      const environment = ids.get(identifier) ?? 0
      writer.add({ f: 'run', type, environment, task, attempt: `of task ${task}` }, t)
    }
  }

  async #recordTask({ id, status, environment_id: environment }: Task): Promise<void> {
    const stored = between((await this.#installation.fixture.log(id)).toString(), id)
    const logDigest = stored === undefined ? 'incomplete' : digestOf(stored)
    this.#history.add({ f: 'task', type: 'ok', environment, task: id, status, logDigest })
    const file = join(this.#oracle, `log-${id}`)
    if (existsSync(file)) {
      this.#history.add({
        f: 'written',
        type: 'ok',
        task: id,
        digest: digestOf(readFileSync(file)),
      })
    }
  }

  async #recordTables(): Promise<void> {
    const client = await this.#database()
    try {
      const attempts = await client.query(
        'select id, task_id, number, environment_id, fence from attempts order by created_at',
      )
      for (const row of attempts.rows) {
        this.#history.add({
          f: 'assigned',
          type: 'ok',
          environment: Number(row.environment_id),
          task: Number(row.task_id),
          attempt: String(row.id),
          fence: Number(row.fence),
          number: Number(row.number),
        })
      }
      const events = await client.query(
        'select seq, kind, task_id from events where organization_id = $1 order by seq',
        [this.#organizationId],
      )
      for (const { seq, kind, task_id: task } of events.rows) {
        const about = task === null ? {} : { task: Number(task) }
        this.#history.add({ f: 'stored', type: 'ok', seq: Number(seq), kind, ...about })
      }
    } finally {
      await client.end()
    }
  }
}
