// Decoded frames equal the encoded ones, for every cut of the connection.
import { expect, test } from 'vitest'
import { createFrameReader, encodeFrame, FRAME } from './frames.ts'

test('frames that are read into one buffer, cut anywhere, come out as they went in', () => {
  const texts = Array.from({ length: 40 }, (_, i) => `record ${i} `.repeat((i % 7) + 1))
  const sent = Buffer.concat([
    ...texts.map((text) => encodeFrame(FRAME.data, text)),
    encodeFrame(FRAME.exit, '{"code":0}'),
  ])
  // the forced command reuses its read buffer
  const buffer = Buffer.alloc(64)
  for (let size = 1; size <= buffer.length; size += 1) {
    let data = ''
    const others: string[] = []
    const read = createFrameReader(({ kind, payload }) => {
      if (kind === FRAME.data) data += payload.toString()
      else others.push(`${kind} ${payload}`)
    })
    for (let at = 0; at < sent.length; at += size) {
      read(buffer.subarray(0, sent.copy(buffer, 0, at, at + size)))
    }
    expect([data, others], `pieces of ${size}`).toEqual([
      texts.join(''),
      [`${FRAME.exit} {"code":0}`],
    ])
  }
})
