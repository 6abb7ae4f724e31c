// Tracks the desired set of one session: sent completely at its start, then in parts, each based on the previous
// version. The agent confirms a version when it is in its journal; a confirmed FORGOTTEN releases the attempt
// permanently.
import { SESSION } from '@berth/shared'
import {
  type Assignment,
  AssignmentSchema,
  type Assignments,
  AssignmentsSchema,
  Desired,
} from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { releaseAttempts } from '../../app/deployments/logs.ts'
import type { UnknownAttempt } from '../../app/servers/restored.ts'
import type { Context } from '../../context.ts'
import { listHeldAttempts } from '../../store/deployments/attempts.ts'
import { makeAssignment } from './assignments.ts'

function instruct({ attemptId, environmentId, fence, live }: UnknownAttempt): Assignment {
  const desired = live ? Desired.STOPPED : Desired.FORGOTTEN
  return create(AssignmentSchema, { attemptId, environmentId, fence, desired })
}

export class DesiredState {
  readonly #ctx: Context
  readonly #agentId: string
  readonly #send: (assignments: Assignments) => void
  #version = 0
  #unconfirmed: { version: number; at: number; tries: number } | undefined
  readonly #sent = new Map<string, number>()
  #forgotten: { version: number; attemptId: string }[] = []
  readonly #unknownAttempts = new Map<string, UnknownAttempt>()

  constructor(ctx: Context, agentId: string, send: (assignments: Assignments) => void) {
    this.#ctx = ctx
    this.#agentId = agentId
    this.#send = send
  }

  /** Adds attempts that only the agent knows: they are stopped if live, then forgotten. */
  meet(unknownAttempts: readonly UnknownAttempt[]): void {
    for (const unknown of unknownAttempts) this.#unknownAttempts.set(unknown.attemptId, unknown)
  }

  /** Sends the whole set; it takes effect with the message marked last. */
  async sendComplete(): Promise<void> {
    const assignments: Assignment[] = []
    for (const attempt of await listHeldAttempts(this.#ctx.db, this.#agentId)) {
      assignments.push(await makeAssignment(this.#ctx, attempt))
    }
    for (const unknown of this.#unknownAttempts.values()) assignments.push(instruct(unknown))
    const baseVersion = this.#version
    this.#version += 1
    // one assignment per message, because spec and secrets may be large
    const parts = assignments.length === 0 ? [[]] : assignments.map((a) => [a])
    for (const [i, part] of parts.entries()) {
      this.#sendPart(part, { complete: true, last: i === parts.length - 1, baseVersion })
    }
    const tries = (this.#unconfirmed?.tries ?? 0) + 1
    this.#unconfirmed = { version: this.#version, at: performance.now(), tries }
  }

  async sendChanges(): Promise<void> {
    for (const attempt of await listHeldAttempts(this.#ctx.db, this.#agentId)) {
      if (this.#sent.get(attempt.id) === attempt.desired) continue
      this.#sendChange(await makeAssignment(this.#ctx, attempt))
    }
  }

  /** An unknown attempt has ended, and its reports are stored. */
  forget(attemptId: string): void {
    const unknown = this.#unknownAttempts.get(attemptId)
    if (!unknown?.live) return
    const ended = { ...unknown, live: false }
    this.#unknownAttempts.set(attemptId, ended)
    this.#sendChange(instruct(ended))
  }

  #sendChange(assignment: Assignment): void {
    const baseVersion = this.#version
    this.#version += 1
    this.#sendPart([assignment], { complete: false, last: true, baseVersion })
    this.#unconfirmed ??= { version: this.#version, at: performance.now(), tries: 1 }
    this.#unconfirmed.version = this.#version
  }

  #sendPart(
    assignments: Assignment[],
    part: { complete: boolean; last: boolean; baseVersion: number },
  ): void {
    for (const { attemptId, desired } of assignments) {
      this.#sent.set(attemptId, desired)
      if (desired === Desired.FORGOTTEN) this.#forgotten.push({ version: this.#version, attemptId })
    }
    this.#send(
      create(AssignmentsSchema, {
        complete: part.complete,
        last: part.last,
        baseVersion: BigInt(part.baseVersion),
        version: BigInt(this.#version),
        assignments,
      }),
    )
  }

  async confirm(version: number): Promise<void> {
    if (this.#unconfirmed && version >= this.#unconfirmed.version) this.#unconfirmed = undefined
    const gone = this.#forgotten.filter((f) => f.version <= version).map((f) => f.attemptId)
    if (gone.length === 0) return
    this.#forgotten = this.#forgotten.filter((f) => f.version > version)
    await releaseAttempts(this.#ctx, this.#agentId, gone)
    for (const id of gone) {
      this.#sent.delete(id)
      this.#unknownAttempts.delete(id)
    }
  }

  /** Late: send the complete set again. Given up: the session must end. */
  confirmation(now: number): 'fine' | 'late' | 'given_up' {
    const waiting = this.#unconfirmed
    if (!waiting || now - waiting.at <= SESSION.appliedMs) return 'fine'
    return waiting.tries >= SESSION.appliedTries ? 'given_up' : 'late'
  }
}
