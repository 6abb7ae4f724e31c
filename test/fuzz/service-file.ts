// Feeds damaged files to the parser of .service.yml: it answers each one, with problems that have a position, within a
// bounded processor time.
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of the file, not of JavaScript
import { readdirSync, readFileSync } from 'node:fs'
import { formatProblems, readServiceFile, routes } from '@berth/shared/service-file'
import fc from 'fast-check'
import { HOSTILE_TEXTS } from './values.ts'

export interface FileFuzz {
  inputs: number
  seed: number
  /** Uses a parser that is slow and throws on purpose; the fuzzer must notice. */
  planted: boolean
  /** Processor time that a file may take. */
  boundMs?: number
  say: (line: string) => void
}

export interface FileCounts {
  inputs: number
  valid: number
  crashes: number
  /** Files that took longer than the bound. */
  slow: number
  worstMs: number
}

/** Ten times what a step of the agent may take, because garbage collections and other processes add to it. */
const BOUND_MS = 2_000
const CHUNK = 2_000
const SHOWN = 5
const FACTS = { domain: 'a.example.com', identifier: 'a', type: 'manual', branch: 'main' } as const

const PIECES = [
  ...'{}[],:&*!|>%@`#?-\t\n "\'\\~'.split(''),
  '\n  ',
  '<<: *node',
  '&node ',
  '*node',
  '---\n',
  '!!binary ',
  '${SERVICE_DOMAIN}',
  'services:\n  web:\n    ',
  'default: true\n',
  'domain: ',
  'artifacts:\n  paths: ["**/*"]\n',
  '['.repeat(200),
  '{a: '.repeat(50),
  '&a [*a, *a]\n',
  '- '.repeat(300),
  'k: v\n'.repeat(500),
  ...HOSTILE_TEXTS,
]

function examples(): string[] {
  const folder = new URL('../fixtures/service-yml/', import.meta.url)
  return readdirSync(folder)
    .filter((name) => name.endsWith('.yml'))
    .map((name) => readFileSync(new URL(name, folder), 'utf8'))
}

function files(): fc.Arbitrary<string> {
  const cut = fc.tuple(fc.nat(), fc.nat(60), fc.constantFrom(...PIECES))
  const damaged = fc
    .tuple(fc.constantFrom(...examples()), fc.array(cut, { minLength: 1, maxLength: 6 }))
    .map(([source, cuts]) =>
      cuts.reduce((text, [at, length, piece]) => {
        const place = at % (text.length + 1)
        return text.slice(0, place) + piece + text.slice(place + (length > 40 ? 0 : length))
      }, source),
    )
  const pieced = fc.array(fc.constantFrom(...PIECES), { maxLength: 60 }).map((p) => p.join(''))
  const raw = fc.string({ unit: 'binary', maxLength: 2_000 })
  return fc.oneof(
    { arbitrary: damaged, weight: 6 },
    { arbitrary: pieced, weight: 3 },
    { arbitrary: raw, weight: 1 },
  )
}

/** Throws if an answer breaks the parser's guarantees. */
function judge(source: string): boolean {
  const { file, problems } = readServiceFile(source)
  if (file === undefined && problems.length === 0) throw new Error('no file and no problem')
  formatProblems(source, problems, { excerpts: 'all' })
  if (!file) return false
  routes(file, 'docker', FACTS)
  routes(file, 'manual', FACTS)
  return true
}

/** Once as slow as a bad pattern, and sometimes throwing. */
function breakOnPurpose(boundMs: number): (source: string) => boolean {
  let wasSlow = false
  return (source) => {
    if (source.includes('&a [')) throw new Error('planted')
    if (source.includes('- - - ') && !wasSlow) {
      wasSlow = true
      const before = process.cpuUsage()
      while (process.cpuUsage(before).user < boundMs * 1_100);
    }
    return judge(source)
  }
}

export function fuzzServiceFile(options: FileFuzz): FileCounts {
  const { inputs, seed, planted, say, boundMs = BOUND_MS } = options
  const counts: FileCounts = { inputs: 0, valid: 0, crashes: 0, slow: 0, worstMs: 0 }
  const check = planted ? breakOnPurpose(boundMs) : judge
  const arbitrary = files()
  for (let chunk = 0; counts.inputs < inputs; chunk++) {
    const numRuns = Math.min(CHUNK, inputs - counts.inputs)
    for (const source of fc.sample(arbitrary, { numRuns, seed: seed + chunk })) {
      counts.inputs += 1
      const before = process.cpuUsage()
      try {
        if (check(source)) counts.valid += 1
      } catch (error) {
        counts.crashes += 1
        if (counts.crashes <= SHOWN)
          say(`${String(error)}: ${JSON.stringify(source.slice(0, 300))}`)
      }
      const ms = process.cpuUsage(before).user / 1_000
      counts.worstMs = Math.max(counts.worstMs, Math.round(ms))
      if (ms > boundMs) {
        counts.slow += 1
        if (counts.slow <= SHOWN)
          say(`${Math.round(ms)} ms: ${JSON.stringify(source.slice(0, 300))}`)
      }
    }
  }
  return counts
}
