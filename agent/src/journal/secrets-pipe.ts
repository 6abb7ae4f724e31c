// Passes TaskSecrets from the daemon to a new runner: one message on the runner's stdin, which then closes. A length
// precedes it, because an end of file alone proves nothing: a runner whose daemon died halfway must not take a part of
// the secrets for all of them.

import { type TaskSecrets, TaskSecretsSchema } from '@berth/shared/wire'
import { fromBinary, toBinary } from '@bufbuild/protobuf'
import { PROCESSES } from '../limits/machine.ts'

export function frameSecrets(secrets: TaskSecrets): Buffer {
  const body = toBinary(TaskSecretsSchema, secrets)
  const frame = Buffer.alloc(4 + body.length)
  frame.writeUInt32BE(body.length)
  frame.set(body, 4)
  return frame
}

/** For a runner that was started early: the attempt's folder, then the secrets. */
export function frameOrder(dir: string, secrets: TaskSecrets): Buffer {
  const name = Buffer.from(dir)
  const length = Buffer.alloc(2)
  length.writeUInt16BE(name.length)
  return Buffer.concat([length, name, frameSecrets(secrets)])
}

/** Undefined: the daemon ended, or does not need this runner. A partial order is an error. */
export async function readOrder(
  input: AsyncIterable<unknown>,
): Promise<{ dir: string; secrets: TaskSecrets } | undefined> {
  const bytes = await readAll(input)
  if (bytes.length === 0) return undefined
  const end = bytes.length < 2 ? 2 : 2 + bytes.readUInt16BE()
  return { dir: bytes.toString('utf8', 2, end), secrets: parseSecrets(bytes.subarray(end)) }
}

/** Rejects unless exactly one complete message came before the end. The caller has had no effect yet, and exits. */
export async function readSecretsFrame(input: AsyncIterable<unknown>): Promise<TaskSecrets> {
  return parseSecrets(await readAll(input))
}

async function readAll(input: AsyncIterable<unknown>): Promise<Buffer> {
  const pieces: Buffer[] = []
  let size = 0
  for await (const piece of input) {
    size += (piece as Buffer).length
    if (size > PROCESSES.secretsBytes) throw new Error('the secrets on stdin are too large')
    pieces.push(piece as Buffer)
  }
  return Buffer.concat(pieces)
}

function parseSecrets(bytes: Buffer): TaskSecrets {
  if (bytes.length < 4 || bytes.readUInt32BE() !== bytes.length - 4) {
    throw new Error('the secrets on stdin are not whole: the daemon ended while it sent them')
  }
  return fromBinary(TaskSecretsSchema, bytes.subarray(4))
}
