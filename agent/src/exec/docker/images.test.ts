// Images: looked at, tagged, removed without force; a pull that fails says why, soon.
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { dockerEngine } from '../../../../test/components.ts'
import { removeContainer } from './containers.ts'
import { inspectImage, listOwnedImages, pullImage, removeImage, tagImage } from './images.ts'
import { BASE, DockerLab } from './lab.testing.ts'
import { imageName } from './names.ts'

let lab: DockerLab
describe.skipIf(!dockerEngine())('an image', () => {
  beforeAll(() => {
    lab = new DockerLab()
  })
  afterAll(() => lab.close())

  test('is described by what a container of it would do', async () => {
    const tag = imageName(lab.settings, 1, 'shown', 1)
    const { imageId } = await lab.build(
      {
        Dockerfile: `FROM ${BASE}\nENV A=1\nWORKDIR /app\nUSER app\nENTRYPOINT ["/bin/sh","-c"]\nCMD ["true"]\n`,
      },
      { tag },
    )
    const seen = await inspectImage(lab.engine, tag)
    expect(seen).toMatchObject({
      id: imageId,
      entrypoint: ['/bin/sh', '-c'],
      cmd: ['true'],
      workingDir: '/app',
      user: 'app',
    })
    expect(seen?.env).toContain('A=1')
    expect(seen?.size).toBeGreaterThan(1_000_000)
    expect(await inspectImage(lab.engine, 'not/there:1')).toBeUndefined()
  })

  test('in use is not removed, and stays whole', async () => {
    const tag = imageName(lab.settings, 1, 'used', 2)
    const { imageId } = await lab.build(
      { Dockerfile: `FROM ${BASE}\nRUN echo used > /used\n` },
      { tag },
    )
    const listed = await listOwnedImages(lab.engine, lab.settings, 1)
    expect(listed.find(({ id }) => id === imageId)).toMatchObject({ names: [tag] })
    const { id } = await lab.run('true', { image: tag })
    expect(await removeImage(lab.engine, tag)).toBe('in_use')
    expect(await inspectImage(lab.engine, tag)).toMatchObject({ id: imageId })
    await removeContainer(lab.engine, id)
    const other = imageName(lab.settings, 1, 'used', 3)
    await tagImage(lab.engine, tag, other)
    expect(await removeImage(lab.engine, tag)).toBe('removed')
    expect(await inspectImage(lab.engine, other)).toMatchObject({ id: imageId })
    expect(await removeImage(lab.engine, other)).toBe('removed')
    expect(await removeImage(lab.engine, other)).toBe('removed')
    expect(await inspectImage(lab.engine, imageId)).toBeUndefined()
  })

  describe('that is pulled', () => {
    let registry: Server | undefined
    afterEach(() => registry?.close())
    /** On loopback the engine speaks plain HTTP. */
    const listen = (answer: { status: number; body: string }): Promise<string> => {
      const server = createServer((request, response) => {
        const isPing = request.url === '/v2/'
        response.writeHead(isPing ? 200 : answer.status, { 'content-type': 'application/json' })
        response.end(isPing ? '{}' : answer.body)
      })
      registry = server
      return new Promise((resolve) => {
        server.listen(0, '127.0.0.1', () => {
          resolve(`127.0.0.1:${(server.address() as AddressInfo).port}`)
        })
      })
    }

    test('from a registry that is not there fails with the reason', async () => {
      await expect(pullImage(lab.engine, '127.0.0.1:1/team/app:1')).rejects.toMatchObject({
        name: 'EngineError',
        message: expect.stringMatching(/connection refused/),
      })
    })

    test('and is not in the registry fails with what that said', async () => {
      const body = JSON.stringify({ errors: [{ code: 'MANIFEST_UNKNOWN', message: 'nope' }] })
      const host = await listen({ status: 404, body })
      await expect(pullImage(lab.engine, `${host}/team/app:1`)).rejects.toMatchObject({
        message: expect.stringMatching(/manifest unknown|not found/i),
      })
    })

    test('ends at once when it is canceled', async () => {
      const signal = AbortSignal.abort()
      await expect(pullImage(lab.engine, 'x/y:1', { signal })).rejects.toMatchObject({
        kind: 'canceled',
      })
    })
  })
})
