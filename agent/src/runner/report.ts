// Writes the attempt's events to its event file: all that the control plane and users will ever know of it. Every
// message is masked and truncated here. Invariant: states and results are on disk (fsync) before the runner continues;
// a terminal state is the last record.

import { EVENTS } from '@berth/shared'
import {
  type ArtifactSchema,
  type Assignment,
  type AttemptChangedSchema,
  AttemptState,
  type BackupPartSchema,
  type DeployedServiceSchema,
  type Event,
  EventSchema,
  type ServiceFileNoteSchema,
  type StepChangedSchema,
  StepState,
  type Action as WireAction,
} from '@berth/shared/wire'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { durationFromMs, timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { EventFileWriter } from '../journal/event-file.ts'
import type { CommitFacts } from '../machine/git/git.ts'
import type { Plan } from './plan/plan.ts'

type Body = NonNullable<MessageInitShape<typeof EventSchema>['body']>

export class Reporter {
  readonly #file: EventFileWriter
  readonly #assignment: Assignment
  readonly #mask: (text: string) => string
  #state: AttemptState = AttemptState.STARTING

  constructor(file: EventFileWriter, assignment: Assignment, mask: (text: string) => string) {
    this.#file = file
    this.#assignment = assignment
    this.#mask = mask
  }

  /** Text for users; masks before truncating, so that a cut never leaves part of a value unmasked. */
  text(message: string): string {
    const masked = Buffer.from(this.#mask(message))
    if (masked.length <= EVENTS.messageBytes) return masked.toString()
    return `${masked
      .subarray(0, EVENTS.messageBytes - 4)
      .toString()
      .replace(/\uFFFD+$/, '')}…`
  }

  /** States never move back: a late CANCELING after the verdict is dropped. */
  attempt(change: MessageInitShape<typeof AttemptChangedSchema> & { state: AttemptState }): void {
    if (change.state <= this.#state) return
    this.#state = change.state
    const message = this.text(change.message ?? '')
    this.#append({ case: 'attempt', value: { ...change, message } }, true)
  }

  /** The place among those that wait for a build slot; 0: the wait is over. Not a new state, so it is not synced. */
  waiting(place: number): void {
    if (this.#state !== AttemptState.RUNNING) return
    const waitingFor = place > 0 ? 'build' : ''
    const value = { state: AttemptState.RUNNING, waitingFor, waitingPlace: place }
    this.#append({ case: 'attempt', value }, false)
  }

  plan(plan: Plan): void {
    const phases = plan.phases.map(({ name, title, steps }) => ({
      name,
      title,
      steps: steps.map((step) => ({ stepId: step.id, title: this.text(step.title) })),
    }))
    this.#append({ case: 'plan', value: { phases } }, true)
  }

  step(change: MessageInitShape<typeof StepChangedSchema> & { state: StepState }): void {
    const isEnd = change.state !== StepState.RUNNING && change.state !== StepState.SKIPPED
    const message = this.text(change.message ?? '')
    this.#append({ case: 'step', value: { ...change, message } }, isEnd)
  }

  commit(facts: CommitFacts, ref: string): void {
    const value = {
      commitSha: facts.sha,
      ref,
      subject: this.text(facts.subject),
      authorName: this.text(facts.author),
      committedAt: timestampFromDate(facts.committedAt),
    }
    this.#append({ case: 'commit', value }, true)
  }

  serviceFile(
    path: string,
    sha256: Uint8Array,
    notes: MessageInitShape<typeof ServiceFileNoteSchema>[],
  ): void {
    this.#append({ case: 'serviceFile', value: { path, sha256, notes } }, true)
  }

  services(services: MessageInitShape<typeof DeployedServiceSchema>[]): void {
    this.#append({ case: 'services', value: { services } }, true)
  }

  actions(actions: Omit<WireAction, '$typeName' | '$unknown'>[]): void {
    this.#append({ case: 'actions', value: { actions } }, true)
  }

  artifacts(
    artifacts: (MessageInitShape<typeof ArtifactSchema> & { relativePath: string })[],
    truncated: boolean,
  ): void {
    const shown = artifacts.map((one) => ({ ...one, relativePath: this.text(one.relativePath) }))
    this.#append({ case: 'artifacts', value: { artifacts: shown, truncated } }, true)
  }

  backup(backupId: string, parts: MessageInitShape<typeof BackupPartSchema>[]): void {
    this.#append({ case: 'backup', value: { backupId, parts } }, true)
  }

  backupsRemoved(backupIds: string[]): void {
    this.#append({ case: 'backupsRemoved', value: { backupIds } }, true)
  }

  warning(code: string, message: string, stepId: string): void {
    this.#append({ case: 'warning', value: { code, message: this.text(message), stepId } }, true)
  }

  #append(body: Body, sync: boolean): void {
    const event: Event = create(EventSchema, {
      at: timestampFromDate(new Date()),
      attemptId: this.#assignment.attemptId,
      fence: this.#assignment.fence,
      body,
    })
    this.#file.append(event, { sync })
  }
}

export const toDuration = (ms: number) => durationFromMs(Math.max(0, Math.round(ms)))
