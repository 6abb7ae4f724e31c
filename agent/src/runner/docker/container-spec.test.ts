import { type DockerService, readServiceFile } from '@berth/shared/service-file'
import { describe, expect, it } from 'vitest'
import {
  type ContainerFacts,
  programOf,
  releaseContainer,
  serviceContainer,
  specText,
} from './container-spec.ts'
import { contradiction, describeEnd, LABELS, probeOf, restartProblem } from './verify.ts'

function service(settings: string): DockerService {
  const yaml = `docker: { volumes: [data], services: { web: { build: ., ${settings} } } }`
  const { file, problems } = readServiceFile(yaml)
  const found = file?.docker?.services[0]
  if (!found) throw new Error(JSON.stringify(problems))
  return found
}

const image = { id: 'sha256:abc', entrypoint: ['/entry'], cmd: ['serve'], user: '' }
const facts: ContainerFacts = {
  name: 'berth-e101-web-812',
  image,
  labels: { 'dev.berth.task': '812' },
  network: 'berth-e101',
  volumeNames: new Map([['data', 'berth-e101-data']]),
  files: { launch: '/l', shell: '/s', env: '/e' },
  limits: { memoryBytes: 1, cpus: 2, pids: 3 },
  isUntrusted: false,
}

describe('a container', () => {
  it('starts through the launcher, and its configuration holds PORT and nothing else', () => {
    const spec = serviceContainer(service("port: 3000, volumes: ['data:/data:ro']"), facts)
    expect(spec).toMatchObject({
      entrypoint: ['/bin/sh', '/run/berth/launch.sh'],
      command: ['/entry', 'serve'],
      env: ['PORT=3000'],
      aliases: ['web'],
      restart: 'no',
      mounts: {
        file: [
          { source: '/l', target: '/run/berth/launch.sh' },
          { source: '/s', target: '/run/berth/variables.sh' },
          { source: '/e', target: '/run/berth/variables.env' },
        ],
        volumes: [{ name: 'berth-e101-data', path: '/data', readOnly: true }],
      },
    })
  })

  it('of a fork is never root, whatever its image calls its user', () => {
    const userOf = (user: string, isUntrusted = true): string | undefined =>
      serviceContainer(service('port: 80'), { ...facts, isUntrusted, image: { ...image, user } })
        .user
    expect(['', 'root', '0:1000', 'node'].map((user) => userOf(user))).toEqual(
      Array(4).fill('65534:65534'),
    )
    expect(['1000', '1000:0'].map((user) => userOf(user))).toEqual(['1000', '1000:0'])
    expect(userOf('root', false)).toBeUndefined()
    const own = service("port: 80, user: '0:0'")
    expect(serviceContainer(own, { ...facts, isUntrusted: true }).user).toBe('65534:65534')
    expect(serviceContainer(own, facts).user).toBe('0:0')
  })

  it('without a shell gets its variables plainly; a stronger PORT wins', () => {
    const plainValues = new Map([
      ['PORT', '1'],
      ['A', 'b c'],
    ])
    const spec = serviceContainer(service('port: 3000'), { ...facts, plainValues })
    expect(spec).toMatchObject({
      entrypoint: ['/entry', 'serve'],
      command: [],
      env: ['PORT=1', 'A=b c'],
    })
  })

  it.each([
    ['port: 80', ['/entry', 'serve']],
    ["command: 'node a b', port: 80", ['/entry', '/bin/sh', '-c', 'node a b']],
    ['command: [node, a b], port: 80', ['/entry', 'node', 'a b']],
    ['entrypoint: [/tini, --], port: 80', ['/tini', '--']],
    ['entrypoint: [/tini], command: [node], port: 80', ['/tini', 'node']],
    ['entrypoint: [], port: 80', ['serve']],
  ])('runs the program of %s', (settings, program) => {
    expect(programOf(service(settings), image)).toEqual(program)
  })

  it('of a release command has no name that others find, and no entrypoint', () => {
    const spec = releaseContainer(service('port: 80, release: node migrate.js'), facts)
    expect(spec.aliases).toEqual([])
    expect(spec.command).toEqual(['/bin/sh', '-eu', '-c', 'node migrate.js'])
  })

  it('has another text for every change that needs another container', () => {
    const base = {
      imageId: 'a',
      values: new Map([['A', '1']]),
      limits: facts.limits,
      isUntrusted: false,
    }
    const text = (settings: string, more: Partial<typeof base> = {}) =>
      specText(service(settings), { ...base, ...more })
    const same = text('port: 80')
    expect(text('port: 80, health: /up, domain: a.example.com')).toBe(same)
    const others = [
      text('port: 81'),
      text('port: 80, command: x'),
      text("port: 80, volumes: ['data:/x']"),
      text('port: 80, stop_timeout: 3s'),
      text('port: 80, entrypoint: [x]'),
      text('port: 80, user: app'),
      text('port: 80, stop_signal: SIGINT'),
      text('port: 80, tmpfs: [/x]'),
      text('port: 80, shm_size: 1m'),
      text('port: 80', { imageId: 'b' }),
      text('port: 80', { values: new Map([['A', '2']]) }),
      text('port: 80', { limits: { ...facts.limits, memoryBytes: 7 } }),
      text('port: 80', { isUntrusted: true }),
    ]
    expect(new Set([same, ...others]).size).toBe(others.length + 1)
  })
})

