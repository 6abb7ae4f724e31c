// The limits at the boundary and one above, bombs, and the expansion compared with the YAML library's own.
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { SERVICE_FILE } from '../../limits/limits.ts'
import { readServiceFile } from '../index.ts'
import { startReport } from '../problem.ts'
import { readTree, type TreeNode } from './tree.ts'

function expand(source: string): { value?: unknown; problems: string[] } {
  const report = startReport(source, '.service.yml')
  const root = readTree(source, report)
  const problems = report.problems().map(({ code, message }) => `${code}: ${message}`)
  return root ? { value: plain(root), problems } : { problems }
}

function plain(node: TreeNode): unknown {
  if (node.kind === 'scalar') return node.value
  if (node.kind === 'list') return node.items.map(plain)
  return Object.fromEntries(node.entries.map(({ key, value }) => [key, plain(value)]))
}

const TOO_MANY = 'too_complex: the file is too complex: it holds more than 2,000 values'
const TOO_DEEP = 'too_complex: the file is too complex: it nests deeper than 12 levels'

describe('bounds', () => {
  it('64 KiB, counted in bytes', () => {
    const source = 'manual: { deploy: [x] }\n#'
    const filled = (bytes: number) => source + 'ü'.repeat((bytes - source.length) / 2)
    expect(readServiceFile(filled(65_535)).problems).toEqual([])
    expect(readServiceFile(filled(65_537)).problems[0]?.code).toBe('too_complex')
  })

  it('2,000 values: the root, every entry of a map, every item of a list', () => {
    const list = (length: number) => `a: [${'x, '.repeat(length)}]`
    expect(expand(list(1_998)).problems).toEqual([])
    expect(expand(list(1_999)).problems).toEqual([TOO_MANY])
    const block = (length: number) =>
      Array.from({ length }, (_, index) => `k${index}: { a: b }`).join('\n')
    expect(expand(block(999)).problems).toEqual([])
    expect(expand(block(1_000)).problems).toEqual([TOO_MANY])
  })

  it('2,000 values after expansion', () => {
    const source = (uses: number) => `a: &a [${'x,'.repeat(97)}]\nb: [${'*a,'.repeat(uses)}]`
    expect(expand(source(19)).problems).toEqual([])
    expect(expand(source(20)).problems).toEqual([TOO_MANY])
  })

  it('50 aliases', () => {
    const source = (uses: number) => `a: &a x\nb: [${'*a,'.repeat(uses)}]`
    expect(expand(source(50)).problems).toEqual([])
    expect(expand(source(51)).problems).toEqual([
      "too_complex: the file is too complex: it repeats values with '*' more than 50 times",
    ])
  })

  it('12 levels, in every notation', () => {
    const flow = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
    const flowMap = (depth: number) => '{ a: '.repeat(depth) + '}'.repeat(depth)
    const block = (depth: number) =>
      Array.from({ length: depth }, (_, level) => `${' '.repeat(level)}a:`).join('\n')
    const compact = (depth: number) => `${'- '.repeat(depth)}x`
    for (const make of [flow, flowMap, block, compact]) {
      expect(expand(make(12)).problems).toEqual([])
      expect(expand(make(13)).problems).toEqual([TOO_DEEP])
    }
    const nested = (levels: number) => `a: &a ${flow(levels)}\nb: [[*a]]`
    expect(expand(nested(9)).problems).toEqual([])
    expect(expand(nested(10)).problems).toEqual([TOO_DEEP])
  })
})

