// Formatting, pasted .env files and the queries an event touches: the parts of the dashboard that need no browser.
import { expect, test } from 'vitest'
import { isReserved, readDotenv } from './dotenv.ts'
import {
  ago,
  browserWords,
  bytes,
  clock,
  commitUrl,
  duration,
  initials,
  repositoryName,
} from './format.ts'
import { isTouched } from './live/touches.ts'

test('how long ago', () => {
  const now = 1_000_000_000
  const s = 1_000
  const cases: [number, string][] = [
    [3 * s, 'just now'],
    [42 * s, '42 s ago'],
    [119 * s, '1 min ago'],
    [2 * 3_600 * s, '2 h ago'],
    [3 * 86_400 * s, '3 days ago'],
    [-900 * s, 'in 15 min'],
    [-5 * s, 'in a moment'],
  ]
  for (const [past, words] of cases) expect(ago(now - past, now)).toBe(words)
})

test('durations, clocks, sizes', () => {
  expect([400, 12_000, 78_000, 7_380_000].map(duration)).toEqual([
    '0.4s',
    '12.0s',
    '1m18s',
    '2h03m',
  ])
  expect([43_000, 727_000, 3_729_000, -5].map(clock)).toEqual(['0:43', '12:07', '1:02:09', '0:00'])
  expect([512, 2_048, 15 * 1_024 ** 2, 252 * 1_024 ** 3].map(bytes)).toEqual([
    '512 B',
    '2.0 kB',
    '15 MB',
    '252 GB',
  ])
})

test('repositories and commits', () => {
  for (const url of ['git@github.com:acme/shop.git', 'https://user:x@github.com/acme/shop.git']) {
    expect(repositoryName(url)).toBe('github.com/acme/shop')
  }
  expect(commitUrl('git@github.com:acme/shop.git', 'abc', 'github')).toBe(
    'https://github.com/acme/shop/commit/abc',
  )
  expect(commitUrl('https://git.example.com/a/b', 'abc', null)).toBeUndefined()
  expect([initials('Ada Lovelace'), initials('ada')]).toEqual(['AL', 'A'])
})

test('a pasted file: quotes, comments, export, lines that go on, the last of two', () => {
  const text = [
    '# of the shop',
    'A=1 # one',
    'export B = two words ',
    "C='# no comment'",
    'D="line\\nbreak \\"x\\""',
    'E="over',
    'two lines"',
    'A=2',
    'not a line',
    '1BAD=x',
    'EMPTY=',
  ].join('\r\n')
  expect(Object.fromEntries(readDotenv(text).map(({ key, value }) => [key, value]))).toEqual({
    A: '2',
    B: 'two words',
    C: '# no comment',
    D: 'line\nbreak "x"',
    E: 'over\ntwo lines',
    EMPTY: '',
  })
  expect(['SERVICE_DOMAIN', 'BERTH_X', 'SERVICE_OWN', 'A'].map(isReserved)).toEqual([
    true,
    true,
    false,
    false,
  ])
})

test('an event asks again what it is about, and nothing else', () => {
  const key = (path: string, input?: object) => [path.split('.'), { input, type: 'query' }]
  const event = { kind: 'task.updated', seq: 1, project_id: 1, environment_id: 7, task_id: 9 }
  const touched = (path: string, input?: object) => isTouched(key(path, input), event)
  expect(touched('environment.get', { environment_id: 7 })).toBe(true)
  expect(touched('environment.get', { environment_id: 8 })).toBe(false)
  expect(touched('environment.list', { project_id: 1 })).toBe(true)
  expect(touched('environment.list', { project_id: 2 })).toBe(false)
  expect(touched('task.get', { task_id: 9 })).toBe(true)
  expect(touched('project.list')).toBe(true)
  expect(touched('member.list', { organization_id: 1 })).toBe(false)
  expect(isTouched(['something else'], event)).toBe(false)
})

test('browsers as people call them', () => {
  const cases: [string | null, string][] = [
    [
      'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36',
      'Chrome on Linux',
    ],
    [
      'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/156.0 Safari/537.36 Edg/156.0',
      'Edge on Windows',
    ],
    [
      'Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1 Version/19.0 Safari/604.1',
      'Safari on iOS',
    ],
    ['Mozilla/5.0 (Android 16; Mobile; rv:150.0) Gecko/150.0 Firefox/150.0', 'Firefox on Android'],
    ['curl/8.1', 'curl/8.1'],
    [null, 'unknown'],
  ]
  for (const [agent, words] of cases) expect(browserWords(agent)).toBe(words)
})
