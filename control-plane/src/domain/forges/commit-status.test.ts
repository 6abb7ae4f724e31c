// The words of each moment, and that they contain no markup.
import { describe, expect, test } from 'vitest'
import { describeComment, describeMoment } from './commit-status.ts'

describe('statuses', () => {
  test.each([
    [{ kind: 'queued', server: 'fra-1' }, 'pending', 'Waiting for fra-1'],
    [{ kind: 'running' }, 'running', 'Deploying'],
    [{ kind: 'succeeded', address: null }, 'success', 'Deployed'],
    [
      { kind: 'failed', step: 'Build image web', message: 'exited with 1.' },
      'failure',
      'Failed: Build image web: exited with 1.',
    ],
    [{ kind: 'canceled', reason: 'superseded' }, 'stopped', 'Replaced by a newer commit'],
    [{ kind: 'canceled', reason: 'user' }, 'stopped', 'Canceled'],
    [{ kind: 'approval' }, 'pending', 'Waiting for approval by a member'],
    [
      { kind: 'limit', used: 20, limit: 20, position: 2 },
      'pending',
      '20 of 20 environments in use, place 2 in line',
    ],
  ] as const)('%j', (moment, state, description) => {
    expect(describeMoment(moment)).toEqual({ state, description, url: null })
  })

  test('success carries the address', () => {
    const reported = describeMoment({
      kind: 'succeeded',
      address: 'https://pr-42.shop.example.com',
    })
    expect(reported.url).toBe('https://pr-42.shop.example.com')
    expect(reported.description).toContain('https://pr-42.shop.example.com')
  })

  test('long and hostile words become one short line', () => {
    const message = `\u001b[31m${'x'.repeat(500)}\r\n\u202eabc`
    const { description } = describeMoment({ kind: 'failed', step: null, message })
    expect(description.length).toBe(140)
    expect(description).not.toMatch(/[\p{Cc}\p{Cf}]/u)
  })
})

test('a name in a comment cannot leave its place', () => {
  const facts = {
    project: 'sh`op\n# x',
    identifier: 'pr-1',
    sha: 'a'.repeat(40),
    address: null,
    taskUrl: 'https://d.example.com/tasks/1',
  }
  expect(describeComment('succeeded', facts)).toMatch(
    /^\*\*`shop# x\/pr-1`\*\* is deployed at `aaaaaaa`/,
  )
  expect(describeComment('removed', facts)).toContain('environment removed')
})
