import { expect, it } from 'vitest'
import { CliError } from '../../terminal/exit.ts'
import { readVariableFile } from './variable-file.ts'

const read = (text: string) => Object.fromEntries(readVariableFile(text, '.env'))

it.each<[string, Record<string, string>]>([
  ['A=1\nB=two words\n', { A: '1', B: 'two words' }],
  ['export A=1\r\n# no\n\n  B = x # a remark\n', { A: '1', B: 'x' }],
  ['A=\'$HOME \\n "x"\'', { A: '$HOME \\n "x"' }],
  ['A="one\\ntwo \\"x\\" \\$Y \\d"', { A: 'one\ntwo "x" $Y \\d' }],
  ['KEY="-----BEGIN\nline\n-----END"\nB=1', { KEY: '-----BEGIN\nline\n-----END', B: '1' }],
  ['A=\nB=""', { A: '', B: '' }],
  ['A=x#y', { A: 'x#y' }],
  ['\uFEFFA=1', { A: '1' }],
  ['A="x" # remark\nB=2', { A: 'x', B: '2' }],
])('%j', (text, expected) => {
  expect(read(text)).toEqual(expected)
})

it.each([
  ['A=1\nsecret-half', 2],
  ['A="no end\nB=1', 1],
  ["A='no end", 1],
  ['2A=x', 1],
  ['A="x" y', 1],
  ['A=1\n\n\nA=2', 4],
])('%j is refused by the number of its line alone', (text, line) => {
  try {
    read(text)
    expect.unreachable()
  } catch (error) {
    expect(error).toBeInstanceOf(CliError)
    const { message, hint } = error as CliError
    expect(message).toContain(`line ${line}`)
    expect(`${message}${hint}`).not.toMatch(/secret|no end/)
  }
})
