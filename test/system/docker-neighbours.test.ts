// Images of one environment and a neighbour that tries to build on them: on the same server it names, guesses and
// spells them in every way an engine knows, and gets none. Each attack has a control, the same action by root, which
// works.
import { totalmem } from 'node:os'
import { defaultServerSettings } from '@berth/shared'
import { AttemptState, FailureCode } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildImage } from '../../agent/src/machine/docker/build/build.ts'
import { inspectContainer } from '../../agent/src/machine/docker/containers.ts'
import {
  inspectImage,
  listOwnedImages,
  removeImage,
  tagImage,
} from '../../agent/src/machine/docker/images.ts'
import { shownImage } from '../../agent/src/machine/docker/names.ts'
import { collectEnvironment } from '../../agent/src/resources/garbage.ts'
import { describeSize } from '../../agent/src/runner/plan/ceilings.ts'
import { DockerHost, httpd } from '../fixtures/docker/server.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import type { Deployment, Files, Repository } from '../fixtures/server/deployment.ts'
import { isRoot } from '../fixtures/server/server.ts'

const SECRET = `the neighbour's source ${Math.random()}`
const PLAIN = '.service.yml'
const BUILD_MEMORY = defaultServerSettings({ cpus: 1, memoryBytes: totalmem() }).build_memory_bytes

