// Keeps words and phrases out of what users read: the dashboard's texts and the control plane's messages. The reasons
// and what to write instead are in CONTRIBUTING.md.
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))

const FORBIDDEN = [
  'whoever',
  'whatever',
  'whichever',
  'somebody',
  'anybody',
  'everybody',
  'nobody',
  'anew',
  'lies',
  'stands',
  'is had',
  'no such thing',
  'not for you',
  'on its way out',
  'deploy it at once',
  'as the project has it',
]
const PATTERN = new RegExp(`\\b(?:${FORBIDDEN.join('|')})\\b`, 'i')

/**
 * The source without comments, line by line. Quotes matter, because `//` is part of addresses. Identifiers stay: none
 * of them needs one of these words.
 */
export function withoutComments(source: string): string {
  const tokens =
    /"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`|\{?\/\*[\s\S]*?\*\/\}?|(?<![:/])\/\/[^\n]*/g
  return source.replace(tokens, (token) =>
    /^\{?\/[*/]/.test(token) ? token.replace(/[^\n]/g, '') : token,
  )
}

function findWords(files: string[], pick: (line: string) => boolean): string[] {
  return files.flatMap((file) =>
    withoutComments(readFileSync(join(root, file), 'utf8'))
      .split('\n')
      .flatMap((line, n) =>
        PATTERN.test(line) && pick(line) ? [`${file}:${n + 1}: ${line.trim()}`] : [],
      ),
  )
}

const sources = (glob: string): string[] =>
  globSync(glob, { cwd: root }).filter((file) => !/\.test\.tsx?$|\/testing\//.test(file))

test('the dashboard', () => {
  const files = [...sources('dashboard/src/**/*.{ts,tsx}'), 'dashboard/index.html']
  expect(files.length).toBeGreaterThan(80)
  expect(findWords(files, () => true)).toEqual([])
})

test("the control plane's messages", () => {
  const files = sources('control-plane/src/{app,domain,gateways,mail}/**/*.ts')
  expect(files.length).toBeGreaterThan(200)
  // an identifier is not shown; a message has a space in its quotes
  expect(findWords(files, (line) => /['"`][^'"`]* [^'"`]*/.test(line))).toEqual([])
})

test('comments are left out, texts are not', () => {
  expect(withoutComments("a // nobody\nb('http://x nobody')")).toBe("a \nb('http://x nobody')")
  expect(withoutComments('<p>{/* anew */}anew</p>\n/* whoever\n*/ x')).toBe('<p>anew</p>\n\n x')
  expect(PATTERN.test('Whoever has it')).toBe(true)
  expect(PATTERN.test('understands families')).toBe(false)
})
