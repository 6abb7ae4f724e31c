import { createHash, randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import {
  hashToken,
  makeJoinToken,
  makeToken,
  parseJoinToken,
  parseToken,
  sameHash,
  TOKEN_PREFIXES,
} from './tokens.ts'

const ALPHABET = [...'0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz']

describe('a token', () => {
  test.each(TOKEN_PREFIXES)('%s is its prefix, 43 characters and a checksum of 6', (prefix) => {
    const token = makeToken(prefix)
    expect(token).toMatch(new RegExp(`^${prefix}[0-9A-Za-z]{49}$`))
    expect(parseToken(token)).toEqual({ prefix })
  })

  test('is never made twice, and uses every character in every place but the first', () => {
    const seen = Array.from({ length: 43 }, () => new Set<string>())
    const tokens = new Set<string>()
    for (let n = 0; n < 2_000; n++) {
      const token = makeToken('berth_at_')
      tokens.add(token)
      for (const [place, letters] of seen.entries()) letters.add(token.charAt(9 + place))
    }
    expect(tokens.size).toBe(2_000)
    for (const letters of seen.slice(1)) expect(letters.size).toBe(62)
  })

  test('with one wrong character is refused without a look-up', () => {
    const token = makeToken('berth_pat_')
    for (let place = 0; place < token.length; place++)
      for (const letter of [...ALPHABET, '_', ' ', 'é']) {
        if (letter === token.charAt(place)) continue
        const wrong = token.slice(0, place) + letter + token.slice(place + 1)
        expect(parseToken(wrong), wrong).toBeUndefined()
      }
  })

  test('with another prefix, cut, padded or swapped is refused', () => {
    const token = makeToken('berth_at_')
    const body = token.slice('berth_at_'.length)
    const wrong = ['', 'berth_at_', `berth_rt_${body}`, `berth_pat_${body}`, body, `${token}0`]
    wrong.push(token.slice(0, -1), ` ${token}`, `${token}\n`, token.toUpperCase(), `x${token}`)
    wrong.push(makeToken('berth_join_' as 'berth_at_'), 'a'.repeat(1_000_000))
    for (const text of wrong) expect(parseToken(text), text.slice(0, 80)).toBeUndefined()
    const swapped = [...body]
    const at = swapped.findIndex((letter, n) => n < 42 && letter !== swapped[n + 1])
    swapped.splice(at, 2, swapped[at + 1] ?? '', swapped[at] ?? '')
    expect(parseToken(`berth_at_${swapped.join('')}`)).toBeUndefined()
  })

  test('has a known checksum, so that other programs can find leaked ones', () => {
    const body = `berth_at_${'0'.repeat(43)}`
    expect(parseToken(`${body}2qfZlM`)).toEqual({ prefix: 'berth_at_' })
  })

  test('is stored as SHA-256', () => {
    const token = makeToken('berth_rt_')
    expect(hashToken(token)).toBe(createHash('sha256').update(token).digest('hex'))
    expect(sameHash(hashToken(token), hashToken(token))).toBe(true)
    expect(sameHash(hashToken(token), hashToken(`${token} `))).toBe(false)
    expect(sameHash(hashToken(token), '')).toBe(false)
    expect(sameHash('', 'a')).toBe(false)
  })
})

describe('a join token', () => {
  const caHash = randomBytes(32).toString('base64url')

  test('carries its id, a secret and the hash of the authority', () => {
    const made = makeJoinToken(caHash)
    expect(made.token).toMatch(/^berth_join_[0-9A-Za-z]{12}\.[\w-]{43}\.[\w-]{43}$/)
    expect(parseJoinToken(made.token)).toEqual({ id: made.id, secretHash: made.secretHash, caHash })
    expect(made.secretHash).toBe(hashToken(made.token.split('.')[1] ?? ''))
    expect(JSON.stringify({ id: made.id, secretHash: made.secretHash })).not.toContain(
      made.token.split('.')[1],
    )
  })

  test('is never made twice', () => {
    const made = Array.from({ length: 2_000 }, () => makeJoinToken(caHash))
    expect(new Set(made.map(({ id }) => id)).size).toBe(2_000)
    expect(new Set(made.map(({ secretHash }) => secretHash)).size).toBe(2_000)
    const letters = new Set(made.flatMap(({ id }) => [...id]))
    expect([...letters].sort()).toEqual(ALPHABET)
  })

  test('in any other form is none', () => {
    const { token } = makeJoinToken(caHash)
    const [id = '', secret = '', hash = ''] = token.split('.')
    const wrong = [
      '',
      'berth_join_',
      id,
      `${id}.${secret}`,
      `${token}.x`,
      `${token}\n`,
      ` ${token}`,
    ]
    wrong.push(`${id}..${hash}`, `${id}.${secret}=.${hash}`, `${id}x.${secret}.${hash}`)
    wrong.push(token.replace('join', 'at'), makeToken('berth_at_'))
    for (const text of wrong) expect(parseJoinToken(text), text).toBeUndefined()
  })

  test('is not made for something that is no hash', () => {
    for (const bad of ['', 'a.b', caHash.slice(1), `${caHash}=`])
      expect(() => makeJoinToken(bad)).toThrow(/caHash/)
  })
})
