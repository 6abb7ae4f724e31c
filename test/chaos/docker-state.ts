// The real state, observed from outside Berth: containers, images and networks on the engine, the proxy's answers, the
// edge's table. It is settled when all of it describes one version and nothing else is left.
import { request } from 'node:http'
import { openEdge } from '../../agent/src/proxy/client.ts'
import { readSettings } from '../../agent/src/settings.ts'
import type { DockerFixture } from '../fixtures/docker/docker-fixture.ts'
import { until } from '../fixtures/server/installation.ts'

/** The running version, and two earlier ones for a rollback. */
const KEPT_IMAGES = 3

/** The body at the root of a hostname of the fixture's proxy; throws on anything but 200. */
export function askProxy(port: number, host: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port, path: '/', headers: { host }, agent: false as const }
    const call = request({ ...options, timeout: 10_000 }, (answer) => {
      let text = ''
      answer.setEncoding('utf8').on('data', (piece: string) => {
        text += piece
      })
      answer.on('error', reject)
      answer.on('close', () => {
        if (answer.statusCode === 200) resolve(text.trim())
        else reject(new Error(`the proxy answered ${answer.statusCode}`))
      })
    })
    call.on('timeout', () => call.destroy(new Error('the proxy does not answer')))
    call.on('error', reject)
    call.end()
  })
}

export interface Expected {
  environmentId: number
  host: string
  /** The versions that may be running. */
  versions: string[]
}

/** What is wrong; empty if everything describes one version. */
async function problems(made: DockerFixture, expected: Expected): Promise<string[]> {
  const { fixture } = made
  const found: string[] = []
  const { containers, images, networks } = await fixture.owned()
  const [only] = containers
  if (containers.length !== 1 || !only?.running) {
    found.push(`containers: ${containers.map((c) => `${c.name} ${c.running ? 'up' : 'down'}`)}`)
  }
  if (networks.length !== 1) found.push(`networks: ${networks}`)
  const tags = images.flatMap((image) => image.tags)
  if (tags.length > KEPT_IMAGES) found.push(`images: ${tags}`)
  if (only && !images.some(({ id }) => id === only.image)) found.push('the image of the container')
  const answer = await askProxy(fixture.proxyPort, expected.host)
  if (!expected.versions.some((version) => answer === `version ${version}`)) {
    found.push(`'${answer}' answers instead of ${expected.versions.join(' or ')}`)
  }
  const edge = openEdge(readSettings(fixture.agentEnvironment))
  const routes = (await edge.getRoutes(expected.environmentId))?.routes ?? []
  const targets = routes.map(({ target }) =>
    target.kind === 'container' ? target.id : target.kind,
  )
  const isRight = targets.length === 1 && only !== undefined && isSame(targets[0] ?? '', only)
  if (!isRight) found.push(`the table leads to ${targets}, running is ${only?.name}`)
  return found
}

/** The table may name a container by its id or by its name. */
const isSame = (target: string, one: { id: string; name: string }): boolean =>
  target === one.id || target === one.name

/** Waits until nothing is wrong; returns what stays wrong, and the version that answers. */
export async function settled(
  made: DockerFixture,
  expected: Expected,
  ms: number,
): Promise<{ version: string; wrong: string[] }> {
  let wrong: string[] = []
  await until(
    'everything to settle',
    async () => {
      wrong = await problems(made, expected).catch((error: Error) => [error.message])
      return wrong.length === 0 || undefined
    },
    ms,
  ).catch(() => undefined)
  const answer = await askProxy(made.fixture.proxyPort, expected.host).catch(() => '')
  return { version: answer.replace('version ', ''), wrong }
}
