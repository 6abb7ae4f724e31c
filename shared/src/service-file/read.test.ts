import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { readServiceFile } from './index.ts'
import type { ServiceFile } from './service-file.ts'

const folder = new URL('../../../test/fixtures/service-yml/', import.meta.url)
const example = (name: string): string => readFileSync(new URL(name, folder), 'utf8')

function valid(source: string): ServiceFile {
  const { file, problems } = readServiceFile(source)
  expect(problems.filter(({ severity }) => severity === 'error')).toEqual([])
  return file as ServiceFile
}

describe('the examples', () => {
  const warnings: Record<string, string[]> = {
    'legacy-result.yml': ['deprecated_result'],
    'every-key.yml': ['deprecated_result'],
  }
  const names = readdirSync(folder).filter((name) => name.endsWith('.yml') && name !== 'bad.yml')

  it('are seven valid files and a bad one', () => expect(names).toHaveLength(7))

  it.each(names)('%s is valid', (name) => {
    const { file, problems } = readServiceFile(example(name))
    expect(problems.map(({ code }) => code)).toEqual(warnings[name] ?? [])
    expect(file).toBeDefined()
  })

  it('bad.yml has six errors and a warning, word for word', () => {
    const { file, problems } = readServiceFile(example('bad.yml'))
    expect(file).toBeUndefined()
    const shortened = problems.map(({ line, column, path, code, severity, message }) => ({
      line,
      column,
      path,
      code,
      severity,
      message,
    }))
    expect(shortened).toEqual(JSON.parse(example('bad.expected.json')))
    expect(problems[0]).toMatchObject({ file: '.service.yml', end_line: 5, end_column: 29 })
    expect(problems.map(({ suggestion }) => suggestion)).toEqual([
      null,
      'domain',
      null,
      null,
      'paths',
      'legacy-export',
      null,
    ])
  })
})

describe('a docker section', () => {
  it('has its defaults filled in', () => {
    const { docker, manual, actions } = valid(example('minimal-docker.yml'))
    expect(docker?.services).toEqual([
      {
        name: 'web',
        domain: null,
        path: null,
        isDefault: false,
        auth: true,
        isPublic: true,
        asksImage: true,
        health: {
          kind: 'connect',
          port: null,
          intervalMs: 1_000,
          timeoutMs: 5_000,
          startPeriodMs: 60_000,
          retries: 3,
        },
        at: { line: 4, column: 5, end_line: 4, end_column: 8 },
        build: {
          context: '.',
          dockerfile: 'Dockerfile',
          target: null,
          args: {},
          secrets: [],
          ssh: false,
        },
        image: null,
        command: null,
        entrypoint: null,
        user: null,
        port: 3000,
        env: {},
        variables: null,
        release: null,
        backup: null,
        dependsOn: [],
        volumes: [],
        memoryBytes: null,
        cpus: null,
        stopTimeoutMs: 10_000,
        stopSignal: null,
        tmpfs: [],
        shmBytes: null,
        replicas: 1,
        restartsUnhealthy: false,
        drainMs: 30_000,
      },
    ])
    expect([manual, actions]).toEqual([null, []])
  })

  it('has units resolved and merged keys in place', () => {
    const { docker, actions } = valid(example('full-docker.yml'))
    const [web, api, docs, worker, db] = docker?.services ?? []
    expect(docker?.services.map(({ name }) => name)).toEqual(['web', 'api', 'docs', 'worker', 'db'])
    expect(web?.build).toMatchObject({ target: 'runtime', args: { NODE_ENV: 'production' } })
    expect(web?.health).toMatchObject({ kind: 'http', path: '/healthz', startPeriodMs: 30_000 })
    expect([web?.memoryBytes, api?.command]).toEqual([512 * 1024 ** 2, ['node', 'dist/api.js']])
    expect([api?.auth, docs?.image]).toEqual([false, 'images.acme.dev/docs:2026-11'])
    expect([worker?.health, worker?.dependsOn]).toEqual([{ kind: 'stays-up' }, ['db']])
    expect(db?.volumes).toEqual([{ name: 'pgdata', path: '/var/lib/postgresql', readOnly: false }])
    expect(docker?.volumes).toEqual(['pgdata', 'uploads'])
    expect(actions.map(({ name, service, timeoutMs }) => [name, service, timeoutMs])).toEqual([
      ['seed', 'web', 600_000],
      ['export-orders', 'web', 1_800_000],
    ])
    expect(actions[1]?.artifacts).toMatchObject({ retentionMs: 7 * 86_400_000 })
  })

  it('runs an action in the default service, or in the only one', () => {
    const service = (yaml: string) =>
      valid(`${yaml}\nactions: { a: { run: x } }`).actions[0]?.service
    expect(
      service('docker: { services: { api: { image: a }, web: { image: a, port: 80 } } }'),
    ).toBe('web')
    expect(service('docker: { services: { db: { image: a } } }')).toBe('db')
    expect(service('manual: { deploy: [x] }')).toBeNull()
  })
})

