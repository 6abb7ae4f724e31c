import 'reflect-metadata'
import { createPublicKey, generateKeyPairSync, webcrypto } from 'node:crypto'
import { AppError } from '@berth/shared'
import * as x509 from '@peculiar/x509'
import { describe, expect, test } from 'vitest'
import { ENROLMENT } from '../limits/keys.ts'
import { readRequestedKey } from './csr.ts'
import { buildRequest, hex, p256, spkiOf, tlv } from './requests.testing.ts'

x509.cryptoProvider.set(webcrypto)

const pem = (der: Buffer) =>
  x509.PemConverter.encode(new Uint8Array(der).buffer, 'CERTIFICATE REQUEST')

function refuses(csr: string | Uint8Array, why: RegExp): void {
  let refusal: unknown
  try {
    readRequestedKey(csr)
  } catch (error) {
    refusal = error
  }
  expect(refusal).toBeInstanceOf(AppError)
  expect(refusal).toMatchObject({ code: 'csr_invalid', message: expect.stringMatching(why) })
}

describe('a certificate request', () => {
  test('gives its public key, whoever made it and in whichever form', async () => {
    const pair = p256()
    const own = buildRequest({ spki: spkiOf(pair.publicKey), key: pair.privateKey })
    for (const form of [own, new Uint8Array(own), pem(own), `\n${pem(own)}\r\n`])
      expect(spkiOf(readRequestedKey(form))).toEqual(spkiOf(pair.publicKey))

    const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
    const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
    const made = await x509.Pkcs10CertificateRequestGenerator.create({
      name: 'CN=root, O=Somebody else',
      keys,
      signingAlgorithm: algorithm,
      extensions: [
        new x509.SubjectAlternativeNameExtension([{ type: 'url', value: 'spiffe://a/agent/b' }]),
      ],
      attributes: [new x509.ChallengePasswordAttribute('x')],
    })
    const spki = Buffer.from(await webcrypto.subtle.exportKey('spki', keys.publicKey))
    expect(spkiOf(readRequestedKey(made.toString('pem')))).toEqual(spki)
    expect(spkiOf(readRequestedKey(new Uint8Array(made.rawData)))).toEqual(spki)
  })

  test.each([
    ['P-384', () => generateKeyPairSync('ec', { namedCurve: 'secp384r1' })],
    ['secp256k1', () => generateKeyPairSync('ec', { namedCurve: 'secp256k1' })],
    ['RSA', () => generateKeyPairSync('rsa', { modulusLength: 2048 })],
  ])('for a key of kind %s is refused', (_kind, make) => {
    const pair = make()
    refuses(buildRequest({ spki: spkiOf(pair.publicKey), key: pair.privateKey }), /not .* P-256/)
  })

  test('for a point that is not on the curve, or in another form, is refused', () => {
    const pair = p256()
    const spki = Buffer.from(spkiOf(pair.publicKey))
    spki.writeUInt8(spki.readUInt8(90) ^ 1, 90)
    expect(() => createPublicKey({ key: spki, format: 'der', type: 'spki' })).toThrow()
    refuses(buildRequest({ spki, key: pair.privateKey }), /cannot be used/)
    const compressed = tlv(
      0x30,
      hex('301306072a8648ce3d020106082a8648ce3d030107'),
      tlv(0x03, hex('00'), hex('02'), spki.subarray(27, 59)),
    )
    refuses(buildRequest({ spki: compressed, key: pair.privateKey }), /P-256/)
  })

  test('signed by another key, with another hash, or not at all is refused', () => {
    refuses(buildRequest({ key: p256().privateKey }), /own key/)
    refuses(buildRequest({ hash: 'sha384' }), /own key/)
    refuses(buildRequest({ hash: 'sha384', algorithm: hex('300a06082a8648ce3d040303') }), /SHA-256/)
    refuses(buildRequest({ hash: 'sha1', algorithm: hex('300906072a8648ce3d0401') }), /SHA-256/)
    refuses(buildRequest({ signature: () => tlv(0x03, hex('00')) }), /own key/)
    refuses(buildRequest({ signature: () => tlv(0x03) }), /damaged/)
    refuses(buildRequest({ signature: (s) => tlv(0x03, hex('01'), s) }), /damaged/)
    refuses(buildRequest({ signature: (s) => tlv(0x03, hex('00'), s, hex('00')) }), /own key/)
  })

  test('with anything before, between or after its parts is refused', () => {
    const good = buildRequest()
    refuses(Buffer.concat([good, hex('00')]), /bytes follow/)
    refuses(Buffer.concat([good, good]), /bytes follow/)
    refuses(Buffer.concat([hex('00'), good]), /not a certificate request/)
    const inner = good.subarray(good.readUInt8(1) === 0x82 ? 4 : 3)
    refuses(tlv(0x30, inner, hex('0500')), /more than/)
    refuses(buildRequest({ attributes: hex('a0000500') }), /more than/)
    refuses(buildRequest({ attributes: hex('') }), /too early/)
    refuses(buildRequest({ version: hex('020101') }), /version/)
    refuses(`${pem(good)}${pem(good)}`, /one PEM block/)
    refuses(`x${pem(good)}`, /one PEM block/)
    refuses(pem(good).replaceAll('CERTIFICATE REQUEST', 'CERTIFICATE'), /one PEM block/)
    refuses(pem(good).replace(/[^-]\n/, '!\n'), /one PEM block/)
    refuses(pem(good).replace(/(.)\n-----END/, '=$1\n-----END'), /one PEM block/)
    refuses(pem(good).replace(/\n(.{40})/, '\n$1='), /one PEM block/)
    refuses(good.toString('base64'), /one PEM block/)
    refuses('', /one PEM block/)
    refuses(new Uint8Array(), /too early/)
    refuses(Buffer.alloc(ENROLMENT.csrBytes + 1, 0x30), /too long/)
  })

  test('whose lengths are not the shortest is refused', () => {
    const inner = buildRequest().subarray(3)
    refuses(
      Buffer.concat([hex('3082'), Buffer.from([inner.length >> 8, inner.length & 255]), inner]),
      /not DER/,
    )
    refuses(Buffer.concat([hex('3080'), inner, hex('0000')]), /not DER/)
    refuses(hex('308400000000'), /not DER/)
    refuses(buildRequest({ attributes: hex('a08100') }), /not DER/)
  })

  test('cut short or with one changed bit is refused', () => {
    const good = buildRequest()
    for (let length = 0; length < good.length; length++)
      refuses(good.subarray(0, length), /refused/)
    for (let bit = 0; bit < good.length * 8; bit++) {
      const changed = Buffer.from(good)
      changed.writeUInt8(changed.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3)
      refuses(changed, /refused/)
    }
  })
})
