// The log stream of one session: opened after the assignments, resumed at the stored position, ended with the session.
import { LOGS } from '@berth/shared'
import {
  GoodbyeReason,
  type LogDown,
  LogDownSchema,
  type LogOpen,
  parseLogUp,
} from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { durationFromMs } from '@bufbuild/protobuf/wkt'
import type { ServerDuplexStream } from '@grpc/grpc-js'
import type { Context } from '../../context.ts'
import type { Feed, LogIntake } from './log-intake.ts'
import type { AgentSession } from './session.ts'

type Stream = ServerDuplexStream<Buffer, LogDown>

const BACKLOG = 1_024 // unread answers after which the agent is cut off

export function openLogStream(
  ctx: Context,
  call: Stream,
  session: AgentSession,
  intake: LogIntake,
): void {
  new LogStream(ctx, call, session, intake).start()
}

const ack = (attemptId: string, seq: number) => ({
  $typeName: 'berth.agent.v1.LogAck' as const,
  attemptId,
  ackedSeq: BigInt(seq),
})

class LogStream {
  readonly #ctx: Context
  readonly #call: Stream
  readonly #session: AgentSession
  readonly #intake: LogIntake
  /** The logs it feeds, each with what ends its listening for readers elsewhere. */
  readonly #open = new Map<string, () => void>()
  readonly #feed: Feed
  #ready = false
  #ended = false
  #unwatch: () => void = () => {}

  constructor(ctx: Context, call: Stream, session: AgentSession, intake: LogIntake) {
    this.#ctx = ctx
    this.#call = call
    this.#session = session
    this.#intake = intake
    this.#feed = {
      agentId: session.agentId,
      get sessionId() {
        return session.sessionId // given after the session's hello
      },
      acked: (id, acked) => this.#send({ case: 'ack', value: ack(id, acked) }),
      failed: (error) => this.#fail(error),
      isOpen: () => !this.#ended,
    }
  }

  start(): void {
    const call = this.#call
    const end = (): void => this.#end()
    call.on('end', end)
    call.on('cancelled', end)
    call.on('close', end)
    call.on('error', end)
    this.#session.whenClosed(end)
    call.on('data', (bytes: Buffer) => {
      try {
        this.#take(bytes)
      } catch (error) {
        this.#fail(error)
      }
    })
    this.#unwatch = this.#ctx.watchers.onChange((id, watched) => {
      if (this.#open.has(id)) this.#pace(id, watched)
    })
  }

  #take(bytes: Buffer): void {
    if (this.#ended) return
    const message = parseLogUp(bytes)
    if (message.kind === 'open') {
      if (this.#ready) throw new Error('a second LogOpen')
      this.#ready = true
      this.#call.pause()
      this.#resume(message.open).then(
        () => void this.#call.resume(),
        (error: unknown) => this.#fail(error),
      )
      return
    }
    if (!this.#ready) throw new Error('the first message must be LogOpen')
    if (this.#open.has(message.attemptId)) this.#accept(message)
    else this.#admit(message)
  }

  #accept(chunk: Parameters<LogIntake['accept']>[0]): void {
    const accepted = this.#intake.accept(chunk)
    if (accepted.kind === 'hole') {
      const from = [ack(chunk.attemptId, accepted.wanted - 1)]
      this.#send({ case: 'resume', value: { $typeName: 'berth.agent.v1.LogResume', from } })
    }
    if (accepted.kind === 'unknown') this.#stop(chunk.attemptId)
    if (this.#intake.isFull) this.#wait()
  }

  /** Reads on when records were written; until then the connection's window holds the agent back. */
  #wait(): void {
    this.#call.pause()
    this.#intake.room().then(
      () => void this.#call.resume(),
      (error: unknown) => this.#fail(error),
    )
  }

  /** The first chunk of an attempt that began after the stream was opened registers it. */
  #admit(chunk: Parameters<LogIntake['accept']>[0]): void {
    const kept = { ...chunk, records: Buffer.from(chunk.records) }
    this.#call.pause()
    this.#openLog(chunk.attemptId)
      .then((seq) => {
        if (this.#ended) return
        if (seq === undefined) this.#stop(chunk.attemptId)
        else this.#accept(kept)
        this.#call.resume()
      })
      .catch((error: unknown) => this.#fail(error))
  }

  async #resume(open: LogOpen): Promise<void> {
    if (open.sessionId !== this.#session.sessionId)
      throw new Error('a log stream of another session')
    if (!this.#session.takeLogStream()) throw new Error('a second log stream of one session')
    const from: ReturnType<typeof ack>[] = []
    for (const cursor of open.cursors) {
      const seq = await this.#openLog(cursor.attemptId)
      if (seq === undefined) this.#stop(cursor.attemptId)
      else from.push(ack(cursor.attemptId, seq))
    }
    this.#send({ case: 'resume', value: { $typeName: 'berth.agent.v1.LogResume', from } })
  }

  async #openLog(attemptId: string): Promise<number | undefined> {
    const seq = await this.#intake.open(attemptId, this.#feed)
    if (seq === undefined || this.#ended) return undefined
    this.#open.get(attemptId)?.()
    this.#open.set(attemptId, this.#ctx.watchers.listen(attemptId))
    if (this.#ctx.watchers.isWatched(attemptId)) this.#pace(attemptId, true)
    return seq
  }

  #pace(attemptId: string, watched: boolean): void {
    const flushInterval = durationFromMs(watched ? LOGS.watchedFlushMs : LOGS.idleFlushMs)
    this.#send({
      case: 'pace',
      value: { $typeName: 'berth.agent.v1.LogPace', attemptId, flushInterval },
    })
  }

  #stop(attemptId: string): void {
    const message = 'This log is not wanted.'
    this.#send({ case: 'stop', value: { $typeName: 'berth.agent.v1.LogStop', attemptId, message } })
  }

  #send(msg: LogDown['msg']): void {
    if (this.#ended) return
    this.#call.write(create(LogDownSchema, { msg }))
    if (this.#call.writableLength > BACKLOG) this.#fail(new Error('the agent reads nothing'))
  }

  /** Any failure of a stream ends the whole session; the next one resynchronises. */
  #fail(error: unknown): void {
    if (this.#ended) return
    this.#ctx.log.warn({ err: error, agentId: this.#session.agentId }, 'log stream failed')
    this.#session.goodbye(GoodbyeReason.PROTOCOL_ERROR, 'the log stream failed')
    this.#end()
  }

  #end(): void {
    if (this.#ended) return
    this.#ended = true
    this.#unwatch()
    for (const stop of this.#open.values()) stop()
    this.#intake.release(this.#open.keys(), this.#feed)
    this.#call.end()
    this.#session.close()
  }
}
