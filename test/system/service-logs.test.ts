// Logs of containers over redeployments, while their follower runs, is killed, and is absent: every line once, masked.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { environmentPaths } from '../../agent/src/machine/files.ts'
import { type LogPage, readPageBefore } from '../../agent/src/service-logs/pages.ts'
import type { Cursor } from '../../agent/src/service-logs/positions.ts'
import { readServiceLogs, type ServiceRecord } from '../../agent/src/service-logs/reader.ts'
import { settingsEnvironment } from '../../agent/src/settings.ts'
import { DockerHost } from '../fixtures/docker/server.ts'
import { dockerEngine } from '../fixtures/platform/components.ts'
import { eventually, type Files } from '../fixtures/server/deployment.ts'

const CANARY = 'canary-9c1fbe20-value'
const PROGRAM = join(import.meta.dirname, '../fixtures/docker/log-followers.ts')

/** Counts on both streams, and prints a line when it is asked to stop. */
const counter = (version: string): Files => ({
  'count.sh': [
    "trap 'over=1' TERM", // never between the two lines of one number
    'i=0',
    'while :; do',
    `  echo "${version} $i $CANARY"; echo "${version} $i problem" >&2`,
    `  if [ "$over" ]; then echo "${version} bye"; exit 0; fi`,
    '  i=$((i + 1)); usleep 2000',
    'done',
    '',
  ].join('\n'),
  Dockerfile: 'FROM berth-test/busybox\nCOPY count.sh /\nCMD ["/bin/sh", "/count.sh"]\n',
  '.service.yml': 'docker: { services: { web: { build: . } } }\n',
})

describe.skipIf(!dockerEngine())('logs of containers', { timeout: 240_000 }, () => {
  let host: DockerHost
  let follower: ChildProcess | undefined
  beforeAll(() => {
    host = new DockerHost()
  })
  afterEach(() => killFollower())
  afterAll(() => host.close())

  const startFollower = (): void => {
    const env = { PATH: process.env.PATH, ...settingsEnvironment(host.settings) }
    follower = spawn(process.execPath, [PROGRAM], { env, stdio: 'ignore' })
  }
  const killFollower = async (): Promise<void> => {
    if (!follower) return
    const gone = once(follower, 'exit')
    follower.kill('SIGKILL')
    await gone
    follower = undefined
  }
  const dir = (): string => join(environmentPaths(host.settings, 1).logs, 'web')
  const onDisk = (): string => {
    try {
      return readdirSync(dir())
        .map((name) => readFileSync(join(dir(), name), 'utf8'))
        .join('')
    } catch {
      return ''
    }
  }
  const has = (text: string) => eventually(() => onDisk().includes(text), text)
  /** The same lines, page by page from the end. */
  const readBack = async (signal: AbortSignal): Promise<string[]> => {
    const query = { environmentId: 1, services: null, limit: 97, signal }
    const pages: string[][] = []
    for (let before: Cursor | undefined; ; ) {
      const page: LogPage = await readPageBefore(host.settings, { ...query, before })
      pages.unshift(page.records.map(({ text }) => text))
      if (page.isLast) return pages.flat()
      before = page.older
    }
  }
  const deploy = async (version: string, repository: ReturnType<DockerHost['repository']>) => {
    repository.commit(counter(version))
    const deployment = await host.run(repository, { variables: { CANARY } })
    expect((await host.containers(1)).length, deployment.log()).toBe(1)
    return deployment.taskId
  }

  it('survive redeployments and the death of the daemon, each line once', async () => {
    const repository = host.repository('counter')
    const tasks: number[] = []
    startFollower()
    tasks.push(await deploy('one', repository))
    await has('one 100 ')
    const live = readServiceLogs(host.settings, {
      environmentId: 1,
      services: ['web'],
      tail: 1,
      follow: true,
      signal: AbortSignal.timeout(100_000),
    })
    expect((await live.next()).value).toMatchObject({ service: 'web', task: tasks[0] })
    await killFollower() // in the middle of writing
    startFollower()
    tasks.push(await deploy('two', repository))
    await has('two 100 ')
    await killFollower()
    tasks.push(await deploy('three', repository)) // no follower: the runner alone keeps the output of "two"
    startFollower()
    await has('three 100 ')
    const seen: string[] = []
    for await (const record of live) {
      if ('text' in record) seen.push(record.text)
      if (seen.at(-1)?.startsWith('three 50 ')) break
    }
    for (const said of ['one bye', 'two 7 ***', 'two bye', 'three 7 ***']) {
      expect(seen.filter((text) => text === said)).toHaveLength(1)
    }
    await killFollower()
    const lines = new Map<string, string[]>()
    const signal = AbortSignal.timeout(60_000)
    const query = { environmentId: 1, services: null, follow: false, signal }
    const all: string[] = []
    for await (const record of readServiceLogs(host.settings, query)) {
      const { text, s, task } = record as ServiceRecord
      all.push(text)
      const key = `${task} ${s}`
      lines.set(key, [...(lines.get(key) ?? []), text])
    }
    for (const [i, version] of ['one', 'two', 'three'].entries()) {
      const [out = [], err = []] = ['out', 'err'].map((s) => lines.get(`${tasks[i]} ${s}`))
      const isOver = version !== 'three'
      expect(out.at(-1) === `${version} bye`).toBe(isOver)
      const counted = isOver ? out.slice(0, -1) : out
      expect(counted).toEqual(counted.map((_, n) => `${version} ${n} ***`))
      expect(err).toEqual(err.map((_, n) => `${version} ${n} problem`))
      expect(counted.length).toBeGreaterThan(100)
      if (isOver) expect(err.length).toBe(counted.length)
    }
    expect(onDisk()).not.toContain(CANARY)
    expect(await readBack(signal)).toEqual(all)
  })

  it('go with their environment', async () => {
    startFollower()
    const removed = await host.run(host.repository('counter'), { destroy: true })
    expect(removed.log()).toContain('Objects of it in the engine: 0.')
    await killFollower()
    expect(readdirSync(join(host.settings.stateDir, 'logs'))).toEqual([])
  })
})
