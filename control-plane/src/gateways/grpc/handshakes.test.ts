import { describe, expect, test } from 'vitest'
import { describeHandshakeFailure } from './handshakes.ts'

describe('a failed handshake is told in words', () => {
  test.each([
    ['ECONNRESET', 'CERT_HAS_EXPIRED', 'certificate_expired', /has expired.*join it again/],
    ['ECONNRESET', 'CERT_NOT_YET_VALID', 'certificate_not_yet_valid', /clock/],
    ['ECONNRESET', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'unknown_authority', /join token/],
    ['ECONNRESET', 'INVALID_PURPOSE', 'wrong_purpose', /not one for agents/],
    ['ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE', null, 'certificate_missing', /no certificate/],
    ['ERR_SSL_TLSV1_ALERT_UNKNOWN_CA', null, 'distrusted', /does not trust/],
    ['ERR_SSL_UNSUPPORTED_PROTOCOL', null, 'old_tls', /TLS 1\.3/],
    ['ERR_SSL_WRONG_VERSION_NUMBER', null, 'not_tls', /did not speak TLS/],
    ['ERR_TLS_HANDSHAKE_TIMEOUT', undefined, 'timeout', /in time/],
    ['ECONNRESET', null, 'gone', /hung up/],
  ])('%s with verdict %s is %s', (code, verdict, kind, message) => {
    const reported = describeHandshakeFailure(code, verdict)
    expect(reported.kind).toBe(kind)
    expect(reported.message).toMatch(message)
  })

  test('one nobody foresaw keeps its code', () => {
    expect(describeHandshakeFailure('ERR_SSL_NEW')).toEqual({
      kind: 'other',
      message: 'the handshake failed (ERR_SSL_NEW)',
    })
    expect(describeHandshakeFailure('ECONNRESET', 'CERT_NEW').message).toMatch(/CERT_NEW/)
    expect(describeHandshakeFailure(undefined).message).toMatch(/no reason given/)
    expect(describeHandshakeFailure('constructor').kind).toBe('other')
  })
})
