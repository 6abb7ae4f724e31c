// RFC 6238's own examples, the tolerance of 30 s, and the forms that people type.
import { expect, test } from 'vitest'
import {
  hashRecoveryCode,
  makeRecoveryCodes,
  matchTotp,
  toBase32,
  totpCode,
  totpStep,
  totpUri,
} from './totp.ts'

const SECRET = Buffer.from('12345678901234567890')

test('codes are those of RFC 6238, appendix B, cut to six digits', () => {
  for (const [seconds, code] of [
    [59, '287082'],
    [1_111_111_109, '081804'],
    [1_111_111_111, '050471'],
    [1_234_567_890, '005924'],
    [2_000_000_000, '279037'],
  ] as const) {
    expect(totpCode(SECRET, totpStep(seconds * 1_000))).toBe(code)
  }
})

test('a clock may be one step off, not two', () => {
  const now = 1_234_567_890_000
  const step = totpStep(now)
  for (const off of [-1, 0, 1])
    expect(matchTotp(SECRET, totpCode(SECRET, step + off), now)).toBe(step + off)
  for (const off of [-2, 2])
    expect(matchTotp(SECRET, totpCode(SECRET, step + off), now)).toBeUndefined()
  for (const bad of ['', '12345', '1234567', 'abcdef'])
    expect(matchTotp(SECRET, bad, now)).toBeUndefined()
})

test('the secret is written as RFC 4648 has it, and the address of the QR code escapes names', () => {
  expect(toBase32(Buffer.from('foobar'))).toBe('MZXW6YTBOI')
  expect(toBase32(SECRET)).toBe('GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ')
  expect(totpUri(SECRET, { issuer: 'Berth a&b', email: 'ada@example.com' })).toBe(
    'otpauth://totp/Berth%20a%26b:ada%40example.com?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Berth%20a%26b',
  )
})

test('recovery codes differ and are found however they are typed', () => {
  const codes = makeRecoveryCodes()
  expect(new Set(codes).size).toBe(10)
  const [code = ''] = codes
  expect(code).toMatch(/^([a-z2-7]{4}-){3}[a-z2-7]{4}$/)
  expect(hashRecoveryCode(` ${code.toUpperCase().replaceAll('-', ' ')}`)).toBe(
    hashRecoveryCode(code),
  )
})
