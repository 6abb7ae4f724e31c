import { expect, it } from 'vitest'
import { createLineFilter, levelOf, statusClassOf } from './lines.ts'

it.each([
  ['{"level":"error","msg":"boom"}', 'error'],
  ['{"level":50,"time":1763197954012,"msg":"pino"}', 'error'],
  ['{"level":40}', 'warn'],
  ['{"level":30}', 'info'],
  ['{"level":"20"}', 'debug'],
  ['{"severity":"WARNING","message":"cloud"}', 'warn'],
  ['{"log.level":"info","message":"ecs"}', 'info'],
  ['{"level":3,"short_message":"syslog"}', 'error'],
  ['{"msg":"an ERROR in a message is no level"}', null],
  ['{"level":"purple"}', null],
  ['{"broken": ERROR', 'error'],
  ['ERROR something broke', 'error'],
  ['2026-11-17 09:12:30,123 WARN  [main] c.e.App - slow', 'warn'],
  ['2026-11-17T09:12:30Z INFO started', 'info'],
  ['[error] 12#12: *3 connect() failed', 'error'],
  ['09:12:30 [Warning] deprecated', 'warn'],
  ['<debug> x', 'debug'],
  ['time=2026-11-17T09:12:30Z level=warning msg="slow"', 'warn'],
  ['ts=1 lvl=dbug', null],
  ['error: no such file', 'error'],
  ['TypeError: x is not a function', 'error'],
  ['java.lang.IllegalStateException: no', 'error'],
  ['E1117 09:12:30.123456       1 main.go:3] failed', 'error'],
  ['I1117 09:12:30.123456       1 main.go:3] fine', 'info'],
  ['\u001b[31mERROR\u001b[0m coloured', 'error'],
  ['npm ERR! missing script', 'error'],
  ['FATAL:  role "root" does not exist', 'error'],
  ['LOG:  database system is ready', null],
  ['GET /errors 200', null],
  ['no error here', null],
  ['    at run (/app/error.js:3:5)', null],
  [`${'x'.repeat(200)} ERROR far away`, null],
  ['', null],
])('finds the level of %s', (line, level) => {
  expect(levelOf(line)).toBe(level)
})

it('reads only the start of a long line, in linear time', () => {
  expect(levelOf(`WARN ${'a '.repeat(500_000)}`)).toBe('warn')
  expect(levelOf(`{"level":"error","body":"${'x'.repeat(1_000_000)}"}`)).toBe('error')
  expect(levelOf('\u001b['.repeat(500_000))).toBe(null)
})

it('filters by text without regard to case and colours, and by level', () => {
  expect(createLineFilter({})).toBeUndefined()
  expect(createLineFilter({ levels: ['error', 'warn', 'info', 'debug', 'other'] })).toBeUndefined()
  const both = createLineFilter({ search: 'TIME out', levels: ['error'] })
  expect(both?.('ERROR time \u001b[1mout\u001b[0m')).toBe(true)
  expect(both?.('WARN time out')).toBe(false)
  expect(both?.('ERROR refused')).toBe(false)
  const other = createLineFilter({ levels: ['other', 'warn'] })
  expect(['plain', 'WARN x', 'ERROR x'].map((line) => other?.(line))).toEqual([true, true, false])
  expect(createLineFilter({ search: 'a.c' })?.('abc')).toBe(false)
})

it('names classes of a status', () => {
  expect([204, 301, 404, 599, 101, 0].map(statusClassOf)).toEqual([
    '2xx',
    '3xx',
    '4xx',
    '5xx',
    null,
    null,
  ])
})
