import type { Failure } from '@berth/shared/api'
import { expect, it } from 'vitest'
import { changeHints, composeOutput, diagnosticsStatus } from './diagnostics.ts'

const failure: Failure = {
  code: 'config_missing',
  phase: 'configure',
  step: 'read-config',
  step_title: 'Read .service.yml',
  message: '.service.yml was not found.',
  exit_code: null,
  line: null,
  is_platform_check: true,
}
const since = {
  taskId: 801,
  commitSha: 'a'.repeat(40),
  serviceFileChanged: false,
  variableKeysChanged: [],
}
const B = 'b'.repeat(40)
const codes = (...args: Parameters<typeof changeHints>) => changeHints(...args).map((h) => h.code)

it('stands until a later deployment has succeeded', () => {
  expect(diagnosticsStatus(undefined, undefined)).toBe('none')
  expect(diagnosticsStatus(9, undefined)).toBe('failed')
  expect(diagnosticsStatus(9, 12)).toBe('recovered')
})

it('says the reason of a platform check with its evidence, once', () => {
  expect(composeOutput(failure, [])).toBe('.service.yml was not found.')
  expect(composeOutput(failure, ['looked in main'])).toBe(
    '.service.yml was not found.\nlooked in main',
  )
  expect(composeOutput(failure, ['✗ .service.yml was not found.'])).toBe(
    '✗ .service.yml was not found.',
  )
})

it('leaves the output of a command as it is', () => {
  const command = {
    ...failure,
    code: 'step_failed',
    message: '`make` exited with 2.',
    is_platform_check: false,
  }
  expect(composeOutput(command, ['make: *** [all] Error 2'])).toBe('make: *** [all] Error 2')
  expect(composeOutput(command, [])).toBe('`make` exited with 2.')
})

it('names what changed since the last success', () => {
  const all = { ...since, serviceFileChanged: true, variableKeysChanged: ['APP_KEY', 'URL'] }
  expect(changeHints(B, all).map(({ code, message }) => `${code}: ${message}`)).toEqual([
    'commit_changed: The commit is bbbbbbb; the last success (task 801) had aaaaaaa.',
    'service_file_changed: .service.yml is not that of the last success (task 801).',
    'variables_changed: Changed since the last success (task 801): variables APP_KEY, URL.',
  ])
})

it('says that nothing changed only when everything is known to be the same', () => {
  expect(codes(since.commitSha, since)).toEqual(['nothing_changed'])
  expect(codes(since.commitSha, { ...since, serviceFileChanged: null })).toEqual([])
  expect(codes(null, since)).toEqual([])
  expect(codes(since.commitSha, { ...since, commitSha: null })).toEqual([])
  expect(codes(since.commitSha, { ...since, variableKeysChanged: ['A'] })).toEqual([
    'variables_changed',
  ])
})

it('has nothing to compare without a success', () => {
  expect(changeHints(B, null)).toEqual([])
})
