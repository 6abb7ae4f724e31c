// Values at build time on a real engine: secrets, arguments, the deploy key; what rebuilds and what does not; code of a
// fork; and a search for a secret in everything that a deployment leaves, whose control finds one that was put there.
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of the service file, not of JavaScript
import { execFileSync, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { AttemptState, FailureCode } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { engineFacts, openEngine } from '../../agent/src/machine/docker/engine.ts'
import { createDeployKey } from '../../control-plane/src/keys/deploy-key.ts'
import { callEngine } from '../../scripts/docker-engine.ts'
import { deployed, dockerEnvironment } from '../fixtures/docker/docker-fixture.ts'
import { DockerHost, httpd } from '../fixtures/docker/server.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import type { Deployment, Files } from '../fixtures/server/deployment.ts'
import { Fixture } from '../fixtures/server/installation.ts'
import { type DeployRequest, isRoot } from '../fixtures/server/server.ts'

const engine = dockerEngine()
const isAbsent = !engine || missing('caddy') || !isRoot
const socket = engine?.socket ?? ''

const dockerfile = (...lines: string[]): string =>
  ['FROM berth-test/busybox', ...lines, 'CMD ["/bin/sh", "-c", "exec httpd -f -p $PORT"]', ''].join(
    '\n',
  )
const serviceFile = (build: string, more = ''): string =>
  `docker: { services: { web: { build: { ${build} }, port: 8080, health: false, ${more} } } }\n`

describe.skipIf(isAbsent)('values of a build', () => {
  let host: DockerHost
  beforeAll(async () => {
    host = await DockerHost.open()
  })
  afterAll(() => host?.close())

  function repository(files: Files) {
    const made = host.repository(`repository-${randomBytes(4).toString('hex')}`)
    made.commit(httpd('one', files))
    return made
  }

  async function run(from: ReturnType<typeof repository>, request: DeployRequest) {
    const deployment = await host.run(from, request)
    await deployment.ended
    return deployment
  }

  async function succeeds(deployment: Deployment): Promise<string> {
    expect((await deployment.verdict()).state, deployment.log()).toBe(AttemptState.SUCCEEDED)
    return deployment.log()
  }

  it('reach it as secrets and arguments; another value builds again, the same one does not', async () => {
    const from = repository({
      Dockerfile: dockerfile(
        'RUN --mount=type=secret,id=NPM_TOKEN echo "token of $(wc -c < /run/secrets/NPM_TOKEN) bytes"',
        'ARG PUBLIC_URL API_URL RELEASE LITERAL',
        'RUN echo "$PUBLIC_URL | $API_URL | $RELEASE | $LITERAL | other=$OTHER"',
      ),
      '.service.yml': `docker:
  services:
    web:
      build:
        context: .
        secrets: [NPM_TOKEN]
        args:
          PUBLIC_URL: 'https://\${SERVICE_DOMAIN}'
          API_URL: '\${service.web.url}/v1'
          RELEASE: '\${RELEASE_NAME}'
          LITERAL: '$\${HOME}'
      port: 8080
      health: false
`,
    })
    const variables = {
      NPM_TOKEN: 'twelve-chars',
      RELEASE_NAME: 'winter-sale',
      OTHER: 'not for it',
    }
    const first = await succeeds(await run(from, { environmentId: 91, variables }))
    expect(first).toContain('token of 12 bytes')
    const { port } = host.settings.proxy.http
    const address = 'pr-42-91.shop.example.com'
    expect(first).toContain(`https://${address} | http://${address}:${port}/v1 | `)
    expect(first).toMatch(/\| \$\{HOME\} \| other=\n/)
    expect(first).not.toContain('winter-sale') // a custom variable is masked
    expect(first).toContain('puts the value of RELEASE_NAME into the image')
    const again = await succeeds(await run(from, { environmentId: 91, variables }))
    expect(again).toContain('same commit, nothing to build')
    const other = { ...variables, NPM_TOKEN: 'thirteen-char' }
    const rebuilt = await succeeds(await run(from, { environmentId: 91, variables: other }))
    expect(rebuilt).toContain('token of 13 bytes')
    const argument = { ...other, RELEASE_NAME: 'spring-sale' }
    const renamed = await succeeds(await run(from, { environmentId: 91, variables: argument }))
    expect(renamed).not.toContain('nothing to build')
    const back = await succeeds(await run(from, { environmentId: 91, variables }))
    expect(back).toContain('same commit, nothing to build')
    const apart = await succeeds(await run(from, { environmentId: 92, variables: other }))
    expect(apart).toMatch(/RUN --mount=type=secret.*\n#\d+ CACHED/)
  })

  it('that are missing are named before a build starts', async () => {
    const from = repository({
      '.service.yml': serviceFile('secrets: [NPM_TOKEN], args: { A: "${B}" }'),
    })
    const deployment = await run(from, { environmentId: 93, variables: { OTHER: 'x' } })
    const { code, message } = await deployment.verdict()
    expect([code, message]).toEqual([
      FailureCode.BUILD_FAILED,
      'The build of web needs custom variables that are not set: NPM_TOKEN, B. Set it: berth vars set NPM_TOKEN',
    ])
    expect(deployment.log()).not.toContain('FROM berth-test')
  })

  it('do not reach code of a fork, which is told so', async () => {
    const from = repository({
      Dockerfile: dockerfile(
        'ARG A',
        'RUN --mount=type=secret,id=NPM_TOKEN --mount=type=ssh echo "a=$A; $(ls /run/secrets 2>&1); s=$(test -S "$SSH_AUTH_SOCK" && echo agent)"',
      ),
      '.service.yml': serviceFile('ssh: deploy, secrets: [NPM_TOKEN], args: { A: "${B}" }'),
    })
    const { privateKey } = createDeployKey('shop')
    const variables = { NPM_TOKEN: 'value-of-token', B: 'value-of-b' }
    const request = { environmentId: 94, untrusted: true, deployKey: privateKey, variables }
    const deployment = await run(from, request)
    const log = deployment.log()
    expect(log).toContain('a=; ls: /run/secrets: No such file or directory; s=\n')
    expect(log).toContain(
      "web is built without NPM_TOKEN, B, the deploy key: builds of a fork's code get no values.",
    )
  })

  it('sign with the deploy key through an agent, without the key', async () => {
    const { privateKey, publicLine } = createDeployKey('shop')
    const from = repository({ 'key.pub': `${publicLine}\n` })
    // OpenSSH's own client asks the agent inside the build
    const program = execFileSync('sh', ['-c', 'command -v ssh-add'], { encoding: 'utf8' }).trim()
    const libraries = execFileSync('ldd', [program], { encoding: 'utf8' }).match(/\/\S+/g) ?? []
    execFileSync('tar', ['-chf', join(from.folder, 'ssh.tar'), program, ...libraries], {
      stdio: 'pipe',
    })
    from.commit({
      Dockerfile: dockerfile(
        'ADD ssh.tar /',
        'COPY key.pub /key.pub',
        `RUN --mount=type=ssh ${program} -L && ${program} -T /key.pub && echo signed && ! ${program} -D`,
      ),
      '.service.yml': serviceFile('ssh: deploy'),
    })
    const log = await succeeds(await run(from, { environmentId: 95, deployKey: privateKey }))
    expect(log).toContain(publicLine)
    expect(log).toContain('signed\n')
  })
})

describe.skipIf(isAbsent)('a secret of a build', () => {
  let fixture: Fixture
  beforeAll(async () => {
    if (engine) fixture = await Fixture.open({ docker: engine })
  })
  afterAll(() => fixture?.close())

  /** Files below the folders that contain the text. */
  const holders = (text: string, ...folders: string[]): string[] => {
    const found = spawnSync('grep', ['-rlaF', '-D', 'skip', '-e', text, ...folders], {
      encoding: 'utf8',
      maxBuffer: 1e8,
    })
    return found.stdout.split('\n').filter((line) => line !== '')
  }

  it('is in no layer, history, log, cache, inspection, database or error; the search finds an argument', async () => {
    const canary = `canary${randomBytes(16).toString('hex')}`
    const planted = `planted${randomBytes(16).toString('hex')}`
    const files = (run: string): Record<string, string> => ({
      Dockerfile: dockerfile('ARG PLANTED', `RUN --mount=type=secret,id=CANARY ${run}`),
      '.service.yml': serviceFile(
        'secrets: [CANARY], args: { PLANTED: "${PLANTED}" }',
        'variables: []',
      ),
    })
    const use = 'cat /run/secrets/CANARY; echo "$PLANTED" > /seen; test -s /run/secrets/CANARY'
    const environment = await dockerEnvironment(fixture, 'canary', files(use))
    await fixture.call('PATCH', `/api/environments/${environment.id}/variables`, {
      set: { CANARY: canary, PLANTED: planted },
    })
    const task = await deployed(fixture, environment.id)
    fixture.repository('canary', files('sh -c "cat /run/secrets/CANARY; exit 3"'))
    const failed = await fixture.finished((await fixture.deploy(environment.id)).id)
    expect(failed.failure?.message).toContain('exited with 3')

    const text = async (path: string): Promise<string> =>
      (await callEngine(socket, 'GET', path)).text
    const filters = encodeURIComponent(
      JSON.stringify({ label: [`dev.berth.environment=${environment.id}`] }),
    )
    const images = JSON.parse(await text(`/images/json?filters=${filters}`)) as { Id: string }[]
    const containers = JSON.parse(await text(`/containers/json?all=1&filters=${filters}`)) as {
      Id: string
    }[]
    expect([images.length > 0, containers.length > 0]).toEqual([true, true])
    const facts: Record<string, string> = {
      log: (await fixture.log(task.id)).toString(),
      'log of a failure': (await fixture.log(failed.id)).toString(),
      error: JSON.stringify(failed),
      diagnostics: JSON.stringify(
        await fixture.get(`/api/environments/${environment.id}/diagnostics`),
      ),
    }
    for (const { Id } of images) {
      facts[`inspect ${Id}`] = await text(`/images/${Id}/json`)
      facts[`history ${Id}`] = await text(`/images/${Id}/history`)
      const saved = join(fixture.dir, 'saved.tar')
      const tar = spawnSync('curl', [
        '-sf',
        '--unix-socket',
        socket,
        '-o',
        saved,
        `http://d/images/${Id}/get`,
      ])
      expect(tar.status).toBe(0)
      facts[`layers ${Id}`] = execFileSync('cat', [saved], { maxBuffer: 1e9 }).toString('latin1')
      writeFileSync(saved, '')
    }
    for (const { Id } of containers) facts[`container ${Id}`] = await text(`/containers/${Id}/json`)
    const { dataRoot } = await engineFacts(openEngine({ dockerSocket: socket }))
    const holding = (value: string): string[] => [
      ...Object.keys(facts).filter((name) => facts[name]?.includes(value)),
      ...holders(value, dataRoot, fixture.dir),
    ]
    expect(facts.log).toContain('***')
    expect(holding(canary)).toEqual([])
    const found = holding(planted).join('\n')
    expect(found).toMatch(/^history /m)
    expect(found).toMatch(/^layers /m)
    expect(found).toContain(dataRoot) // the cache and the layers of the engine
  })
})
