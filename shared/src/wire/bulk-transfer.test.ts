// Records of a bulk transfer, for any way in which the connection splits them.
import { expect, test } from 'vitest'
import { TRANSFERS } from '../limits/agent.ts'
import { dataHead, encodeMessage, LineParser } from './bulk-transfer.ts'

const stream = Buffer.concat([
  encodeMessage(Buffer.from('head')),
  dataHead(TRANSFERS.frameBytes + 3),
  Buffer.alloc(TRANSFERS.frameBytes + 3, 0x5a),
  encodeMessage(Buffer.from('end')),
])

function parse(sizes: number): string[] {
  const got: string[] = []
  const parser = new LineParser({
    message: (bytes) => got.push(`message ${bytes}`),
    data: (bytes) => got.push(`data ${bytes.length} ${bytes.every((b) => b === 0x5a)}`),
  })
  for (let at = 0; at < stream.length; at += sizes) parser.take(stream.subarray(at, at + sizes))
  return got
}

test.each([1, 4, 5, 6, 16_384, 1 << 30])('in chunks of %i bytes', (sizes) => {
  expect(parse(sizes)).toEqual([
    'message head',
    `data ${TRANSFERS.frameBytes} true`,
    'data 3 true',
    'message end',
  ])
})

test.each([
  ['no kind', [0, 0, 0, 0, 1]],
  ['nothing in it', [2, 0, 0, 0, 0]],
  ['too long a message', [1, 0, 1, 0, 0]],
  ['too many bytes', [2, 0, 0x10, 0, 1]],
])('refuses %s', (_, head) => {
  const parser = new LineParser({ message: () => undefined, data: () => undefined })
  expect(() => parser.take(Buffer.from(head))).toThrow('no record')
})
