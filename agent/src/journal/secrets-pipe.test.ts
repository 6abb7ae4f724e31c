// A complete message or none: every truncation is detected, and so is an empty pipe.

import { TaskSecretsSchema } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { expect, test } from 'vitest'
import { frameOrder, frameSecrets, readOrder, readSecretsFrame } from './secrets-pipe.ts'

const secrets = create(TaskSecretsSchema, {
  deployKey: Buffer.from('key'),
  variables: [{ key: 'A', value: Buffer.from('1') }],
  edgeRevision: 3n,
})

test('a whole message arrives, however it is cut into pieces', async () => {
  const frame = frameSecrets(secrets)
  for (let at = 0; at <= frame.length; at++) {
    const read = await readSecretsFrame([frame.subarray(0, at), frame.subarray(at)] as never)
    expect(read.edgeRevision).toBe(3n)
    expect(Buffer.from(read.deployKey).toString()).toBe('key')
  }
})

test('no secrets at all are a message as well', async () => {
  const read = await readSecretsFrame([frameSecrets(create(TaskSecretsSchema))] as never)
  expect(read.variables).toEqual([])
})

test('every shorter or longer input is refused', async () => {
  const frame = frameSecrets(secrets)
  for (let length = 0; length < frame.length; length++) {
    await expect(readSecretsFrame([frame.subarray(0, length)] as never)).rejects.toThrow(
      /not whole/,
    )
  }
  await expect(readSecretsFrame([frame, Buffer.from('x')] as never)).rejects.toThrow(/not whole/)
})

test('an order names the attempt and brings its secrets; without one the runner is not needed', async () => {
  const secrets = create(TaskSecretsSchema, { variables: [{ key: 'A', value: Buffer.from('b') }] })
  const frame = frameOrder('/var/lib/berth/attempts/1', secrets)
  for (const at of [0, 1, 2, 9, frame.length]) {
    const order = await readOrder([frame.subarray(0, at), frame.subarray(at)] as never)
    expect(order?.dir).toBe('/var/lib/berth/attempts/1')
    expect(order?.secrets.variables[0]?.key).toBe('A')
  }
  expect(await readOrder([] as never)).toBeUndefined()
  for (const length of [1, 5, frame.length - 1]) {
    await expect(readOrder([frame.subarray(0, length)] as never)).rejects.toThrow(/not whole/)
  }
})
