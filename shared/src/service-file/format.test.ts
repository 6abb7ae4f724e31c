import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import {
  formatProblems,
  missingFileMessage,
  type Problem,
  readServiceFile,
  type ServiceFile,
  sectionProblem,
} from './index.ts'

const folder = new URL('../../../test/fixtures/service-yml/', import.meta.url)
const bad = readFileSync(new URL('bad.yml', folder), 'utf8')

const format = (source: string, excerpts: 'first' | 'all' | 'none') =>
  formatProblems(source, readServiceFile(source).problems, { excerpts })

const LINES = [
  '.service.yml:5:13  docker.services.web.port must be a whole number from 1 to 65535, got text "three thousand"',
  ".service.yml:6:7   unknown key 'domian' in docker.services.web; did you mean 'domain'?",
  ".service.yml:9:7   docker.services.worker has both 'image' and 'build'; keep one",
  ".service.yml:10:20 docker.services.worker depends on 'cache', which is not a service (services: web, worker)",
  ".service.yml:15:7  unknown key 'path' in actions.export.artifacts; did you mean 'paths'?",
  ".service.yml:16:3  action name 'Legacy Export' must be lower case letters, digits and dashes, for example 'legacy-export'",
]
const WARNING =
  "warning .service.yml:18:5  'result: file' was replaced by artifacts.paths in v1.13.0; this action stays disabled until migrated"

describe('formatProblems', () => {
  it('shows the first error with its source, the others in a line, then the warnings', () => {
    const { problems } = readServiceFile(bad)
    const docs = 'https://deploy.example.com/docs/service-file'
    expect(formatProblems(bad, problems, { excerpts: 'first', docs }).split('\n')).toEqual([
      '✗ .service.yml is not valid (6 errors)',
      '',
      LINES[0],
      '  4 │       build: .',
      '  5 │       port: "three thousand"',
      '    │             ^^^^^^^^^^^^^^^^',
      ...LINES.slice(1),
      '',
      WARNING,
      'Docs: https://deploy.example.com/docs/service-file',
    ])
  })

  it('shows no source in logs', () => {
    const head = '✗ .service.yml is not valid (6 errors)'
    expect(format(bad, 'none').split('\n')).toEqual([head, '', ...LINES, '', WARNING])
  })

  it('shows a piece of source for each, with the numbers in line', () => {
    const text = format(bad, 'all')
    expect(text.match(/\^/g)?.length).toBeGreaterThan(7)
    expect(text).toContain(
      [
        '   9 │       build: ./worker',
        '  10 │       depends_on: [cache]',
        '     │                    ^^^^^',
      ].join('\n'),
    )
  })

  it('shows at most 20, errors first, and says how many are left', () => {
    const keys = Array.from({ length: 26 }, (_, index) => `  key${index}: 1`).join('\n')
    const source = `manual:\n  env: { A_TOKEN: x }\n  deploy: [x]\n${keys}`
    const lines = format(source, 'none').split('\n')
    expect(lines[0]).toBe('✗ .service.yml is not valid (26 errors)')
    expect(lines.filter((line) => line.startsWith('.service.yml:'))).toHaveLength(20)
    expect(lines.at(-1)).toBe('and 7 more')
  })

  it('praises a valid file', () => {
    expect(format('manual: { deploy: [x] }', 'all')).toBe('✓ .service.yml is valid')
    expect(format('manual: { deploy: [x], env: { A_KEY: b } }', 'none')).toMatch(
      /^✓ \.service\.yml is valid \(1 warning\)\n\nwarning \.service\.yml:1:38 /,
    )
  })

  it('does not show what looks like a secret, not even beside a mistake', () => {
    const sources = [
      'manual:\n  env:\n    API_TOKEN: s3cr3t\n    1x: s\n  deploy: [x]',
      'manual:\n  env: { "API_TOKEN": s3cr3t }\n  deploy: [x]',
      'manual:\n  deploy: [x]\n  env:\n    DB_PASSWORD: |\n      s3cr3t\n    1x: s',
      'manual:\n  env:\n    API_TOKEN: s3cr3t\n    a: b: c',
    ]
    for (const source of sources) {
      const text = format(source, 'all')
      expect(text).toContain('│')
      expect(text).not.toContain('s3cr3t')
    }
  })

  it('cuts long lines around the place, and shows no control characters', () => {
    const source = `manual: { deploy: [x], env: { A: "${'y'.repeat(500)}" }, typo: "\u009b31m" }`
    const [, , , line, marks] = format(source, 'all').split('\n')
    expect(line?.length).toBeLessThan(140)
    expect(line?.indexOf('typo')).toBe(marks?.indexOf('^'))
    expect(marks?.trim()).toMatch(/│ +\^{4}$/)
    expect(line).not.toContain('\u009b')
  })

  it('puts the mark under what is meant in files of any shape', () => {
    const source = 'manual:\r\n\tdeploy: [x]\r\n'
    expect(format(source, 'all')).toContain('  2 │  deploy: [x]\n    │ ^')
  })
})

