// Answers one DiffCopy of BuildKit: lists the files in order, then sends those that the engine requests, which are only
// those that differ from its copy of the last build with the same key. Each file is sent at most once; a request for an
// unlisted file is an error, and so is a file that changes meanwhile.
import { closeSync, readSync } from 'node:fs'
import type { ServerHttp2Stream } from 'node:http2'
import { setImmediate } from 'node:timers/promises'
import { BUILDS } from '../../../limits/docker.ts'
import { type ContextEntry, checkListed, openListed } from './context.ts'
import {
  encodeDataEnd,
  encodeEnd,
  encodeStat,
  openData,
  PACKET,
  type Packet,
  packetReader,
} from './file-packets.ts'

/** The engine ended the transfer; its answer to the build says why. */
export class TakenBack extends Error {
  override readonly name = 'TakenBack'
}

/** Collects messages and sends them together; waits for the engine to accept them. */
function openBatch(stream: ServerHttp2Stream) {
  let parts: Buffer[] = []
  let size = 0
  const flush = async (): Promise<void> => {
    if (size === 0) return
    const bytes = Buffer.concat(parts)
    parts = []
    size = 0
    if (stream.destroyed || stream.writableEnded) throw new TakenBack('it is over')
    if (stream.write(bytes)) await setImmediate()
    else await drained(stream)
  }
  const add = async (bytes: Buffer): Promise<void> => {
    parts.push(bytes)
    size += bytes.length
    if (size >= BUILDS.chunkBytes) await flush()
  }
  return { add, flush }
}

function drained(stream: ServerHttp2Stream): Promise<void> {
  return new Promise((resolve) => {
    const settle = () => {
      stream.off('drain', settle).off('close', settle)
      resolve()
    }
    stream.on('drain', settle).on('close', settle)
  })
}

type Offered = Map<number, ContextEntry>

/** A file's number is its position in the list. */
async function sendList(
  stream: ServerHttp2Stream,
  entries: Iterable<ContextEntry | undefined>,
  offered: Offered,
): Promise<void> {
  const batch = openBatch(stream)
  let count = 0
  let began = performance.now()
  for (const entry of entries) {
    if (performance.now() - began > BUILDS.breathMs) {
      await setImmediate()
      if (stream.destroyed) throw new TakenBack('it is over')
      began = performance.now()
    }
    if (!entry) continue
    if (count === BUILDS.contextEntries) {
      throw new Error(
        `it holds more than ${BUILDS.contextEntries} files; name some in .dockerignore`,
      )
    }
    if (entry.isFile) offered.set(count, entry)
    count += 1
    await batch.add(encodeStat(entry.stat))
  }
  await batch.add(encodeStat(undefined))
  await batch.flush()
}

async function sendFile(
  batch: ReturnType<typeof openBatch>,
  id: number,
  entry: ContextEntry,
): Promise<void> {
  const handle = openListed(entry)
  const { size, path } = entry.stat
  try {
    for (let sent = 0; sent < size; ) {
      const room = Math.min(BUILDS.chunkBytes, size - sent)
      const piece = openData(id, room)
      const length = readSync(handle, piece.body, 0, room, sent)
      if (length === 0) throw new Error(`${path} became shorter while it was sent`)
      if (sent + length === size) checkListed(handle, entry)
      await batch.add(piece.seal(length))
      sent += length
    }
  } finally {
    closeSync(handle)
  }
  await batch.add(encodeDataEnd(id))
}

/** Resolves when the engine has all it needs. Throws TakenBack, or the reason why files could not be sent. */
export async function sendFiles(
  stream: ServerHttp2Stream,
  entries: Iterable<ContextEntry | undefined>,
): Promise<void> {
  const offered: Offered = new Map()
  const wanted: Offered = new Map()
  const batch = openBatch(stream)
  await new Promise<void>((resolve, reject) => {
    let isSending = false
    const send = async (): Promise<void> => {
      isSending = true
      for (const [id, entry] of wanted) {
        wanted.delete(id)
        await sendFile(batch, id, entry)
        if (wanted.size === 0) await batch.flush()
      }
      isSending = false
    }
    const take = ({ type, id, text }: Packet): void => {
      if (type === PACKET.end) resolve()
      else if (type === PACKET.error) reject(new TakenBack(text))
      else if (type === PACKET.request) {
        const entry = offered.get(id)
        if (!entry) throw new Error(`the engine asks for file ${id}, which was not offered`)
        offered.delete(id)
        wanted.set(id, entry)
        if (!isSending) send().catch(reject)
      }
    }
    const read = packetReader(take)
    stream.on('data', (chunk: Buffer) => {
      try {
        read(chunk)
      } catch (error) {
        reject(error as Error)
      }
    })
    stream.once('close', () => reject(new TakenBack('it is over')))
    sendList(stream, entries, offered).catch(reject)
  })
  await batch.add(encodeEnd())
  await batch.flush()
}
