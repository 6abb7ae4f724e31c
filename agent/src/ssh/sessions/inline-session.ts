// A short session, which the daemon itself serves on the requesting connection: a few files, for which starting a
// process would take longer than sending them. It ends with its work, input, connection or time, or when the daemon
// ends it; a restart of the daemon cuts it, and the client then requests the rest again.
import type { Socket } from 'node:net'
import { sumSizes } from '../../files/reading.ts'
import { SSH_SESSIONS } from '../../limits/ssh.ts'
import { describeError, type Log } from '../../log.ts'
import type { AgentSettings } from '../../settings.ts'
import { startArtifact, startArtifacts } from '../commands/artifact.ts'
import { inputEnded, NOT_AVAILABLE, type Verb } from '../commands/commands.ts'
import type { Work } from '../commands/work.ts'
import type { SessionResult } from './book.ts'
import { type Ending, encodeFrame, FRAME, type Frame } from './frames.ts'
import { outputTo } from './output.ts'

type ShortVerb = Extract<Verb, { verb: 'artifact' | 'artifacts' }>

export interface ShortSession {
  done: Promise<SessionResult>
  end(reason: string, ending: Ending): void
}

/** Files of the environment with few bytes in total; missing files count as 0, so their refusal is quick too. */
export function isShort(
  settings: AgentSettings,
  environmentId: number | null,
  verb: Verb,
): verb is ShortVerb {
  if (environmentId === null || (verb.verb !== 'artifact' && verb.verb !== 'artifacts'))
    return false
  const ids = verb.verb === 'artifact' ? [verb.artifactId] : verb.artifactIds
  return sumSizes(settings, ids, environmentId) <= SSH_SESSIONS.shortBytes
}

interface ShortOptions {
  settings: AgentSettings
  environmentId: number
  verb: ShortVerb
  untilMs: number
  log: Log
}

export function serveShort(
  connection: Socket,
  listen: (on: (frame: Frame) => void) => void,
  { settings, environmentId, verb, untilMs, log }: ShortOptions,
): ShortSession {
  const ended = Promise.withResolvers<{ reason: string; ending: Ending }>()
  const end: ShortSession['end'] = (reason, ending) => ended.resolve({ reason, ending })
  let bytesSent = 0
  const output = outputTo(connection, (bytes) => {
    bytesSent += bytes
  })
  const over = { code: NOT_AVAILABLE, message: 'The time granted for this session is over.' }
  const timer = setTimeout(() => end('until', over), Math.max(0, untilMs - Date.now()))
  connection.once('close', () => end('disconnected', { code: NOT_AVAILABLE }))
  listen(({ kind }) => {
    if (kind === FRAME.end) end('input_ended', inputEnded(verb))
  })
  const work: Work =
    verb.verb === 'artifact'
      ? startArtifact(settings, { environmentId }, verb, output)
      : startArtifacts(settings, { environmentId }, verb, output)
  work.done.then(
    (ending) => end('done', ending),
    (error: unknown) => {
      log.error({ verb: verb.verb, ...describeError(error) }, 'an SSH session failed')
      end('failed', { code: 70, message: 'It failed; the agent’s log says why.' })
    },
  )
  const finish = async (): Promise<SessionResult> => {
    const { reason, ending } = await ended.promise
    clearTimeout(timer)
    connection.end(encodeFrame(FRAME.exit, JSON.stringify(ending)))
    // a reader that stopped reading must not block the work
    if (reason !== 'done') setTimeout(() => connection.destroy(), SSH_SESSIONS.killMs).unref()
    await work.end()
    return { reason, bytesSent, exitCode: reason === 'done' ? ending.code : null }
  }
  return { done: finish(), end }
}