describe('sectionProblem', () => {
  const file = readServiceFile('docker: { services: { web: { image: a, port: 1 } } }')
    .file as ServiceFile

  it('names the section, the environment, where its recipe comes from, and what is there', () => {
    expect(sectionProblem(file, 'manual', 'pr-42', true)).toBe(
      ".service.yml has no 'manual:' section, but pr-42 uses the manual recipe (project default). It has: docker.",
    )
    expect(sectionProblem(file, 'manual', 'pr-42', false)).toBe(
      ".service.yml has no 'manual:' section, but pr-42 uses the manual recipe. It has: docker.",
    )
  })

  it('is silent when the section is there', () => {
    expect(sectionProblem(file, 'docker', 'pr-42', true)).toBeUndefined()
  })
})

describe('missingFileMessage', () => {
  const facts = { branch: 'checkout-v2', commit: 'c136499aa8d1b5b0b4b3b3c6f0a0d2f0c0ffee00' }

  it('says where it was looked for and what to do', () => {
    expect(missingFileMessage(facts)).toBe(
      '.service.yml was not found in the root of checkout-v2 at c136499. Add one with: berth config init',
    )
  })

  it('names the file that was meant', () => {
    expect(missingFileMessage({ ...facts, found: '.service.yaml' })).toBe(
      '.service.yml was not found in the root of checkout-v2 at c136499. Found .service.yaml; rename it.',
    )
  })
})

describe('text of the file in a message', () => {
  const first = (source: string) => readServiceFile(source).problems[0] as Problem

  it('is cut to 40 characters', () => {
    const problem = first(`manual: { deploy: [{ run: x, timeout: ${'9'.repeat(60)}x }] }`)
    expect(problem?.message).toContain(`got "${'9'.repeat(40)}…"`)
    const key = 'k'.repeat(900)
    expect(first(`manual: { deploy: [x], ${key}: 1 }`)?.message).toContain(`'${'k'.repeat(40)}…'`)
    expect(first(`manual: { deploy: [x], ${key}: 1 }`)?.path).toBe(`manual.${'k'.repeat(40)}…`)
  })

  it('has its control characters escaped', () => {
    const problem = first('manual: { deploy: [{ run: x, timeout: "1\\e[31m\\n\\u202e\\u200b" }] }')
    expect(problem?.message).toContain('got "1\\u001b[31m\\n\\u202e\\u200b"')
    expect(first('"a\\eb": 1\nmanual: { deploy: [x] }')).toMatchObject({ path: 'a\\u001bb' })
  })

  it('is never the value of a variable', () => {
    const { problems } = readServiceFile(
      'manual: { deploy: [x], env: { API_KEY: s3cr3t, a-b: s3cr3t, C: [s3cr3t] } }',
    )
    expect(problems).toHaveLength(3)
    expect(JSON.stringify(problems)).not.toContain('s3cr3t')
  })
})