describe('a manual section', () => {
  const { manual, actions } = valid(example('manual.yml'))

  it('has steps with a title each', () => {
    expect(manual?.deploy.map(({ title }) => title)).toEqual([
      'Install dependencies',
      'Migrate',
      'php artisan config:cache',
      'Restart search',
    ])
    expect(manual?.deploy[0]).toMatchObject({ timeoutMs: 600_000, dir: null, allowFailure: false })
    expect(manual?.destroy[1]).toMatchObject({ allowFailure: true })
    expect(actions[0]).toMatchObject({ service: null, confirm: null, title: 'Monthly report' })
  })

  it('cuts the title of a long command, and takes the first line of a script', () => {
    const { manual } = valid(
      `manual:\n  deploy:\n    - |\n\n      set -x\n      make\n    - ${'y'.repeat(90)}`,
    )
    expect(manual?.deploy.map(({ title }) => title)).toEqual(['set -x', `${'y'.repeat(79)}…`])
  })

  it('tells ports, sockets, folders and processes apart', () => {
    const { manual } = valid(example('every-key.yml'))
    const shown = manual?.services.map(({ name, target, run, health }) => [
      name,
      target?.kind ?? null,
      run?.command ?? null,
      health.kind,
    ])
    expect(shown).toEqual([
      ['web', 'auto', 'exec ./server', 'http'],
      ['fixed', 'port', null, 'command'],
      ['app', 'socket', null, 'connect'],
      ['files', 'root', null, 'none'],
      ['queue', null, 'exec ./queue', 'stays-up'],
    ])
    expect(manual?.services[0]?.run).toMatchObject({
      dir: 'app',
      env: { MODE: 'web' },
      memoryBytes: 1024 ** 3,
      cpus: 2,
      stopTimeoutMs: 20_000,
    })
  })
})

describe('actions', () => {
  it('with result: file are there, disabled, and say why', () => {
    const [old] = valid(example('legacy-result.yml')).actions
    expect(old?.disabledReason).toBe(
      "export-orders uses 'result: file', which was replaced by artifacts.paths in v1.13.0. Declare the files there and deploy.",
    )
    const [both, seed] = valid(example('every-key.yml')).actions
    expect(both?.disabledReason).toContain("remove 'result' to enable it")
    expect(seed).toMatchObject({ disabledReason: null, confirm: 'Start "seed"?' })
  })
})

describe('variables', () => {
  it('are kept as they are written', () => {
    const { manual } = valid(
      'manual: { deploy: [x], env: { A: 1.10, B: 0x1F, C: true, D: "", E: "1.10", F: 12345678901234567890, G: 1e3 } }',
    )
    expect({ ...manual?.env }).toEqual({
      A: '1.10',
      B: '0x1F',
      C: 'true',
      D: '',
      E: '1.10',
      F: '12345678901234567890',
      G: '1e3',
    })
  })

  it('have no prototype, whatever they are called', () => {
    const { manual } = valid('manual: { deploy: [x], env: { constructor: a, toString: b } }')
    expect(Object.getPrototypeOf(manual?.env)).toBeNull()
    expect(Object.keys(manual?.env ?? {})).toEqual(['constructor', 'toString'])
  })

  it('refuses __proto__ as a key everywhere', () => {
    const sources = [
      '__proto__: { docker: { services: { web: { image: a } } } }\nmanual: { deploy: [x] }',
      'docker: { services: { __proto__: { image: a } } }',
      'docker: { services: { web: { image: a, __proto__: { port: 1 } } } }',
      'manual: { deploy: [x], env: { __proto__: a } }',
      'manual: { deploy: [x] }\nactions: { __proto__: { run: x } }',
    ]
    const codes = sources.map((source) => readServiceFile(source).problems.map(({ code }) => code))
    expect(codes).toEqual([
      ['unknown_key'],
      ['invalid_name'],
      ['unknown_key'],
      ['invalid_name'],
      ['invalid_name'],
    ])
    expect(({} as Record<string, unknown>).port).toBeUndefined()
  })

  it('does not take service names for words of the language', () => {
    const { docker } = valid('docker: { services: { constructor: { image: a, port: 80 } } }')
    expect(docker?.services[0]?.name).toBe('constructor')
    const { problems } = readServiceFile(
      'docker: { services: { web: { image: a, constructor: b } } }',
    )
    expect(problems.map(({ code }) => code)).toEqual(['unknown_key'])
  })
})

describe('encoding', () => {
  const source = 'manual: { deploy: [x], typo: 1 }'

  it('does not count a byte order mark', () => {
    const [plain] = readServiceFile(source).problems
    expect(readServiceFile(`\ufeff${source}`).problems[0]).toEqual(plain)
    expect(readServiceFile(new TextEncoder().encode(`\ufeff${source}`)).problems[0]).toEqual(plain)
  })

  it('refuses bytes that are no UTF-8', () => {
    const { file, problems } = readServiceFile(Uint8Array.of(0x61, 0xff, 0xfe))
    expect([file, problems[0]?.code, problems[0]?.message]).toEqual([
      undefined,
      'invalid_yaml',
      'the file is not UTF-8 text; save it as UTF-8',
    ])
  })

  it('counts lines that end with a carriage return', () => {
    const { problems } = readServiceFile('manual:\r\n  deploy: [x]\r\n  typo: 1\r\n')
    expect(problems[0]).toMatchObject({ line: 3, column: 3, end_column: 7 })
  })

  it('takes another name for the file', () => {
    expect(readServiceFile('x', 'deploy.yml').problems[0]?.file).toBe('deploy.yml')
  })
})

it('needs nothing but yaml, zod, croner and shared, so that a browser can run it', () => {
  const here = new URL('./', import.meta.url)
  const all = readdirSync(here, { recursive: true, encoding: 'utf8' })
  const files = all.filter((name) => name.endsWith('.ts') && !name.includes('.test.'))
  expect(files.length).toBeGreaterThan(10)
  for (const name of files) {
    const source = readFileSync(new URL(name, here), 'utf8')
    for (const [line, from] of source.matchAll(/^(?:import|export)[^;]*? from '([^']+)'/gm)) {
      const isTypeOnly = /^import type/.test(line)
      expect([name, from]).toEqual([name, expect.stringMatching(/^(yaml|zod|croner|\.\/|\.\.\/)/)])
      if (from === '../task.ts') expect(isTypeOnly).toBe(true) // a value import would include the wire code
    }
    expect(source).not.toMatch(/\b(process|Buffer|require)\b[.(]/)
  }
})
