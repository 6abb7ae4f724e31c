import { describe, expect, it } from 'vitest'
import { testIo, testSink } from '../testing/io.ts'
import { hasColour, openScreen, renderTable } from './terminal.ts'

const tty = testSink({ isTTY: true })
const pipe = testSink()

describe('colour', () => {
  it.each([
    ['terminal', tty, {}, true, true],
    ['pipe', pipe, {}, true, false],
    ['--no-color', tty, {}, false, false],
    ['NO_COLOR', tty, { NO_COLOR: '1' }, true, false],
    ['empty NO_COLOR is none', tty, { NO_COLOR: '' }, true, true],
    ['TERM=dumb', tty, { TERM: 'dumb' }, true, false],
    ['CLICOLOR=0', tty, { CLICOLOR: '0' }, true, false],
    ['CI=true', tty, { CI: 'true' }, true, false],
    ['forced in a pipe', pipe, { CLICOLOR_FORCE: '1' }, true, true],
    ['forced in CI', pipe, { FORCE_COLOR: '1', CI: 'true' }, true, true],
    ['NO_COLOR beats force', pipe, { FORCE_COLOR: '1', NO_COLOR: '1' }, true, false],
    ['FORCE_COLOR=0', tty, { FORCE_COLOR: '0' }, true, false],
  ])('%s', (_, sink, env, flag, expected) => {
    expect(hasColour(sink, env, flag)).toBe(expected)
  })
})

describe('tables', () => {
  const plain = (_: unknown, text: string) => text

  it('are aligned, and cut instead of wrapped', () => {
    const rows = [
      ['813', '✓ succeeded', 'a rather long phase that does not fit'],
      ['9', '日本', ''],
    ]
    expect(renderTable(['ID', 'STATUS', 'PHASE'], rows, 30, plain)).toEqual([
      'ID    STATUS        PHASE',
      '813   ✓ succeeded   a rather …',
      '9     日本',
    ])
  })

  it('never exceed the width, even when the first columns do', () => {
    const [, line] = renderTable(['A', 'B'], [['x'.repeat(50), 'y']], 20, plain)
    expect(line).toBe(`${'x'.repeat(19)}…`)
  })

  it('clean what is in them', () => {
    const [, line] = renderTable(['A'], [['a\u001b]0;t\u0007\nb']], 20, plain)
    expect(line).toBe('a b')
  })
})

it('a pipe gets tab-separated lines whose cells hold no tab', async () => {
  const io = testIo()
  const screen = openScreen(io, { json: false, color: true, quiet: false })
  await screen.printList({
    rows: ['a\tb\nc', ''],
    raw: [],
    header: ['X'],
    human: (row) => [row],
    plain: (row) => ['1', row],
    empty: 'nothing',
  })
  expect(io.stdout.text).toBe('1\ta b c\n1\t-\n')
})

it('errors are one line and a hint, whatever is in them', async () => {
  const io = testIo()
  const screen = openScreen(io, { json: false, color: true, quiet: true })
  const { CliError } = await import('./exit.ts')
  await screen.fail(new CliError(1, 'a\nb\u001b[2J', 'try\nthis'))
  expect(io.stderr.text).toBe('error: a b\nhint:  try this\n')
})
