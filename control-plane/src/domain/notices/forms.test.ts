// Texts from outside in every form: no markup, no mention, no escape sequence, no second line; and what becomes of a
// failed try.
import { describe, expect, test } from 'vitest'
import { NOTICES } from '../../limits/notices.ts'
import { mailText, requestBody } from './forms.ts'
import { cleanLine, describeNotice, findErrorLine, type Notice } from './notice.ts'
import { canMatch, chooseChannels, judgeFailure, judgeStatus, readRetryAfter } from './rules.ts'

const EVIL =
  '\u001b[31m@everyone @here <!channel> <@U123> **bold** [x](https://evil.example.com) `code` ```fence``` \u202e~town #tag\r\nBcc: x@example.com'

const notice = (text: string): Notice => ({
  happening: 'deployment.failed',
  at: 0,
  organization: { id: 1, name: cleanLine(text) },
  project: { id: 2, name: cleanLine(text) },
  environment: {
    id: 3,
    identifier: cleanLine(text),
    isPreview: true,
    isProtected: false,
    address: null,
  },
  pullRequest: null,
  server: null,
  task: {
    id: 4,
    type: 'deploy',
    action: null,
    branch: cleanLine(text),
    commitSha: 'a'.repeat(40),
    commitMessage: cleanLine(text),
    by: cleanLine(text),
    failedStep: cleanLine(text),
    message: cleanLine(text),
    errorLine: cleanLine(text),
  },
  reason: null,
})

const BASE = 'https://berth.example.com'
const form = (kind: Parameters<typeof requestBody>[0]) => {
  const evil = notice(EVIL)
  return requestBody(kind, evil, describeNotice(evil, BASE), BASE)
}

/** Every text in a JSON value. */
const textsOf = (value: unknown): string[] => {
  if (typeof value === 'string') return [value]
  return value !== null && typeof value === 'object' ? Object.values(value).flatMap(textsOf) : []
}

describe('text from a repository', () => {
  test.each(['slack', 'discord', 'teams', 'mattermost', 'webhook'] as const)(
    'in %s has no escape sequence and no direction mark',
    (kind) => {
      const marks = ['\u001b', '\u202e', '\r']
      const texts = textsOf(form(kind)).join('\n')
      expect(marks.filter((mark) => texts.includes(mark))).toEqual([])
    },
  )

  test('is plain text in Slack, and its fallback cannot mention', () => {
    const body = form('slack') as { text: string; blocks: { elements: object[] }[] }
    expect(body.text).not.toMatch(/<[!@#]/)
    expect(JSON.stringify(body)).not.toContain('mrkdwn')
  })

  test('is escaped in Discord, where nothing may be mentioned', () => {
    const body = form('discord') as {
      allowed_mentions: object
      embeds: { title: string; description: string }[]
    }
    expect(body.allowed_mentions).toEqual({ parse: [] })
    expect(body.embeds[0]?.title).toContain('\\*\\*bold\\*\\*')
    expect(body.embeds[0]?.description).not.toContain('```fence')
  })

  test('is a text run in Teams, which reads no Markdown', () => {
    expect(JSON.stringify(form('teams'))).not.toContain('"TextBlock"')
  })

  test('cannot mention or link in Mattermost', () => {
    const { text } = form('mattermost') as { text: string }
    expect(text).not.toMatch(/@(everyone|here|channel|all)/)
    expect(text.replace(/```[^`]*```/, '')).not.toMatch(/(?<!\\)\[x\]/)
    expect(text.split('```')).toHaveLength(3) // our own block alone
  })

  test('adds no line to a mail and no header', () => {
    const evil = notice(EVIL)
    const { subject, text } = mailText(describeNotice(evil, BASE))
    expect(subject).not.toMatch(/[\r\n]/)
    expect(text).not.toMatch(/^Bcc:/m)
  })
})

test('a line is cut by characters, never inside one', () => {
  const cut = cleanLine('😀'.repeat(400))
  expect([...cut]).toHaveLength(NOTICES.textCharacters)
  expect(cut.endsWith('😀…')).toBe(true)
})

test.each([
  [['ok', 'npm ERR! missing script', 'error: later'], 'npm ERR! missing script'],
  [
    ['compiling', 'src/a.ts: error TS2304: Cannot find name', '1 error'],
    'src/a.ts: error TS2304: Cannot find name',
  ],
  [['one', 'the end', '  '], 'the end'],
  [[], null],
])('the line that tells most of %j', (lines, line) => {
  expect(findErrorLine(lines)).toBe(line)
})

describe('rules', () => {
  const rule = { channelId: 1, projectId: null, environmentType: null, happenings: [] }

  test('a channel hears once, by the most telling word that it names', () => {
    const rules = [
      { ...rule, happenings: ['deployment.succeeded' as const] },
      { ...rule, happenings: ['deployment.recovered' as const] },
      { ...rule, channelId: 2, happenings: ['deployment.succeeded' as const] },
      { ...rule, channelId: 3, projectId: 9, happenings: ['deployment.succeeded' as const] },
    ]
    const about = { projectId: 8, environmentTypes: ['manual' as const] }
    const words = ['deployment.recovered', 'deployment.succeeded'] as const
    expect([...chooseChannels(rules, about, words)]).toEqual([
      [1, 'deployment.recovered'],
      [2, 'deployment.succeeded'],
    ])
  })

  test('a narrow rule about servers alone can never match', () => {
    const servers = { ...rule, happenings: ['server.offline' as const] }
    expect(canMatch(servers)).toBe(true)
    expect(canMatch({ ...servers, projectId: 1 })).toBe(false)
    expect(
      canMatch({ ...servers, projectId: 1, happenings: ['server.offline', 'task.failed'] }),
    ).toBe(true)
  })
})

describe('a failed try', () => {
  const at = (tries: number, refused = 0) => ({ tries, refused, now: 0 })

  test('is repeated over about a day, then the channel is broken', () => {
    let total = 0
    for (const [i] of NOTICES.backoffMs.entries()) {
      const { nextAt, isBroken } = judgeFailure({ kind: 'later' }, at(i + 1))
      expect(isBroken).toBe(false)
      total += nextAt ?? 0
    }
    expect(total).toBeGreaterThan(20 * 3_600_000)
    expect(total).toBeLessThan(26 * 3_600_000)
    const last = judgeFailure({ kind: 'later' }, at(NOTICES.backoffMs.length + 1))
    expect(last).toMatchObject({ nextAt: null, isBroken: true })
  })

  test('waits as long as the receiver asks, within a bound', () => {
    expect(judgeFailure({ kind: 'later', retryAfterMs: 60_000 }, at(1)).nextAt).toBe(60_000)
    expect(judgeFailure({ kind: 'later', retryAfterMs: 1e12 }, at(1)).nextAt).toBe(
      NOTICES.retryAfterMs,
    )
  })

  test.each([
    [404, 'refused'],
    [400, 'refused'],
    [408, 'later'],
    [425, 'later'],
    [429, 'later'],
    [500, 'later'],
    [503, 'later'],
    [410, 'gone'],
    [304, 'refused'],
  ])('%i means %s', (status, kind) => expect(judgeStatus(status)).toBe(kind))

  test.each([
    ['120', 120_000],
    ['0.5', 500],
    ['Thu, 01 Jan 1970 00:01:00 GMT', 60_000],
    ['-5', undefined],
    ['soon', undefined],
    [undefined, undefined],
  ])('Retry-After: %s', (header, ms) => {
    const read = readRetryAfter(header, 0)
    if (header === '-5') expect(read ?? 0).toBeGreaterThanOrEqual(0)
    else expect(read).toBe(ms)
  })
})