describe.skipIf(!dockerEngine() || missing('caddy') || !isRoot)('an image', () => {
  let host: DockerHost
  let repository: Repository
  let neighbour: Repository
  let commit: string
  /** Its displayed name, its real name, and its id. */
  let image: { shown: string; name: string; id: string; taskId: number }

  const named = async (environmentId: number) => {
    const found = await listOwnedImages(host.engine, host.settings, environmentId)
    return found.flatMap(({ id, names }) => names.map((name) => ({ id, name })))
  }

  beforeAll(async () => {
    host = await DockerHost.open()
    repository = host.repository('victim')
    commit = repository.commit(httpd('one', { 'www/secret': SECRET }))
    const first = await host.run(repository)
    expect(await first.verdict(), first.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
    const [found] = await named(1)
    const shown = shownImage(host.settings, 1, 'web', first.taskId)
    image = { shown, name: found?.name ?? '', id: found?.id ?? '', taskId: first.taskId }
    expect(first.log()).toContain(`Image ${shown} is ${image.id}.`)
    neighbour = host.repository('neighbour')
  })
  afterAll(() => host.close())

  async function attack(files: Files): Promise<Deployment> {
    neighbour.commit(httpd('two', files))
    const deployment = await host.run(neighbour, { environmentId: 2, noCache: true })
    expect(deployment.log()).not.toContain(SECRET)
    expect((await deployment.verdict()).state, deployment.log()).toBe(AttemptState.FAILED)
    return deployment
  }

  const folderOf = (dockerfile: string): string => {
    const control = host.repository(`control-${Math.random()}`)
    control.commit({ Dockerfile: dockerfile })
    return control.folder
  }

  it('has a name with a secret part, which no log tells; who knows it can build upon it', async () => {
    expect(image.name).toMatch(new RegExp(`^${image.shown}-[0-9a-f]{32}$`))
    expect(await inspectImage(host.engine, image.shown)).toBeUndefined()
    const texts: string[] = []
    const built = await buildImage(host.engine, {
      folder: folderOf(`FROM ${image.name}\nRUN cat /www/secret\n`),
      dockerfile: 'Dockerfile',
      target: null,
      args: {},
      tag: `${host.settings.owner}/control:1`,
      labels: {},
      noCache: true,
      onText: (_step, text) => texts.push(text),
    })
    expect(texts.join('')).toContain(SECRET)
    await removeImage(host.engine, `${host.settings.owner}/control:1`)
    await removeImage(host.engine, built.imageId)
  })

  const busybox = 'FROM berth-test/busybox\n'
  const cat = 'RUN cat /www/secret\n'
  it.each<[string, (i: typeof image) => string, RegExp]>([
    ['its name', (i) => `FROM ${i.shown}\n${cat}`, /is the name of an image that Berth built/],
    [
      'its name at a registry',
      (i) => `FROM docker.io/${i.shown}\n${cat}`,
      /is the name of an image that Berth built/,
    ],
    [
      'its name on this machine',
      (i) => `FROM localhost/${i.shown}\n${cat}`,
      /is the name of an image that Berth built/,
    ],
    [
      'a stage with its name',
      (i) => `FROM --platform=linux/amd64 ${i.shown} AS x\n${cat}`,
      /is the name of an image that Berth built/,
    ],
    [
      'a copy from its name',
      (i) => `${busybox}COPY --from=${i.shown} /www /www\n${cat}`,
      /is the name of an image that Berth built/,
    ],
    [
      'a mount of its name',
      (i) => `${busybox}RUN --mount=type=bind,from=${i.shown},target=/x cat /x/www/secret\n`,
      /is the name of an image that Berth built/,
    ],
    [
      'its name in an argument',
      (i) => `ARG BASE=${i.shown}\nFROM \${BASE}\n${cat}`,
      /could not be fetched/,
    ],
    ['its id', (i) => `FROM ${i.id}\n${cat}`, /could not be fetched/],
    ['the beginning of its id', (i) => `FROM ${i.id.slice(7, 19)}\n${cat}`, /could not be fetched/],
    [
      'its name and id',
      (i) => `FROM ${i.shown.replace(/:.*/, '')}@${i.id}\n${cat}`,
      /is the name of an image that Berth built/,
    ],
    [
      'a program of its own that reads the Dockerfile',
      (i) => `# syntax=${i.shown}\n${busybox}`,
      /^Dockerfile: `# syntax=.*` names another program to read this file\./,
    ],
  ])('is not there for a build that uses %s', async (_what, dockerfile, message) => {
    const failed = await attack({ Dockerfile: dockerfile(image) })
    const verdict = await failed.verdict()
    expect(verdict).toMatchObject({
      code: FailureCode.BUILD_FAILED,
      failedStepId: 'build:web',
    })
    expect(verdict.message).toMatch(message)
  })

  it.each<[string, (i: typeof image) => string, FailureCode, RegExp]>([
    [
      'its name',
      (i) => i.shown,
      FailureCode.IMAGE_PULL_FAILED,
      /is the name of an image that Berth built/,
    ],
    [
      'its name at a registry',
      (i) => `docker.io/${i.shown}`,
      FailureCode.IMAGE_PULL_FAILED,
      /is the name of an image that Berth built/,
    ],
    ['its id', (i) => i.id, FailureCode.CONFIG_INVALID, /not an image's id/],
    ['its whole id as a name', (i) => i.id.slice(7), FailureCode.CONFIG_INVALID, /not an image's/],
    ['the beginning of its id', (i) => i.id.slice(7, 19), FailureCode.IMAGE_PULL_FAILED, /^`/],
  ])('is not there for `image:` with %s', async (_what, reference, code, message) => {
    const text = `docker: { services: { web: { image: "${reference(image)}", port: 8080 } } }\n`
    const verdict = await (await attack({ [PLAIN]: text })).verdict()
    expect(verdict.code).toBe(code)
    expect(verdict.message).toMatch(message)
  })

  it.each([
    [true, '1 GiB, the limit for code from a fork'],
    [false, `${describeSize(BUILD_MEMORY)}, the build limit of server`],
  ])('is built within bounds; of a fork %s: %s', async (untrusted, bound) => {
    // waits until the limits apply, then exits as if the kernel had killed it
    const wait = 'until [ $(cat /proc/self/oom_score_adj) = 900 ]; do sleep 0.1; done'
    neighbour.commit(httpd('two', { Dockerfile: `${busybox}RUN ${wait}; exit 137\n` }))
    const failed = await host.run(neighbour, { environmentId: 3, noCache: true, untrusted })
    const verdict = await failed.verdict()
    expect(verdict.code, failed.log()).toBe(FailureCode.OUT_OF_MEMORY)
    expect(verdict.message).toContain(`needed more than ${bound}`)
  })

  it('is used again for its own environment', async () => {
    repository.commit(httpd('two'))
    expect((await (await host.run(repository)).verdict()).state).toBe(AttemptState.SUCCEEDED)
    const back = await host.run(repository, { commit })
    expect(back.log()).toContain(`Image of deployment ${image.taskId}: same commit`)
    expect((await back.verdict()).state, back.log()).toBe(AttemptState.SUCCEEDED)
    expect(await named(1)).toContainEqual({ id: image.id, name: image.name })
  })

  it('of a version that gave it a name to guess gets another, while its container runs', async () => {
    const ledger = host.ledger()
    try {
      const rows = ledger.objects.list({ environmentId: 1, kind: 'image' })
      const [running] = await host.containers(1)
      const guessed = rows.map(({ taskId }) => shownImage(host.settings, 1, 'web', taskId))
      for (const [index, row] of rows.entries()) {
        const name = guessed[index] ?? ''
        await tagImage(host.engine, row.name, name)
        ledger.objects.put({ ...row, name })
        ledger.objects.remove(row)
        await removeImage(host.engine, row.name)
      }
      expect((await named(1)).map(({ name }) => name).sort()).toEqual(guessed.toSorted())
      const { problems } = await collectEnvironment(host.engine, ledger, host.settings, {
        environmentId: 1,
      })
      expect(problems).toEqual([])
      for (const { name } of await named(1)) expect(name).toMatch(/:\d+-[0-9a-f]{32}$/)
      for (const name of guessed) expect(await inspectImage(host.engine, name)).toBeUndefined()
      const kept = ledger.objects.list({ environmentId: 1, kind: 'image' })
      expect(kept.map(({ taskId, state, facts }) => [taskId, state, facts.imageId])).toEqual(
        rows.map(({ taskId, state, facts }) => [taskId, state, facts.imageId]),
      )
      expect((await inspectContainer(host.engine, running?.id ?? ''))?.state).toBe('running')
    } finally {
      ledger.close()
    }
    const again = await host.run(repository, { commit })
    expect(again.log()).toMatch(/Image of deployment \d+: same commit/)
    expect((await again.verdict()).state, again.log()).toBe(AttemptState.SUCCEEDED)
  })
})
