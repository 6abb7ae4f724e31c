// The only double of the test platform: instead of a detached runner, a function of the test plays the attempt. It
// speaks through the same files (claim, events, spool) as the real runner; daemon and control plane notice nothing.
import { existsSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import {
  type Assignment,
  AssignmentSchema,
  AttemptState,
  EventSchema,
  FailureCode,
  LogSource,
  StepState,
  type TaskSecrets,
} from '@berth/shared/wire'
import { create, fromBinary, type MessageInitShape } from '@bufbuild/protobuf'
import { durationFromMs } from '@bufbuild/protobuf/wkt'
import type { Executor, SpawnRequest } from '../agent/src/attempts/executor.ts'
import { readBootId, readStartTicks } from '../agent/src/exec/processes.ts'
import { attemptPaths, takeClaim } from '../agent/src/journal/attempt-files.ts'
import { EventFileWriter } from '../agent/src/journal/event-file.ts'
import { SpoolWriter } from '../agent/src/journal/spool-writer.ts'
import { claimHosts } from '../agent/src/runner/hosts.ts'
import { until } from './lab.ts'

type Body = NonNullable<MessageInitShape<typeof EventSchema>['body']>

type Plan = { name: string; title: string; steps: { stepId: string; title: string }[] }[]

/** Ends of attempts that are the platform's own word, not that of a command. */
const COMMANDS = new Set<FailureCode>([FailureCode.STEP_FAILED, FailureCode.OUT_OF_MEMORY])

/** What a script may do; it must end with succeed, fail or cancel. */
export class ScriptedAttempt {
  readonly assignment: Assignment
  readonly secrets: TaskSecrets
  readonly #dir: string
  readonly #paths: ReturnType<typeof attemptPaths>
  readonly #events: EventFileWriter
  readonly #spool: SpoolWriter
  #from = 0
  #begunAt = 0
  #plan: Plan = []
  #index = -1
  #stepId = ''
  #isCheckedOut = false
  #services: { name: string; hosts?: string[]; port?: number; url?: string }[] = []

  constructor(dir: string, secrets: TaskSecrets, hasPlans: boolean) {
    this.#dir = dir
    this.#paths = attemptPaths(dir)
    this.assignment = fromBinary(AssignmentSchema, readFileSync(this.#paths.spec))
    this.secrets = secrets
    this.#events = EventFileWriter.create(this.#paths.events)
    this.#spool = SpoolWriter.create(this.#paths.log)
    this.emit({ case: 'attempt', value: { state: AttemptState.RUNNING } })
    if (this.isDestroy) this.step('stop', 'Stop what still runs', 'cleanup')
    else if (!(hasPlans && this.isDeploy)) this.step('1', 'Play')
  }

  /** A removal: it succeeds without a commit and without services. */
  get isDestroy(): boolean {
    return this.assignment.spec?.kind.case === 'destroy'
  }

  get isDeploy(): boolean {
    return this.assignment.spec?.kind.case === 'deploy'
  }

  /** Everything that is to be done; its steps are then begun in this order. */
  plan(phases: Plan): void {
    this.#plan = phases
    this.emit({ case: 'plan', value: { phases } })
  }

  /** The step before, if any, has succeeded; the plan grows by this one if it does not hold it, and it runs. */
  step(stepId: string, title: string, phase = 'run'): void {
    if (this.#stepId !== '') this.#step(StepState.SUCCEEDED)
    if (!this.#plan.some(({ steps }) => steps.some((s) => s.stepId === stepId))) {
      const last = this.#plan.at(-1)
      const into = last?.name === phase ? last : { name: phase, title: phase, steps: [] }
      if (into !== last) this.#plan.push(into)
      into.steps.push({ stepId, title })
      this.emit({ case: 'plan', value: { phases: this.#plan } })
    }
    this.emit({ case: 'step', value: { stepId, state: StepState.RUNNING } })
    this.#stepId = stepId
    this.#index += 1
    this.#from = 0
    this.#begunAt = performance.now()
  }

  /** The commit that was checked out. */
  checkedOut(commitSha: string): void {
    this.#isCheckedOut = true
    this.emit({ case: 'commit', value: { commitSha, subject: 'Fix totals' } })
  }

  emit(body: Body): void {
    const { attemptId, fence } = this.assignment
    this.#events.append(create(EventSchema, { attemptId, fence, body }), { sync: true })
  }

  say(text: string): void {
    this.#from ||= this.#spool.lastSeq + 1
    this.#spool.append(Date.now() * 1_000, LogSource.STDOUT, this.#index, Buffer.from(text))
    this.#spool.flush()
  }

  /** As the step claim-hosts does; rejects with the StepFailure that would end it. */
  async claimHosts(hosts: string[], waitMs?: number): Promise<void> {
    const { assignment } = this
    if (!assignment.spec) throw new Error('the assignment has no specification')
    const settings = { stateDir: dirname(dirname(this.#dir)) }
    const output = { say: (text: string) => this.say(`${text}\n`) }
    const wait = async (ms: number): Promise<void> => void (await setTimeout(ms))
    const claimant = { settings, assignment, spec: assignment.spec, output, interruption: { wait } }
    await claimHosts(claimant, hosts, waitMs)
  }

  /** What its success will say that serves. */
  serve(services: { name: string; hosts?: string[]; port?: number; url?: string }[]): void {
    this.#services = services
  }

  /** Resolves when somebody asked the attempt to stop. */
  stopAsked(): Promise<true> {
    return until('a stop', () => existsSync(this.#paths.stop) || undefined)
  }

  succeed(port = 0): void {
    if (this.isDeploy && !this.#isCheckedOut) {
      this.checkedOut(this.assignment.spec?.repository?.commitSha || 'c'.repeat(40))
    }
    this.#step(StepState.SUCCEEDED)
    const services = port ? [{ name: 'web', port }] : this.#services
    if (this.isDeploy) this.emit({ case: 'services', value: { services } })
    this.#end({ state: AttemptState.SUCCEEDED })
  }

  fail(message: string, exitCode = 1, code: FailureCode = FailureCode.STEP_FAILED): void {
    this.#step(StepState.FAILED, message, exitCode)
    const platformCheck = !COMMANDS.has(code)
    const state = AttemptState.FAILED
    this.#end({ state, code, message, exitCode, failedStepId: this.#stepId, platformCheck })
  }

  cancel(): void {
    this.emit({ case: 'attempt', value: { state: AttemptState.CANCELING } })
    this.#step(StepState.CANCELED)
    this.#end({ state: AttemptState.CANCELED })
  }

  #step(state: StepState, message = '', exitCode = 0): void {
    const firstLogSeq = BigInt(this.#from)
    const lastLogSeq = BigInt(this.#spool.lastSeq)
    const duration = durationFromMs(Math.round(performance.now() - this.#begunAt))
    const range = { firstLogSeq, lastLogSeq, duration }
    const value = { stepId: this.#stepId, state, message, exitCode, ...range }
    this.emit({ case: 'step', value })
  }

  #end(value: Extract<Body, { case: 'attempt' }>['value']): void {
    const { finalSeq, sha256, bytesTotal } = this.#spool.finish()
    const log = {
      finalLogSeq: BigInt(finalSeq),
      logSha256: sha256,
      logBytesTotal: BigInt(bytesTotal),
    }
    this.emit({ case: 'attempt', value: { ...value, ...log } })
    this.#events.close()
  }
}

export type Script = (attempt: ScriptedAttempt) => void | Promise<void>

export class ScriptedExecutor implements Executor {
  script: Script = (attempt) => {
    attempt.say('hello\n')
    attempt.succeed()
  }
  /** Scripts of deployments give their plan themselves; others get one with a single step. */
  hasPlans = false
  /** How often each attempt was started: more than once is a defect. */
  readonly starts = new Map<string, number>()
  readonly #playing = new Set<string>()
  errors: unknown[] = []

  spawnRunner({ dir, attemptId, secrets, onExit }: SpawnRequest) {
    this.starts.set(attemptId, (this.starts.get(attemptId) ?? 0) + 1)
    this.#playing.add(attemptId)
    const playing = (async () => {
      if (!takeClaim(dir, 'runner', readBootId())) return
      await this.script(new ScriptedAttempt(dir, secrets, this.hasPlans))
    })()
    playing
      .catch((error: unknown) => this.errors.push(error))
      .finally(() => {
        this.#playing.delete(attemptId)
        onExit()
      })
    // the claim names this very process: while an attempt plays it is alive
    return { pid: process.pid, startTicks: readStartTicks(process.pid) ?? '' }
  }

  isAlive(): boolean {
    return this.#playing.size > 0
  }

  poke(): void {}

  killRest(): void {}
}
