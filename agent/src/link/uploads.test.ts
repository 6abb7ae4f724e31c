// The wire format of a file's bytes: written by hand, read by the schema.
import { FileFrameSchema } from '@berth/shared/wire'
import { fromBinary } from '@bufbuild/protobuf'
import { expect, test } from 'vitest'
import { encodeData } from './uploads.ts'

test.each([0, 1, 127, 128, 16_383, 16_384, 65_536])(
  '%i bytes are what the schema reads',
  (length) => {
    const bytes = Buffer.alloc(length, 0x5a)
    const { frame } = fromBinary(FileFrameSchema, encodeData(bytes))
    expect(frame.case).toBe('data')
    expect(frame.case === 'data' && Buffer.from(frame.value).equals(bytes)).toBe(true)
  },
)
