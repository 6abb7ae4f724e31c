// The daemon's half of claim-hosts: sends the questions of runners (journal/hostname-files.ts) to the control plane and
// writes the answers. The question file is the queue, so the end of a session or a daemon restart loses nothing, and
// repeating a question is harmless, because the call is idempotent. Only a final refusal is an answer; other failures
// are retried for as long as the runner lives.
import { HOST_CLAIMS } from '@berth/shared'
import { type ClaimHostsResponse, HostVerdict } from '@berth/shared/wire'
import { status as Status } from '@grpc/grpc-js'
import type { AttemptManager } from '../attempts/attempt-manager.ts'
import type { Clock } from '../clock.ts'
import {
  answerHosts,
  type HostAnswer,
  type HostQuestion,
  type HostVerdictWord,
  openHostQuestion,
} from '../journal/hostname-files.ts'
import type { Journal } from '../journal/journal.ts'
import { describeError, type Log } from '../log.ts'
import { type AgentSettings, attemptDir } from '../settings.ts'

export interface HostClaimsOptions {
  settings: AgentSettings
  journal: Journal
  manager: AttemptManager
  clock: Clock
  log: Log
  /** Rejects immediately while there is no session. */
  claim(attemptId: string, fence: bigint, hosts: string[]): Promise<ClaimHostsResponse>
}

/** The control plane would give the same answer to every retry. */
const FINAL = new Set<number>([
  Status.PERMISSION_DENIED,
  Status.FAILED_PRECONDITION,
  Status.INVALID_ARGUMENT,
  Status.UNIMPLEMENTED,
])

const WORDS: Partial<Record<HostVerdict, HostVerdictWord>> = {
  [HostVerdict.GRANTED]: 'granted',
  [HostVerdict.TAKEN]: 'taken',
  [HostVerdict.NOT_ALLOWED]: 'not_allowed',
}

const cut = (text: string): string => text.slice(0, HOST_CLAIMS.messageLength)

const toAnswer = (id: string, { claims }: ClaimHostsResponse): HostAnswer => ({
  id,
  claims: claims.map(({ host, verdict, message }) => {
    // a verdict of a newer control plane that this build does not know is not a grant
    return { host, verdict: WORDS[verdict] ?? 'not_allowed', message: cut(message) }
  }),
  refused: '',
})

/** Returns a function that stops it. */
export function answerHostClaims(options: HostClaimsOptions): () => void {
  const { settings, journal, manager, clock, log } = options
  /** Attempts with an open question, and when each may be asked again. */
  const notBefore = new Map<string, number>()
  let isOpen = true

  /** Returns when the attempt may be asked again. */
  async function ask(attemptId: string, question: HostQuestion): Promise<number> {
    const dir = attemptDir(settings, attemptId)
    const later = (): number => clock.mono() + HOST_CLAIMS.retryMs
    const row = journal.attempts.find(attemptId)
    if (!row) return later()
    try {
      const hosts = question.hosts.slice(0, HOST_CLAIMS.hosts)
      const response = await options.claim(attemptId, row.fence, hosts)
      if (isOpen) answerHosts(dir, toAnswer(question.id, response))
      return 0
    } catch (error) {
      const { code, details } = error as { code?: number; details?: string }
      if (!isOpen) return later()
      if (code === undefined || !FINAL.has(code)) {
        log.debug({ attemptId, ...describeError(error) }, 'host names were not confirmed yet')
        return later()
      }
      log.warn({ attemptId, ...describeError(error) }, 'host names were refused')
      answerHosts(dir, { id: question.id, claims: [], refused: cut(details || 'it was refused.') })
      return 0
    }
  }

  function look(): void {
    const live = new Set(manager.liveIds())
    for (const id of notBefore.keys()) if (!live.has(id)) notBefore.delete(id)
    for (const id of live) {
      if ((notBefore.get(id) ?? 0) > clock.mono()) continue
      const question = openHostQuestion(attemptDir(settings, id))
      if (!question) continue
      notBefore.set(id, Number.POSITIVE_INFINITY)
      void ask(id, question)
        .catch((error: unknown) => {
          log.error({ attemptId: id, ...describeError(error) }, 'the answer could not be written')
          return clock.mono() + HOST_CLAIMS.retryMs
        })
        .then((at) => notBefore.set(id, at))
    }
  }

  // only runners ask, so polling stops without one
  let timer: NodeJS.Timeout | undefined
  const watch = (): void => {
    timer ??= setInterval(() => {
      look()
      if (manager.liveIds().length > 0) return
      clearInterval(timer)
      timer = undefined
    }, HOST_CLAIMS.pollMs)
  }
  const unlisten = manager.onChange(watch)
  watch()
  return () => {
    isOpen = false
    unlisten()
    clearInterval(timer)
  }
}
