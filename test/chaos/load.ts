// Load for the chaos runs: keeps every environment of a fixture busy and remembers what was acknowledged. The oracle is
// outside Berth: each deployment appends a line to a file when it starts, and writes its output there as well.
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Environment, Task } from '@berth/shared/api'
import { ApiError, type Fixture, until } from '../fixtures/server/installation.ts'
import { type NoticeVerdict, NoticeWatch } from './notices.ts'

const SERVICE_FILE = `manual:
  deploy:
    - name: Count the start
      run: printf '%s\\n' "\${BERTH_RELEASE_DIR##*/}" >> "$ORACLE/starts"
    - name: Write
      run: exec sh write.sh
`
const WRITE = `task=\${BERTH_RELEASE_DIR##*/}
echo "BEGIN $task"
awk -v seed="$task" 'BEGIN {
  srand(seed)
  for (b = 0; b < 30; b++) {
    for (i = 0; i < 60; i++)
      printf "%d of task %d %s\\n", ++n, seed, substr("abcdefghijklmnopqrstuvwxyz0123456789", 1 + int(rand() * 30))
    fflush()
    system("sleep 0.05")
  }
}' | tee "$ORACLE/log-$task"
echo "END $task"
`

export interface Verdict {
  tasks: number
  lost: number
  startedTwice: number
  identical: number
  different: number
  /** What a receiver outside heard of the deployments. */
  notices: NoticeVerdict
  details: string[]
}

export class Load {
  readonly #fixture: Fixture
  readonly #oracle: string
  readonly #environments: number[] = []
  readonly #acknowledged = new Set<number>()
  #projectId = 0
  #notices: NoticeWatch | undefined
  #stopping = false
  #loops: Promise<void>[] = []

  private constructor(fixture: Fixture) {
    this.#fixture = fixture
    this.#oracle = join(fixture.dir, 'oracle')
    mkdirSync(this.#oracle)
    chmodSync(this.#oracle, 0o1777)
    // every environment has its own account, and all of them append here
    writeFileSync(join(this.#oracle, 'starts'), '')
    chmodSync(join(this.#oracle, 'starts'), 0o666)
  }

  static async start(fixture: Fixture, environments: number): Promise<Load> {
    const load = new Load(fixture)
    const files = { '.service.yml': SERVICE_FILE, 'write.sh': WRITE }
    const project = await fixture.project('chaos', fixture.repository('chaos', files))
    load.#projectId = project.id
    load.#notices = await NoticeWatch.start(fixture)
    for (let i = 1; i <= environments; i++) {
      const made = await fixture.environment(project.id, `e${i}`, { ORACLE: load.#oracle })
      load.#environments.push(made.id)
    }
    load.#loops = load.#environments.map((id) => load.#keepBusy(id))
    return load
  }

  get started(): number {
    return this.#acknowledged.size
  }

  /** Resolves when something runs on the server and the control plane knows it: the moment to strike. */
  async busy(): Promise<void> {
    await until('a running deployment', async () => {
      const list = await this.#fixture.get<Environment[]>(
        `/api/projects/${this.#projectId}/environments`,
      )
      return list.some((e) => e.locked_by?.status === 'running') || undefined
    })
  }

  /** Deploys repeatedly; refusals and lost connections are expected. */
  async #keepBusy(environmentId: number): Promise<void> {
    while (!this.#stopping) {
      try {
        const task = await this.#fixture.deploy(environmentId)
        this.#acknowledged.add(task.id)
        await this.#ended(task.id, 60_000)
      } catch (error) {
        if (error instanceof ApiError && error.status !== 409 && error.status < 500) throw error
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
    }
  }

  /** Resolves when the task has ended; a successful one must have its complete log. */
  #ended(taskId: number, ms: number): Promise<Task> {
    return until(
      `task ${taskId} to end`,
      async () => {
        const task = await this.#fixture.get<Task>(`/api/tasks/${taskId}`)
        const over = task.finished_at !== null && (task.status !== 'succeeded' || task.log_complete)
        return over ? task : undefined
      },
      ms,
    )
  }

  /** Starts no new deployments and waits for the end of all others. */
  async judge(waitMs: number): Promise<Verdict> {
    this.#stopping = true
    await Promise.allSettled(this.#loops)
    const deadline = performance.now() + waitMs
    const tasks: Task[] = []
    for (const id of this.#environments) {
      const list = await this.#fixture.get<Task[]>(`/api/environments/${id}/tasks?per_page=100`)
      for (const { id: taskId } of list) {
        const left = Math.max(1_000, deadline - performance.now())
        const task = await this.#ended(taskId, left).catch(() => undefined)
        tasks.push(task ?? (await this.#fixture.get<Task>(`/api/tasks/${taskId}`)))
      }
    }
    const notices = await this.#notices?.judge(tasks, waitMs)
    await this.#notices?.close()
    return this.#count(tasks, notices)
  }

  async #count(
    tasks: Task[],
    { details = [], ...notices }: Partial<Awaited<ReturnType<NoticeWatch['judge']>>> = {},
  ): Promise<Verdict> {
    const starts = new Map<number, number>()
    const file = join(this.#oracle, 'starts')
    for (const line of existsSync(file) ? readFileSync(file, 'utf8').split('\n') : []) {
      if (line !== '') starts.set(Number(line), (starts.get(Number(line)) ?? 0) + 1)
    }
    const verdict: Verdict = {
      tasks: tasks.length,
      lost: 0,
      startedTwice: 0,
      identical: 0,
      different: 0,
      notices: { notified: 0, missing: 0, doubled: 0, disordered: 0, forged: 0, ...notices },
      details: [...details],
    }
    const known = new Set(tasks.map((t) => t.id))
    for (const id of this.#acknowledged) {
      if (known.has(id)) continue
      verdict.lost += 1
      verdict.details.push(`task ${id} was acknowledged and is gone`)
    }
    for (const task of tasks) {
      if (task.status !== 'succeeded' || starts.get(task.id) === undefined) {
        verdict.lost += 1
        verdict.details.push(`task ${task.id} is ${task.status}: ${task.failure?.message ?? ''}`)
        continue
      }
      if (starts.get(task.id) !== 1) {
        verdict.startedTwice += 1
        verdict.details.push(`task ${task.id} was started ${starts.get(task.id)} times`)
      }
      if (await this.#isIdentical(task)) verdict.identical += 1
      else {
        verdict.different += 1
        verdict.details.push(`the log of task ${task.id} is not what its program wrote`)
      }
    }
    return verdict
  }

  async #isIdentical(task: Task): Promise<boolean> {
    const stored = await this.#fixture.log(task.id)
    const written = readFileSync(join(this.#oracle, `log-${task.id}`))
    const begin = Buffer.from(`BEGIN ${task.id}\n`)
    const from = stored.indexOf(begin)
    const to = stored.indexOf(`END ${task.id}\n`)
    if (from < 0 || to < 0 || stored.indexOf(begin, from + 1) >= 0) return false
    return task.log_complete && stored.subarray(from + begin.length, to).equals(written)
  }
}
