// The engine of the run and its base images work, without a registry: every other docker test stands on it.
import { describe, expect, test } from 'vitest'
import { dockerEngine } from './components.ts'
import { callEngine } from './docker-engine.ts'
import { BUSYBOX_IMAGE, makeNodeImage, NODE_IMAGE } from './docker-images.ts'

const engine = dockerEngine()

async function run(image: string, command: string[]): Promise<number> {
  const socket = engine?.socket ?? ''
  const body = JSON.stringify({ Image: image, Cmd: command })
  const made = await callEngine(socket, 'POST', '/containers/create', body)
  const { Id } = JSON.parse(made.text) as { Id: string }
  await callEngine(socket, 'POST', `/containers/${Id}/start`)
  const ended = await callEngine(socket, 'POST', `/containers/${Id}/wait`)
  await callEngine(socket, 'DELETE', `/containers/${Id}?force=1`)
  return (JSON.parse(ended.text) as { StatusCode: number }).StatusCode
}

describe.skipIf(!engine)('the engine of this run', () => {
  test('runs a shell from the busybox image', async () => {
    expect(await run(BUSYBOX_IMAGE, ['/bin/sh', '-c', 'exit 7'])).toBe(7)
  })

  test('runs Node from the node image', async () => {
    await makeNodeImage(engine?.socket ?? '')
    expect(await run(NODE_IMAGE, ['node', '-e', 'process.exit(5)'])).toBe(5)
  })
})
