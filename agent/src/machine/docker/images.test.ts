// Images: inspected, tagged, removed without force; a failing pull reports the reason quickly.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { dockerEngine } from '../../../../test/fixtures/platform/components.ts'
import { removeContainer } from './containers.ts'
import { BASE, DockerFixture } from './engine.testing.ts'
import { inspectImage, listOwnedImages, pullImage, removeImage, tagImage } from './images.ts'
import { shownImage } from './names.ts'

let fixture: DockerFixture
describe.skipIf(!dockerEngine())('an image', () => {
  beforeAll(() => {
    fixture = new DockerFixture()
  })
  afterAll(() => fixture.close())

  test('is described by what a container of it would do', async () => {
    const tag = shownImage(fixture.settings, 1, 'shown', 1)
    const { imageId } = await fixture.build(
      {
        Dockerfile: `FROM ${BASE}\nENV A=1\nWORKDIR /app\nUSER app\nENTRYPOINT ["/bin/sh","-c"]\nCMD ["true"]\n`,
      },
      { tag },
    )
    const seen = await inspectImage(fixture.engine, tag)
    expect(seen).toMatchObject({
      id: imageId,
      entrypoint: ['/bin/sh', '-c'],
      cmd: ['true'],
      workingDir: '/app',
      user: 'app',
    })
    expect(seen?.env).toContain('A=1')
    expect(seen?.size).toBeGreaterThan(1_000_000)
    expect(await inspectImage(fixture.engine, 'not/there:1')).toBeUndefined()
  })

  test('in use is not removed, and stays whole', async () => {
    const tag = shownImage(fixture.settings, 1, 'used', 2)
    const { imageId } = await fixture.build(
      { Dockerfile: `FROM ${BASE}\nRUN echo used > /used\n` },
      { tag },
    )
    const listed = await listOwnedImages(fixture.engine, fixture.settings, 1)
    expect(listed.find(({ id }) => id === imageId)).toMatchObject({ names: [tag] })
    const { id } = await fixture.run('true', { image: tag })
    expect(await removeImage(fixture.engine, tag)).toBe('in_use')
    expect(await inspectImage(fixture.engine, tag)).toMatchObject({ id: imageId })
    await removeContainer(fixture.engine, id)
    const other = shownImage(fixture.settings, 1, 'used', 3)
    await tagImage(fixture.engine, tag, other)
    expect(await removeImage(fixture.engine, tag)).toBe('removed')
    expect(await inspectImage(fixture.engine, other)).toMatchObject({ id: imageId })
    expect(await removeImage(fixture.engine, other)).toBe('removed')
    expect(await removeImage(fixture.engine, other)).toBe('removed')
    expect(await inspectImage(fixture.engine, imageId)).toBeUndefined()
  })

  describe('that is pulled', () => {
    let registry: Server | undefined
    afterEach(() => registry?.close())
    /** The engine uses plain HTTP on loopback. Paths without an answer return 404. */
    const listen = (answers: Record<string, { type: string; body: Buffer }>): Promise<string> => {
      const server = createServer((request, response) => {
        const found = answers[request.url ?? '']
        const unknown = { errors: [{ code: 'MANIFEST_UNKNOWN', message: 'manifest unknown' }] }
        const body = found?.body ?? Buffer.from(JSON.stringify(unknown))
        response.writeHead(found ? 200 : 404, {
          'content-type': found?.type ?? 'application/json',
          'content-length': body.length,
          ...(found ? { 'docker-content-digest': sha256(found.body) } : {}),
        })
        response.end(request.method === 'HEAD' ? undefined : body)
      })
      registry = server
      return new Promise((resolve) => {
        server.listen(0, '127.0.0.1', () => {
          resolve(`127.0.0.1:${(server.address() as AddressInfo).port}`)
        })
      })
    }
    const ping = { '/v2/': { type: 'application/json', body: Buffer.from('{}') } }

    test('comes with its id and the digest to pin it to', async () => {
      const { answers, digest, configDigest } = makeRegistryImage()
      const host = await listen({ ...ping, ...answers })
      const lines: string[] = []
      const reference = `${host}/team/app:1`
      const pulled = await pullImage(fixture.engine, reference, {
        onText: (text) => lines.push(text),
      })
      expect(pulled).toEqual({ imageId: configDigest, digest: `${host}/team/app@${digest}` })
      expect(lines.join('')).toContain(`Digest: ${digest}\n`)
      expect(await inspectImage(fixture.engine, pulled.digest)).toMatchObject({
        id: configDigest,
        cmd: ['/hello'],
      })
      expect(await removeImage(fixture.engine, reference)).toBe('removed')
      expect(await removeImage(fixture.engine, pulled.digest)).toBe('removed')
    })

    test('from a registry that is not there fails with the reason', async () => {
      await expect(pullImage(fixture.engine, '127.0.0.1:1/team/app:1')).rejects.toMatchObject({
        name: 'EngineError',
        message: expect.stringMatching(/connection refused/),
      })
    })

    test('and is not in the registry fails with what that said', async () => {
      const host = await listen(ping)
      await expect(pullImage(fixture.engine, `${host}/team/app:1`)).rejects.toMatchObject({
        message: expect.stringMatching(/manifest unknown|not found/i),
      })
    })

    test('ends at once when it is canceled', async () => {
      const signal = AbortSignal.abort()
      await expect(pullImage(fixture.engine, 'x/y:1', { signal })).rejects.toMatchObject({
        kind: 'canceled',
      })
    })
  })
})

const sha256 = (bytes: Buffer): string =>
  `sha256:${createHash('sha256').update(bytes).digest('hex')}`

/** An image of one file, in the form a registry serves it. */
function makeRegistryImage() {
  const folder = fixture.write({ hello: 'hello\n' })
  const layer = execFileSync('tar', ['-C', folder, '--numeric-owner', '-c', 'hello'])
  const zipped = gzipSync(layer)
  const platform = { os: 'linux', architecture: process.arch === 'x64' ? 'amd64' : process.arch }
  const rootfs = { type: 'layers', diff_ids: [sha256(layer)] }
  const config = Buffer.from(JSON.stringify({ ...platform, config: { Cmd: ['/hello'] }, rootfs }))
  const vendor = 'application/vnd.docker'
  const part = (type: string, body: Buffer) => ({
    mediaType: `${vendor}.${type}`,
    size: body.length,
    digest: sha256(body),
  })
  const mediaType = `${vendor}.distribution.manifest.v2+json`
  const manifest = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType,
      config: part('container.image.v1+json', config),
      layers: [part('image.rootfs.diff.tar.gzip', zipped)],
    }),
  )
  const blob = (body: Buffer) => ({ type: 'application/octet-stream', body })
  return {
    digest: sha256(manifest),
    configDigest: sha256(config),
    answers: {
      '/v2/team/app/manifests/1': { type: mediaType, body: manifest },
      [`/v2/team/app/manifests/${sha256(manifest)}`]: { type: mediaType, body: manifest },
      [`/v2/team/app/blobs/${sha256(config)}`]: blob(config),
      [`/v2/team/app/blobs/${sha256(zipped)}`]: blob(zipped),
    },
  }
}
