// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references in values, not placeholders of JavaScript
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SYSTEM_VARIABLES } from '@berth/shared/service-file'
import { describe, expect, it } from 'vitest'
import { parseShellFile, renderEnvFile, renderShellFile } from './variable-files.ts'
import { expandCustom, resolveVariables, serviceAdditions, weakerAdditions } from './variables.ts'

const system = {
  SERVICE_DOMAIN: 'pr-42.shop.example.com',
  SERVICE_ENV_IDENTIFIER: 'pr-42',
  SERVICE_ENV_TYPE: 'pull_request',
  SERVICE_ENV_BRANCH: 'feature/x',
}

const resolve = (change: Partial<Parameters<typeof resolveVariables>[0]> = {}) =>
  resolveVariables({
    section: {},
    custom: new Map(),
    autoPorts: new Map(),
    defaultService: undefined,
    system,
    ...change,
  })

describe('who wins', () => {
  it('always has the four system variables, also when there is nothing else', () => {
    expect(Object.fromEntries(resolve().values)).toEqual(system)
    expect([...resolve({ system: {} }).values.keys()].sort()).toEqual([...SYSTEM_VARIABLES].sort())
  })

  it('lets nothing replace a system variable or set one of ours', () => {
    const taken = { SERVICE_DOMAIN: 'evil', BERTH_COMMIT: 'evil' }
    const { values, strong } = resolve({ section: taken, custom: new Map(Object.entries(taken)) })
    expect(values.get('SERVICE_DOMAIN')).toBe(system.SERVICE_DOMAIN)
    expect(values.has('BERTH_COMMIT')).toBe(false)
    expect(weakerAdditions(taken, strong)).toEqual({})
  })

  it('ranks section < step < custom < automatic port', () => {
    const { values, strong } = resolve({
      section: { A: 'section', B: 'section', C: 'section', PORT: '1', PORT_WEB: '1' },
      custom: new Map([
        ['C', 'custom'],
        ['PORT', '2'],
        ['PORT_WEB', '2'],
      ]),
      autoPorts: new Map([['web', 20_000]]),
      defaultService: 'web',
    })
    const step = weakerAdditions({ B: 'step', C: 'step', PORT: '3', D: 'step' }, strong)
    expect({ ...Object.fromEntries(values), ...step }).toMatchObject({
      A: 'section',
      B: 'step',
      C: 'custom',
      D: 'step',
      PORT: '20000',
      PORT_WEB: '20000',
    })
  })

  it('gives PORT of the default service only, and PORT_<NAME> of each', () => {
    const autoPorts = new Map([
      ['web', 20_000],
      ['queue-ui', 20_002],
    ])
    const { values } = resolve({ autoPorts, defaultService: 'web' })
    expect(values.get('PORT')).toBe('20000')
    expect(values.get('PORT_QUEUE_UI')).toBe('20002')
    expect(resolve({ autoPorts }).values.has('PORT')).toBe(false)
  })

  it('gives each process its own port: an automatic one over everything, a fixed one under everything', () => {
    const variables = resolve({
      custom: new Map([['PORT', '9']]),
      autoPorts: new Map([['web', 20_000]]),
      defaultService: 'web',
    })
    expect(serviceAdditions(variables, {}, { port: 20_002, isAuto: true })).toEqual({
      PORT: '20002',
    })
    expect(serviceAdditions(resolve(), {}, { port: 3_000, isAuto: false })).toEqual({
      PORT: '3000',
    })
    const custom = resolve({ custom: new Map([['PORT', '9']]) })
    expect(serviceAdditions(custom, {}, { port: 3_000, isAuto: false })).toEqual({})
    const own = serviceAdditions(resolve(), { PORT: '8' }, { port: 3_000, isAuto: false })
    expect(own).toEqual({ PORT: '8' })
  })

  it('knows which values are secrets', () => {
    const { secretKeys } = resolve({ section: { A: '1' }, custom: new Map([['B', '2']]) })
    expect(secretKeys).toEqual(['B'])
    const custom = new Map([
      ['B', '2'],
      ['URL', 'https://x'],
    ])
    const plain = resolve({ custom, plain: new Set(['URL']) })
    expect([plain.secretKeys, plain.customKeys]).toEqual([['B'], ['B', 'URL']])
  })
})

describe('addresses of services in custom values', () => {
  const addresses = new Map([['api', 'https://api-pr-42.shop.example.com']])
  const expand = (value: string) => expandCustom(new Map([['KEY', value]]), addresses)

  it('replaces them, and nothing else', () => {
    for (const [value, expanded, isPlain] of [
      ['${service.api.url}', 'https://api-pr-42.shop.example.com', true],
      ['${service.api.url}/v1', 'https://api-pr-42.shop.example.com/v1', false],
      [
        '$${service.api.url} ${HOME} ${SERVICE_DOMAIN}',
        '${service.api.url} ${HOME} ${SERVICE_DOMAIN}',
        false,
      ],
      [
        '${service.API.url} ${service.api.port} ${service.api',
        '${service.API.url} ${service.api.port} ${service.api',
        false,
      ],
      ["pa$$word $& $1 $'", "pa$$word $& $1 $'", false],
    ] as const) {
      const { values, plain, unknown } = expand(value)
      expect([values.get('KEY'), plain.has('KEY'), unknown]).toEqual([expanded, isPlain, []])
    }
  })

  it('names the key and the service without an address', () => {
    const unknown = [
      { key: 'KEY', service: 'db' },
      { key: 'KEY', service: 'queue' },
    ]
    expect(expand('${service.db.url}${service.queue.url}${service.db.url}').unknown).toEqual(
      unknown,
    )
    expect(expand('$${service.db.url}').unknown).toEqual([])
  })
})

const HARD = new Map([
  ['EMPTY', ''],
  ['QUOTES', `it's "quoted" \`x\` $HOME \\n`],
  ['LINES', 'a\nb\r\nc\n'],
  ['UNICODE', 'ā ü 日本 \u0081\u0088'],
  ['SHELL', '$(touch /tmp/never); && | > < * ? ~ ! #'],
  ['APOSTROPHES', "''''"],
  ['PLAIN', 'abc-123_./:@%+,='],
])

describe('files', () => {
  it('reads back what it wrote', () => {
    expect(parseShellFile(renderShellFile(HARD))).toEqual(HARD)
  })

  it('is read by a real shell with every character as it was', () => {
    const dir = mkdtempSync(join(tmpdir(), 'berth-variables-'))
    try {
      const file = join(dir, 'v.sh')
      writeFileSync(file, renderShellFile(HARD))
      for (const [key, value] of HARD) {
        const script = `set -eu; . "$1"; printf %s "$${key}"`
        expect(execFileSync('/bin/sh', ['-c', script, 'sh', file], { encoding: 'utf8' })).toBe(
          value,
        )
      }
    } finally {
      rmSync(dir, { recursive: true })
    }
  })

  it('refuses a damaged file', () => {
    for (const text of ["A='x", "A='x'B='y'\n", 'A=x\n', "1A='x'\n", "A='x'\n\n", "A='x'; id\n"]) {
      expect(() => parseShellFile(text), text).toThrow(/variable file/)
    }
  })

  it('writes plain values bare and escapes the others in the dotenv form', () => {
    const text = renderEnvFile(
      new Map([
        ['A', 'plain-1'],
        ['B', 'two words'],
        ['C', 'a"b\\c\nd$e`f\r'],
        ['D', ''],
      ]),
    )
    expect(text).toBe('A=plain-1\nB="two words"\nC="a\\"b\\\\c\\nd\\$e\\`f\\r"\nD=""\n')
  })
})
