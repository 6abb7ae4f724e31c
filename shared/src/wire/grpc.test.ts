// The wire format of a file's bytes: written by hand, read by the schemas.
import { fromBinary } from '@bufbuild/protobuf'
import { expect, test } from 'vitest'
import { FileFrameSchema } from './gen/berth/agent/v1/agent_pb.ts'
import { DeliverRequestSchema } from './gen/berth/peer/v1/peer_pb.ts'
import { encodeBytes } from './grpc.ts'

test.each([0, 1, 127, 128, 16_383, 16_384, 65_536])(
  '%i bytes are what the schemas read',
  (length) => {
    const bytes = Buffer.alloc(length, 0x5a)
    const { frame } = fromBinary(FileFrameSchema, encodeBytes(2, bytes))
    expect(frame.case === 'data' && Buffer.from(frame.value).equals(bytes)).toBe(true)
    const { part } = fromBinary(DeliverRequestSchema, encodeBytes(2, bytes))
    expect(part.case === 'fileData' && Buffer.from(part.value).equals(bytes)).toBe(true)
  },
)
