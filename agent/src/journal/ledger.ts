// What this agent owns on the machine beyond a single attempt: ports, processes of services, objects of the Docker
// engine, the last successful plan of each environment. SQLite (WAL, FULL), opened by daemon, runners and supervisors;
// each call is one transaction. Invariant: a row is committed before the object it names is created, so every object of
// ours has an owner.
import { closeSync, mkdirSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { STEPS } from '@berth/shared'
import Database from 'better-sqlite3'
import type { AgentSettings, PortRange } from '../settings.ts'
import { ARTIFACTS_SCHEMA, ArtifactTable } from './artifact-table.ts'
import { DATA_WORK_SCHEMA, DataWorkTable } from './data-work.ts'
import { OBJECTS_SCHEMA, Objects } from './objects.ts'
import { USAGE_SCHEMA, UsageTable } from './usage.ts'

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS ports (
    environment_id INTEGER NOT NULL, service TEXT NOT NULL, slot INTEGER NOT NULL, port INTEGER NOT NULL UNIQUE,
    PRIMARY KEY (environment_id, service, slot)
  ) STRICT;
  CREATE TABLE IF NOT EXISTS held_ports (
    port INTEGER PRIMARY KEY, environment_id INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS processes (
    environment_id INTEGER NOT NULL, service TEXT NOT NULL, task_id INTEGER NOT NULL, attempt_id TEXT NOT NULL,
    state TEXT NOT NULL, port INTEGER, instructions TEXT NOT NULL,
    PRIMARY KEY (environment_id, service, task_id)
  ) STRICT;
  CREATE TABLE IF NOT EXISTS plans (
    environment_id INTEGER PRIMARY KEY, task_id INTEGER NOT NULL, fence TEXT NOT NULL, commit_sha TEXT NOT NULL,
    body TEXT NOT NULL, at TEXT NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS stopped_services (
    environment_id INTEGER NOT NULL, service TEXT NOT NULL, task_id INTEGER NOT NULL,
    PRIMARY KEY (environment_id, service)
  ) STRICT;
  CREATE TABLE IF NOT EXISTS draining (
    environment_id INTEGER NOT NULL, service TEXT NOT NULL, task_id INTEGER NOT NULL, until INTEGER NOT NULL,
    PRIMARY KEY (environment_id, service, task_id)
  ) STRICT;
  ${OBJECTS_SCHEMA}
  ${USAGE_SCHEMA}
  ${ARTIFACTS_SCHEMA}
  ${DATA_WORK_SCHEMA}
`

const OF_ENVIRONMENTS = [
  'plans',
  'processes',
  'ports',
  'held_ports',
  'objects',
  'growths',
  'usage',
  'ceilings',
  'artifacts',
  'stopped_services',
  'draining',
  'data_work',
]

/**
 * starting: created by a deployment that has not succeeded. serving: of the running version. paused: of the running
 * version, stopped while `attemptId` tries its successor. retired: replaced, to be stopped.
 */
type ProcessState = 'starting' | 'serving' | 'paused' | 'retired'

export interface ProcessRow {
  environmentId: number
  service: string
  taskId: number
  /** The attempt that starts or replaces it. */
  attemptId: string
  state: ProcessState
  port: number | undefined
  /** The supervisor's instructions as JSON: enough to start it again after a reboot. Holds no values of variables. */
  instructions: string
}

/** A replaced service that still answers requests; the daemon ends it when none is left, or at `until`. */
export interface Draining {
  environmentId: number
  service: string
  /** The deployment that started it. */
  taskId: number
  /** Wall clock, because it must survive a restart of the daemon. */
  until: number
}

type DrainingKey = Pick<Draining, 'environmentId' | 'service' | 'taskId'>

interface HeldPort {
  port: number
  environmentId: number
}

export interface StoredPlan {
  environmentId: number
  taskId: number
  fence: bigint
  commit: string
  /** JSON (runner/plan/plan.ts, LastPlan). */
  body: string
}

interface RawProcess {
  environment_id: number
  service: string
  task_id: number
  attempt_id: string
  state: string
  port: number | null
  instructions: string
}

interface RawPlan {
  environment_id: number
  task_id: number
  fence: string
  commit_sha: string
  body: string
}

const toProcess = (row: RawProcess): ProcessRow => ({
  environmentId: row.environment_id,
  service: row.service,
  taskId: row.task_id,
  attemptId: row.attempt_id,
  state: row.state as ProcessState,
  port: row.port ?? undefined,
  instructions: row.instructions,
})

export class PortsExhausted extends Error {
  override readonly name = 'PortsExhausted'
}

export const ledgerFile = (settings: Pick<AgentSettings, 'stateDir'>): string =>
  join(settings.stateDir, 'ledger.db')

export class Ledger {
  readonly #db: Database.Database
  readonly #range: PortRange
  readonly objects: Objects
  readonly usage: UsageTable
  readonly artifacts: ArtifactTable
  readonly dataWork: DataWorkTable

  constructor(settings: Pick<AgentSettings, 'stateDir' | 'portRange'>) {
    this.#range = settings.portRange ?? { from: STEPS.portFrom, to: STEPS.portTo }
    mkdirSync(settings.stateDir, { recursive: true, mode: 0o711 })
    closeSync(openSync(ledgerFile(settings), 'a', 0o600)) // the files beside it get its mode
    this.#db = new Database(ledgerFile(settings), { timeout: 10_000 })
    this.#db.pragma('journal_mode = WAL')
    this.#db.pragma('synchronous = FULL')
    this.#db.exec(SCHEMA)
    this.objects = new Objects(this.#db)
    this.usage = new UsageTable(this.#db)
    this.artifacts = new ArtifactTable(this.#db)
    this.dataWork = new DataWorkTable(this.#db)
  }

  close(): void {
    this.#db.close()
  }

  /**
   * Returns `count` ports for a service, chosen once and kept. `isFree` checks the machine; a kept port that is taken
   * and not in use by the running version (`serving`) is replaced.
   */
  reservePorts(
    environmentId: number,
    service: string,
    count: number,
    isFree: (port: number) => boolean,
    serving: number | undefined,
  ): number[] {
    return this.#db
      .transaction(() => {
        const ports: number[] = []
        for (let slot = 0; slot < count; slot += 1) {
          const kept = this.#db
            .prepare('SELECT port FROM ports WHERE environment_id = ? AND service = ? AND slot = ?')
            .pluck()
            .get(environmentId, service, slot) as number | undefined
          const isUsable = kept !== undefined && (kept === serving || isFree(kept))
          const port = isUsable ? kept : this.#freePort(isFree)
          this.#db
            .prepare(
              'INSERT OR REPLACE INTO ports (environment_id, service, slot, port) VALUES (?, ?, ?, ?)',
            )
            .run(environmentId, service, slot, port)
          ports.push(port)
        }
        return ports
      })
      .immediate()
  }

  #freePort(isFree: (port: number) => boolean): number {
    const taken = new Set(this.listHeldPorts().map(({ port }) => port))
    const { from, to } = this.#range
    for (let port = from; port <= to; port += 1) {
      if (!taken.has(port) && isFree(port)) return port
    }
    throw new PortsExhausted(`No port from ${from} to ${to} is free on this server.`)
  }

  /**
   * Reserves the fixed ports that an attempt wants, beside those of the running version. Undefined: the environment
   * owns them from here on, even while nothing listens there. Otherwise returns one that another environment holds, and
   * changes nothing.
   */
  holdPorts(environmentId: number, ports: readonly number[]): HeldPort | undefined {
    return this.#db
      .transaction(() => {
        const wanted = new Set(ports)
        const others = this.listHeldPorts().filter((held) => held.environmentId !== environmentId)
        const taken = others.find(({ port }) => wanted.has(port))
        if (taken) return taken
        this.#db.prepare('DELETE FROM held_ports WHERE environment_id = ?').run(environmentId)
        const put = this.#db.prepare('INSERT INTO held_ports (port, environment_id) VALUES (?, ?)')
        for (const port of wanted) put.run(port, environmentId)
        return undefined
      })
      .immediate()
  }

  /** Every port that belongs to an environment: wanted, reserved, of the running version, or of an existing process. */
  listHeldPorts(): HeldPort[] {
    const rows = this.#db
      .prepare(
        `SELECT port, environment_id AS environmentId FROM held_ports
         UNION SELECT port, environment_id FROM ports
         UNION SELECT port, environment_id FROM processes WHERE port IS NOT NULL
         UNION SELECT own.value, environment_id FROM plans, json_each(body, '$.ports') AS own
         ORDER BY port`,
      )
      .all()
    return rows as HeldPort[]
  }

  putProcess(row: ProcessRow): void {
    this.#db
      .prepare('INSERT OR REPLACE INTO processes VALUES (?, ?, ?, ?, ?, ?, ?)')
      .run(
        row.environmentId,
        row.service,
        row.taskId,
        row.attemptId,
        row.state,
        row.port ?? null,
        row.instructions,
      )
  }

  listProcesses(environmentId?: number): ProcessRow[] {
    const sql =
      'SELECT * FROM processes WHERE ? IS NULL OR environment_id = ? ORDER BY task_id, service'
    const id = environmentId ?? null
    return (this.#db.prepare(sql).all(id, id) as RawProcess[]).map(toProcess)
  }

  removeProcess(row: Pick<ProcessRow, 'environmentId' | 'service' | 'taskId'>): void {
    this.#db
      .prepare('DELETE FROM processes WHERE environment_id = ? AND service = ? AND task_id = ?')
      .run(row.environmentId, row.service, row.taskId)
  }

  setProcessState(row: ProcessRow, state: ProcessState, attemptId: string): void {
    this.#db
      .prepare(
        'UPDATE processes SET state = ?, attempt_id = ? WHERE environment_id = ? AND service = ? AND task_id = ?',
      )
      .run(state, attemptId, row.environmentId, row.service, row.taskId)
  }

  /**
   * Makes a deployment the running version: its processes, the named containers and the images of this attempt serve;
   * all other processes and containers of the environment retire.
   */
  saveSuccess(plan: StoredPlan, containers: string[] = [], attemptId?: string): void {
    this.#db
      .transaction(() => {
        this.#db
          .prepare('INSERT OR REPLACE INTO plans VALUES (?, ?, ?, ?, ?, ?)')
          .run(
            plan.environmentId,
            plan.taskId,
            String(plan.fence),
            plan.commit,
            plan.body,
            new Date().toISOString(),
          )
        this.#db
          .prepare(
            "UPDATE processes SET state = CASE task_id WHEN ? THEN 'serving' ELSE 'retired' END WHERE environment_id = ?",
          )
          .run(plan.taskId, plan.environmentId)
        this.objects.serve(plan.environmentId, containers, attemptId)
        this.#forgetStops(plan.environmentId)
      })
      .immediate()
  }

  /**
   * From here on no version of the environment runs: the plan is deleted, and the next recovery ends its processes and
   * containers, even if the runner that called this dies.
   */
  endVersion(environmentId: number): void {
    this.#db
      .transaction(() => {
        this.#db.prepare('DELETE FROM plans WHERE environment_id = ?').run(environmentId)
        this.#db
          .prepare("UPDATE processes SET state = 'retired' WHERE environment_id = ?")
          .run(environmentId)
        this.objects.serve(environmentId, [])
        this.#forgetStops(environmentId)
        this.#db.prepare('DELETE FROM draining WHERE environment_id = ?').run(environmentId)
      })
      .immediate()
  }

  /** Services of the running version that a task stopped. They stay stopped until a task or a deployment starts them. */
  listStopped(environmentId: number): Set<string> {
    const sql = 'SELECT service FROM stopped_services WHERE environment_id = ?'
    return new Set(this.#db.prepare(sql).pluck().all(environmentId) as string[])
  }

  setStopped(environmentId: number, service: string, taskId: number): void {
    const sql = 'INSERT OR REPLACE INTO stopped_services VALUES (?, ?, ?)'
    this.#db.prepare(sql).run(environmentId, service, taskId)
  }

  setStarted(environmentId: number, service: string): void {
    const sql = 'DELETE FROM stopped_services WHERE environment_id = ? AND service = ?'
    this.#db.prepare(sql).run(environmentId, service)
  }

  #forgetStops(environmentId: number): void {
    this.#db.prepare('DELETE FROM stopped_services WHERE environment_id = ?').run(environmentId)
  }

  setDraining({ environmentId, service, taskId, until }: Draining): void {
    const sql = 'INSERT OR REPLACE INTO draining VALUES (?, ?, ?, ?)'
    this.#db.prepare(sql).run(environmentId, service, taskId, until)
  }

  listDraining(environmentId?: number): Draining[] {
    const id = environmentId ?? null
    const rows = this.#db
      .prepare(
        `SELECT environment_id AS environmentId, service, task_id AS taskId, until FROM draining
         WHERE ? IS NULL OR environment_id = ? ORDER BY environment_id, task_id, service`,
      )
      .all(id, id)
    return rows as Draining[]
  }

  /** Whether the daemon still waits for its requests, so that no other work ends it. */
  isDraining({ environmentId, service, taskId }: DrainingKey): boolean {
    return this.listDraining(environmentId).some(
      (row) => row.service === service && row.taskId === taskId,
    )
  }

  removeDraining({ environmentId, service, taskId }: DrainingKey): void {
    const sql = 'DELETE FROM draining WHERE environment_id = ? AND service = ? AND task_id = ?'
    this.#db.prepare(sql).run(environmentId, service, taskId)
  }

  /** Nothing of the environment is left here, so its ports are free for others. */
  forget(environmentId: number): void {
    this.#db
      .transaction(() => {
        for (const table of OF_ENVIRONMENTS) {
          this.#db.prepare(`DELETE FROM ${table} WHERE environment_id = ?`).run(environmentId)
        }
      })
      .immediate()
  }

  /** Which deployment runs in each environment. */
  listVersions(): Map<number, number> {
    const rows = this.#db.prepare('SELECT environment_id, task_id FROM plans').raw().all()
    return new Map(rows as [number, number][])
  }

  findPlan(environmentId: number): StoredPlan | undefined {
    return this.listPlans(environmentId)[0]
  }

  /** The running version of one environment, or of each. */
  listPlans(environmentId?: number): StoredPlan[] {
    const id = environmentId ?? null
    const rows = this.#db
      .prepare('SELECT * FROM plans WHERE ? IS NULL OR environment_id = ? ORDER BY environment_id')
      .all(id, id) as RawPlan[]
    return rows.map((row) => ({
      environmentId: row.environment_id,
      taskId: row.task_id,
      fence: BigInt(row.fence),
      commit: row.commit_sha,
      body: row.body,
    }))
  }
}