describe('bombs are refused before they unfold', () => {
  const levels = Array.from({ length: 24 }, (_, index) => index + 1)
  const half = SERVICE_FILE.bytes / 2
  const bombs: Record<string, string> = {
    'ten aliases of ten aliases': [
      'a0: &a0 [x, x, x, x, x, x, x, x, x, x]',
      ...[1, 2, 3, 4].map((n) => `a${n}: &a${n} [${`*a${n - 1}, `.repeat(10)}]`),
    ].join('\n'),
    'merges that double': [
      'a0: &a0 { k: v }',
      ...levels.map((n) => `a${n}: &a${n} { <<: [*a${n - 1}, *a${n - 1}], k${n}: v }`),
    ].join('\n'),
    'merges of nothing that double': [
      'a0: &a0 {}',
      ...levels.map((n) => `a${n}: &a${n} { <<: [*a${n - 1}, *a${n - 1}] }`),
    ].join('\n'),
    'one large map merged often': `a: &a { ${Array.from({ length: 900 }, (_, n) => `k${n}: v`).join(', ')} }\n${Array.from({ length: 20 }, (_, n) => `m${n}: { <<: *a }`).join('\n')}`,
    'open brackets': '['.repeat(SERVICE_FILE.bytes),
    'nested brackets': '['.repeat(half) + ']'.repeat(half),
    'nested maps': '{a: '.repeat(SERVICE_FILE.bytes / 4),
    'compact lists': '- '.repeat(half),
    'explicit keys': '? '.repeat(half),
    'ever deeper lines': levels.map((n) => `${' '.repeat(n)}a:`).join('\n'),
    'many keys': Array.from({ length: 9_000 }, (_, n) => `k${n}:`).join('\n'),
    'many commas': `[${','.repeat(SERVICE_FILE.bytes - 1)}`,
    'many comments': '#\n'.repeat(half),
    'many names': '&a '.repeat(SERVICE_FILE.bytes / 3),
  }

  it.each(Object.entries(bombs))('%s', (_, source) => {
    const { value, problems } = expand(source)
    expect(value).toBeUndefined()
    expect(problems).toHaveLength(1)
    expect(problems[0]).toMatch(/^too_complex: /)
  })
})

describe('anchors and merges', () => {
  const same = (source: string): void => {
    const { value, problems } = expand(source)
    expect(problems).toEqual([])
    expect(value).toEqual(parse(source, { merge: true }))
  }

  it('give what the YAML library gives', () => {
    same('a: &a { x: 1, y: 2 }\nb: { <<: *a, y: 3, z: 4 }\nc: { y: 5, <<: *a }')
    same('a: &a { x: 1 }\nb: &b { x: 2, y: 2 }\nc: { <<: [*a, *b], z: 1 }\nd: { <<: [*b, *a] }')
    same('a: &a { x: &x [1, 2], <<: { y: *x } }\nb: { <<: *a }\nc: *x')
    same('a: &n 1\nb: *n\nc: &n 2\nd: *n')
    same('a: &k key\n*k : value')
    same('a: "<<"\n"<<": { b: 1 }')
    same('a: ~\nb:\nc: ""\nd: 0o17\ne: 1.50\nf: 2026-11-15\ng: yes\nh: !!str 12')
  })

  it('keep the explicit key before the merged one, wherever it stands', () => {
    expect(expand('a: &a { x: 1, y: 1 }\nb: { <<: *a, x: 2 }').value).toMatchObject({
      b: { x: 2, y: 1 },
    })
  })
})

describe('positions', () => {
  it('are those of keys and values', () => {
    const source = 'a: { b: "c" }\nd:\n  - e\n'
    const report = startReport(source, '.service.yml')
    const root = readTree(source, report)
    const text = (span: { start: number; end: number }) => source.slice(span.start, span.end)
    const seen: string[] = []
    const visit = (node: TreeNode): void => {
      if (node.kind === 'scalar') seen.push(text(node.span))
      if (node.kind === 'list') node.items.map(visit)
      if (node.kind === 'map') {
        for (const entry of node.entries) {
          seen.push(text(entry.keySpan))
          visit(entry.value)
        }
      }
    }
    visit(root as TreeNode)
    expect(seen).toEqual(['a', 'b', '"c"', 'd', 'e'])
  })
})
