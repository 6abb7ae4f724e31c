// Encodes and decodes the messages about files between BuildKit and a client (fsutil.types.Packet), each as one gRPC
// message: a byte for «not compressed», the length, the message. Unknown fields are skipped.

import { constants } from 'node:fs'
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { frameMessage, messageReader, PREFIX } from './grpc-messages.ts'

export const PACKET = { stat: 0, request: 1, data: 2, end: 3, error: 4 } as const

export interface FileStat {
  /** With slashes, relative to the root; for rules and messages. */
  path: string
  /** The same in the bytes on disk, which need not be UTF-8. */
  name: Uint8Array
  /** As Go writes it (`toGoMode`). */
  mode: number
  size: number
  mtimeNs: bigint
  /** Target of a symbolic link; otherwise empty. */
  link: Uint8Array
}

export interface Packet {
  type: number
  id: number
  text: string
}

/** The prefix and the fields before the bytes of a file. */
const DATA_HEAD = 24

const GO_TYPES = new Map([
  [constants.S_IFDIR, 2 ** 31],
  [constants.S_IFLNK, 2 ** 27],
])
const GO_BITS: [number, number][] = [
  [0o4000, 2 ** 23],
  [0o2000, 2 ** 22],
  [0o1000, 2 ** 20],
]

/** For a file, a folder or a symbolic link. */
export function toGoMode(mode: number): number {
  let goMode = (mode & 0o777) + (GO_TYPES.get(mode & constants.S_IFMT) ?? 0)
  for (const [bit, goBit] of GO_BITS) if (mode & bit) goMode += goBit
  return goMode
}

const frame = (writer: BinaryWriter): Buffer => frameMessage(writer.finish())

/** Root owns everything; undefined marks the end of the list. */
export function encodeStat(stat: FileStat | undefined): Buffer {
  const writer = new BinaryWriter()
  if (!stat) return frame(writer) // type 0 is omitted
  writer.tag(2, WireType.LengthDelimited).fork()
  writer.tag(1, WireType.LengthDelimited).bytes(stat.name)
  writer.tag(2, WireType.Varint).uint32(stat.mode)
  if (stat.size > 0) writer.tag(5, WireType.Varint).int64(stat.size)
  writer.tag(6, WireType.Varint).int64(stat.mtimeNs)
  if (stat.link.length > 0) writer.tag(7, WireType.LengthDelimited).bytes(stat.link)
  return frame(writer.join())
}

const open = (type: number): BinaryWriter => new BinaryWriter().tag(1, WireType.Varint).uint32(type)

export const encodeEnd = (): Buffer => frame(open(PACKET.end))

export const encodeError = (reason: string): Buffer =>
  frame(open(PACKET.error).tag(4, WireType.LengthDelimited).string(reason))

/** Says that the bytes of this file are complete. */
export const encodeDataEnd = (id: number): Buffer =>
  frame(open(PACKET.data).tag(3, WireType.Varint).uint32(id))

/** A buffer for a piece of a file: the caller fills `body`, and `seal` makes a message of its first bytes. */
export function openData(id: number, size: number) {
  const whole = Buffer.allocUnsafe(DATA_HEAD + size)
  const seal = (length: number): Buffer => {
    const writer = open(PACKET.data).tag(3, WireType.Varint).uint32(id)
    const head = writer.tag(4, WireType.LengthDelimited).uint32(length).finish()
    const start = DATA_HEAD - PREFIX - head.length
    whole.writeUInt8(0, start)
    whole.writeUInt32BE(head.length + length, start + 1)
    whole.set(head, start + PREFIX)
    return whole.subarray(start, DATA_HEAD + length)
  }
  return { body: whole.subarray(DATA_HEAD), seal }
}

function decodePacket(bytes: Uint8Array): Packet {
  const reader = new BinaryReader(bytes)
  const packet: Packet = { type: PACKET.stat, id: 0, text: '' }
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag()
    if (field === 1) packet.type = reader.int32()
    else if (field === 3) packet.id = reader.uint32()
    else if (field === 4) packet.text = Buffer.from(reader.bytes()).toString('utf8')
    else reader.skip(type, field)
  }
  return packet
}

/** Splits the input into packets. Throws when it is malformed. */
export const packetReader = (onPacket: (packet: Packet) => void): ((chunk: Buffer) => void) =>
  messageReader((message) => onPacket(decodePacket(message)))