describe('the proof', () => {
  const seen = {
    state: 'running',
    exitCode: 0,
    outOfMemory: false,
    restarts: 0,
    startedAt: 2_000,
    imageId: 'sha256:a13fec8aaaa',
    labels: { [LABELS.task]: '812', [LABELS.fence]: '9', [LABELS.spec]: 'h' },
  }
  const expected = {
    service: 'web',
    imageId: 'sha256:a13fec8aaaa',
    taskId: 812,
    fence: 9n,
    spec: 'h',
    isKept: false,
    notBefore: 1_000,
  }

  it.each([
    [{}, undefined],
    [{ imageId: 'sha256:5864be5bbbb' }, 'web runs image 5864be5, expected a13fec8.'],
    [
      { labels: { ...seen.labels, [LABELS.task]: '811' } },
      'The container of web belongs to deployment 811, not to 812.',
    ],
    [
      { labels: { ...seen.labels, [LABELS.spec]: 'x' } },
      'web runs with other settings than those that were deployed.',
    ],
    [{ startedAt: 999 }, 'The container of web was started before this deployment began.'],
    [{ state: 'exited', exitCode: 3 }, 'web stopped with exit code 3.'],
    [
      { state: 'exited', outOfMemory: true },
      "web was stopped by the kernel: it needed more than its memory limit. Raise 'memory' of web in .service.yml.",
    ],
  ])('objects to %o', (change, sentence) => {
    expect(contradiction(expected, { ...seen, ...change })).toBe(sentence)
  })

  it('lets an unchanged service be older, and never a missing one', () => {
    const old = { ...seen, startedAt: 5, labels: { ...seen.labels, [LABELS.task]: '700' } }
    expect(contradiction({ ...expected, isKept: true }, old)).toBeUndefined()
    expect(contradiction(expected, undefined)).toBe('The container of web is gone.')
  })

  it('counts restarts between two looks', () => {
    const again = { ...seen, restarts: 2 }
    expect(restartProblem('web', seen, seen, 3_000)).toBeUndefined()
    expect(restartProblem('web', seen, again, 5_000)).toBe('web restarted twice in 5 s.')
    expect(restartProblem('web', seen, { ...seen, startedAt: 3 }, 1)).toContain('started again')
    const starved = { ...seen, outOfMemory: true }
    expect(restartProblem('web', seen, starved, 1)).toContain('stopped by the kernel')
    expect(restartProblem('web', starved, starved, 1)).toBeUndefined()
    expect(describeEnd('db', { ...seen, exitCode: 1 }, { upMs: 1_234 })).toBe(
      'db stopped after 1.2 s with exit code 1.',
    )
  })

  it.each([
    ['/', 'health: /up', { path: '/up', status: null, isHealth: true }],
    ['/api', 'health: /api/up', { path: '/api/up', status: null, isHealth: true }],
    ['/api', 'health: /up', { path: '/api', status: null, isHealth: false }],
    ['/api', 'health: /apix', { path: '/api', status: null, isHealth: false }],
    ['/', 'health: { path: /up, status: 204 }', { path: '/up', status: 204, isHealth: true }],
    ['/', 'auth: true', { path: '/', status: null, isHealth: false }],
  ])('asks at prefix %s with %s for %o', (prefix, settings, asked) => {
    expect(probeOf(service(`port: 80, ${settings}`), prefix)).toEqual(asked)
  })
})
