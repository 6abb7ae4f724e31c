// Tells every peer which logs people watch here, because any of them may receive those logs. One call to each live peer,
// open while something is watched. A lost one costs delay, not lines, and is opened again within `lookMs`.
import { type WatchRequest, WatchRequestSchema } from '@berth/shared/wire/peers'
import { create } from '@bufbuild/protobuf'
import type { ClientWritableStream } from '@grpc/grpc-js'
import { PEERS } from '../limits/peers.ts'
import type { Directory, PeerConnections } from './connections.ts'

export interface LocalWatchers {
  /** Calls back when the first one here begins to watch a log, and when the last one ends. */
  onHere(listener: (attemptId: string, watched: boolean) => void): () => void
}

type Call = ClientWritableStream<WatchRequest>

const UNSENT = 1_000 // messages that a peer has not read; then it starts over with the whole list

export class PeerWatching {
  readonly #connections: PeerConnections
  readonly #directory: Directory & { readonly id: string }
  readonly #watched = new Set<string>()
  readonly #calls = new Map<string, Call>()
  #stop: () => void = () => {}
  #timer: NodeJS.Timeout | undefined
  #isLooking = false

  constructor(connections: PeerConnections, directory: Directory & { readonly id: string }) {
    this.#connections = connections
    this.#directory = directory
  }

  start(watchers: LocalWatchers): void {
    this.#stop = watchers.onHere((id, watched) => {
      if (watched) this.#watched.add(id)
      else this.#watched.delete(id)
      for (const call of this.#calls.values()) send(call, watched ? [id] : [], watched ? [] : [id])
      if (this.#watched.size === 0) this.#rest()
      else if (!this.#timer) this.#begin()
    })
  }

  close(): void {
    this.#stop()
    this.#watched.clear()
    this.#rest()
  }

  #begin(): void {
    const look = (): void => {
      if (this.#isLooking) return
      this.#isLooking = true
      this.#look()
        .catch(() => undefined) // the database is away; the next look comes soon
        .finally(() => {
          this.#isLooking = false
        })
    }
    this.#timer = setInterval(look, PEERS.lookMs).unref()
    look()
  }

  #rest(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
    for (const call of this.#calls.values()) call.end()
    this.#calls.clear()
  }

  async #look(): Promise<void> {
    const peers = await this.#directory.listLive()
    const others = peers.filter(({ id }) => id !== this.#directory.id && !this.#calls.has(id))
    await Promise.all(others.map(({ id }) => this.#open(id)))
  }

  async #open(replicaId: string): Promise<void> {
    const connection = await this.#connections.reach(replicaId)
    if (!connection || this.#watched.size === 0) return
    const call = connection.client.watch(() => {
      done()
      if (this.#calls.get(replicaId) === call) this.#calls.delete(replicaId)
    })
    const done = connection.use(() => call.cancel())
    call.on('error', () => undefined) // the callback above handles it
    this.#calls.set(replicaId, call)
    const all = [...this.#watched]
    for (let at = 0; at < all.length; at += PEERS.watchedPerMessage) {
      send(call, all.slice(at, at + PEERS.watchedPerMessage), [])
    }
  }
}

function send(call: Call, begunAttemptIds: string[], endedAttemptIds: string[]): void {
  call.write(create(WatchRequestSchema, { begunAttemptIds, endedAttemptIds }))
  if (call.writableLength > UNSENT) call.cancel()
}
