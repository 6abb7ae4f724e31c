// Private images: a real registry with a password, for `image:` and `FROM`, with and without credentials, and for code of
// a fork. Each case has its own environment.
import { randomBytes } from 'node:crypto'
import { AttemptState, FailureCode } from '@berth/shared/wire'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { callEngine } from '../../scripts/docker-engine.ts'
import { startRegistry, type TestRegistry } from '../fixtures/docker/registry.ts'
import { DockerHost, httpd } from '../fixtures/docker/server.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import { type Deployment, type Files, readTree } from '../fixtures/server/deployment.ts'
import { type DeployRequest, isRoot } from '../fixtures/server/server.ts'

const engine = dockerEngine()
const isAbsent = !engine || missing('registry') || missing('caddy') || !isRoot

describe.skipIf(isAbsent)('a registry with a password', () => {
  const password = `pw-${randomBytes(12).toString('hex')}`
  let host: DockerHost
  let registry: TestRegistry
  let image = ''
  const socket = engine?.socket ?? ''

  beforeAll(async () => {
    host = await DockerHost.open()
    registry = await startRegistry(password)
    image = await registry.push(socket, 'berth-test/busybox', 'team/base')
  })
  afterEach(async () => {
    await callEngine(socket, 'DELETE', `/images/${image}:latest?force=true`) // no case finds what another one pulled
  })
  afterAll(async () => {
    await registry?.close()
    await host?.close()
  })

  const credentials = (secret = password) => [
    { host: registry.host, username: registry.username, password: secret },
  ]

  async function run(files: Files, request: DeployRequest): Promise<Deployment> {
    const repository = host.repository(`repository-${request.environmentId}`)
    repository.commit(httpd('one', files))
    const deployment = await host.run(repository, request)
    await deployment.ended
    return deployment
  }

  const built = (reference = image): Files => ({
    Dockerfile: `FROM ${reference}\nCOPY www /www\nCMD ["/bin/sh", "-c", "exec httpd -f -p $PORT -h /www"]\n`,
  })
  const pulled = (): Files => ({
    '.service.yml': `docker: { services: { web: { image: "${image}", port: 8080, command: "exec httpd -f -p 8080" } } }\n`,
  })

  async function refusal(deployment: Deployment, code: FailureCode): Promise<string> {
    const verdict = await deployment.verdict()
    expect(verdict.code, deployment.log()).toBe(code)
    return verdict.message
  }

  it('gives an image to `image:` and `FROM`, and its password is stored and shown nowhere', async () => {
    for (const [environmentId, files] of [
      [71, pulled()],
      [72, built()],
    ] as const) {
      const registries = credentials()
      const deployment = await run(files, { environmentId, registries })
      const { state } = await deployment.verdict()
      expect(state, deployment.log()).toBe(AttemptState.SUCCEEDED)
      expect(readTree(deployment.dir).includes(password)).toBe(false)
    }
    const state = readTree(host.settings.stateDir)
    expect(state.includes(password)).toBe(false)
    expect(state.includes(image)).toBe(true) // the positive control: the search reads the ledger
  })

  it('refuses without credentials, and the message names it and the command', async () => {
    const advice = `${registry.host} wants credentials for it. Check the name, or add them: berth registry add ${registry.host}`
    const pull = await refusal(
      await run(pulled(), { environmentId: 73 }),
      FailureCode.IMAGE_PULL_FAILED,
    )
    expect(pull).toContain(advice)
    const build = await refusal(await run(built(), { environmentId: 74 }), FailureCode.BUILD_FAILED)
    expect(build).toMatch(
      new RegExp(
        `^Dockerfile: Base image ${image} is not on this server and could not be fetched from ${registry.host}: `,
      ),
    )
    expect(build).toContain(advice)
  })

  it('refuses wrong credentials in other words, without showing them', async () => {
    const wrong = `wrong-${randomBytes(12).toString('hex')}`
    const request = { environmentId: 75, registries: credentials(wrong) }
    for (const [files, code] of [
      [pulled(), FailureCode.IMAGE_PULL_FAILED],
      [built(), FailureCode.BUILD_FAILED],
    ] as const) {
      const deployment = await run(files, request)
      const message = await refusal(deployment, code)
      expect(message).toContain(`${registry.host} refused the stored credentials.`)
      expect(`${message}${deployment.log()}${deployment.runnerLog()}`).not.toContain(wrong)
    }
  })

  it('gives nothing to code of a fork, not even an image that another environment pulled', async () => {
    const none = 'wants credentials for it, and code of a fork gets none.'
    const fork = { untrusted: true, registries: credentials() }
    const pull = await run(pulled(), { environmentId: 76, ...fork })
    expect(await refusal(pull, FailureCode.IMAGE_PULL_FAILED)).toContain(none)
    const first = await run(pulled(), { environmentId: 77, registries: credentials() })
    expect((await first.verdict()).state, first.log()).toBe(AttemptState.SUCCEEDED)
    const build = await run(built(), { environmentId: 78, ...fork })
    expect(await refusal(build, FailureCode.BUILD_FAILED)).toContain(none)
    const allowed = await run(built(), { environmentId: 79, registries: credentials() })
    expect((await allowed.verdict()).state, allowed.log()).toBe(AttemptState.SUCCEEDED)
  })

  it('lacks an image: all base images are looked up before the first build', async () => {
    const files = {
      ...built(`${registry.host}/team/base`),
      'api/Dockerfile': `FROM ${registry.host}/team/missing:7\n`,
      '.service.yml':
        'docker: { services: { web: { build: ., port: 8080 }, api: { build: api } } }\n',
    }
    const deployment = await run(files, { environmentId: 80, registries: credentials() })
    const message = await refusal(deployment, FailureCode.BUILD_FAILED)
    expect(message).toContain(
      `Base image ${registry.host}/team/missing:7 is not on this server and could not be fetched from ${registry.host}: `,
    )
    expect(message).toContain(`Check the name and the tag; its registry is ${registry.host}.`)
    expect(deployment.log()).not.toContain('load build definition')
  })
})
