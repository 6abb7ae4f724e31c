// Damaged files: for any input `readServiceFile` answers, and its answer keeps its promises. The seed is fixed, so that
// a failure can be reproduced.
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of the file, not of JavaScript
import { readdirSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { parse } from 'yaml'
import { formatProblems, readServiceFile, routes } from './index.ts'
import { startReport } from './problem.ts'
import { readTree, type TreeNode } from './yaml/tree.ts'

const folder = new URL('../../../test/fixtures/service-yml/', import.meta.url)
const examples = readdirSync(folder)
  .filter((name) => name.endsWith('.yml'))
  .map((name) => readFileSync(new URL(name, folder), 'utf8'))

/** A small generator of numbers below a bound. */
function dice(seed: number): (sides: number) => number {
  let state = seed
  return (sides) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % sides
  }
}

const PIECES = [
  ...'{}[],:&*!|>%@`#?-\t\n\r "\'\\~\0\u001b\ufeff\u202eé\ud800'.split(''),
  '\n  ',
  '<<: *node',
  '&node ',
  '*node',
  '---\n',
  '...\n',
  '__proto__',
  'constructor: ',
  '${SERVICE_DOMAIN}',
  '"\\x00"',
  '!!str ',
  '99999999999999999999',
  'default: true',
  'depends_on: [web, db]',
  'domain: ',
  'null',
  'x'.repeat(300),
]

function damage(source: string, roll: (sides: number) => number): string {
  let text = source
  for (let times = 1 + roll(4); times > 0; times--) {
    const at = roll(text.length + 1)
    const length = roll(20)
    const from = roll(text.length + 1)
    const kind = roll(4)
    const piece =
      kind === 0
        ? ''
        : kind === 1
          ? text.slice(from, from + 60)
          : (PIECES[roll(PIECES.length)] as string)
    text = text.slice(0, at) + piece + text.slice(kind === 3 ? at : at + length)
  }
  return text
}

const FACTS = { domain: 'a.example.com', identifier: 'a', type: 'manual', branch: 'main' } as const

it('answers 4,000 damaged files, and keeps its promises', () => {
  const roll = dice(20_261_115)
  let valid = 0
  const codes = new Set<string>()
  for (let round = 0; round < 4_000; round++) {
    const source = damage(examples[roll(examples.length)] as string, roll)
    const { file, problems } = readServiceFile(source)
    const errors = problems.filter(({ severity }) => severity === 'error')
    const lines = source.split('\n').length
    expect(file === undefined).toBe(errors.length > 0)
    let before = 0
    for (const problem of problems) {
      codes.add(problem.code)
      const place = problem.line * 100_000 + problem.column
      const end = problem.end_line * 100_000 + problem.end_column
      if (place < before || end < place || problem.end_line > lines || problem.column < 1) {
        expect({ source, problem }).toBe('in order and inside the file')
      }
      before = place
      // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what is looked for
      if (problem.message.length > 1_500 || /[\u0000-\u001f\u007f-\u009f]/.test(problem.message)) {
        expect({ source, problem }).toBe('printable and short')
      }
    }
    expect(typeof formatProblems(source, problems, { excerpts: 'all' })).toBe('string')
    if (!file) continue
    valid++
    expect(JSON.parse(JSON.stringify(file))).toEqual(file)
    routes(file, 'docker', FACTS)
    routes(file, 'manual', FACTS)
  }
  expect(valid).toBeGreaterThan(200)
  expect(codes.size).toBeGreaterThan(12)
})

function plain(node: TreeNode): unknown {
  if (node.kind === 'scalar') return node.value
  if (node.kind === 'list') return node.items.map(plain)
  const map = Object.create(null) as Record<string, unknown>
  for (const { key, value } of node.entries) map[key] = plain(value)
  return map
}

it('reads what the YAML library reads', () => {
  const roll = dice(7)
  let compared = 0
  for (let round = 0; round < 1_000; round++) {
    const source = damage(examples[roll(examples.length)] as string, roll).replace(/^\ufeff/, '')
    const report = startReport(source, '.service.yml')
    const root = readTree(source, report)
    if (!root || report.problems().length > 0) continue
    compared++
    const theirs: unknown = parse(source, { merge: true, version: '1.2', logLevel: 'silent' })
    const [a, b] = [plain(root), theirs].map((value) => JSON.stringify(value, sorted))
    if (a !== b) expect({ source, a }).toBe(b)
  }
  expect(compared).toBeGreaterThan(150)
})

/** Merged keys may have another order; a numeric key is kept as written. */
const sorted = (_: string, value: unknown): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(
        Object.entries(value)
          .map(([key, item]) => [key === '' ? '' : String(Number(key) || key), item] as const)
          .toSorted(([a], [b]) => (a < b ? -1 : 1)),
      )
    : value
