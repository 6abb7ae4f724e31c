// The SSH codec under random input: round trips, changed bytes, and no two contents with the same signed bytes. Changed
// input is refused or decoded exactly as written.
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import {
  type CertificateContent,
  encodeCertificate,
  encodePublicKey,
  formatPublicKey,
  parsePublicKey,
  readCertificate,
  readPublicKey,
  type SshCertificate,
  SshFormatError,
  SshKeyError,
  signCertificate,
  verifyCertificate,
} from '@berth/shared/ssh'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  blobOf,
  ecdsa,
  lineOf,
  makeEd25519,
  oddNumber,
  rsa,
  signerOf,
  skEcdsa,
  skEd25519,
} from '../control-plane/src/keys/ssh-craft.testing.ts'

const ca = makeEd25519()
const signer = signerOf(ca)
const NOW = 1_800_000_000
const at = { kind: 'user', nowSeconds: NOW } as const

const samples: Buffer[] = [
  ...Array.from({ length: 8 }, () => blobOf(makeEd25519())),
  skEd25519(makeEd25519()),
  skEd25519(makeEd25519(), 'ssh:berth'),
  ecdsa('nistp256'),
  ecdsa('nistp384'),
  ecdsa('nistp521'),
  skEcdsa(),
  rsa(oddNumber(3_072)),
  rsa(oddNumber(4_095)),
]
const keyBlob = fc.constantFrom(...samples)

const name = fc.stringMatching(/^[a-z0-9:._-]{1,64}$/)
const content: fc.Arbitrary<CertificateContent> = fc.record({
  kind: fc.constant('user' as const),
  serial: fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }),
  keyId: fc.stringMatching(/^[\x21-\x2b\x2d-\x7e]{1,200}$/),
  principals: fc.uniqueArray(name, { minLength: 1, maxLength: 32 }),
  validAfter: fc.integer({ min: NOW - 60, max: NOW }),
  validBefore: fc.integer({ min: NOW + 1, max: NOW + 3_600 }),
  criticalOptions: fc
    .option(fc.stringMatching(/^[\x20-\x7e]{1,80}$/), { nil: undefined })
    .map((command) => new Map(command === undefined ? [] : [['force-command', command]])),
  extensions: fc
    .record({ grant: fc.string({ unit: 'grapheme', maxLength: 200 }), pty: fc.boolean() })
    .map(
      ({ grant, pty }) =>
        new Map([
          ...(pty ? [['permit-pty', ''] as const] : []),
          ...(grant === '' ? [] : [['grant@berth.dev', grant] as const]),
        ]),
    ),
})

/** One small corruption of some bytes: changed, cut, repeated, inserted, appended. */
const damage = fc.oneof(
  fc.record({ kind: fc.constant('set' as const), at: fc.nat(), byte: fc.nat({ max: 255 }) }),
  fc.record({ kind: fc.constant('flip' as const), at: fc.nat(), bit: fc.nat({ max: 7 }) }),
  fc.record({
    kind: fc.constant('cut' as const),
    at: fc.nat(),
    length: fc.integer({ min: 1, max: 40 }),
  }),
  fc.record({
    kind: fc.constant('insert' as const),
    at: fc.nat(),
    bytes: fc.uint8Array({ minLength: 1, maxLength: 40 }),
  }),
  fc.record({
    kind: fc.constant('length' as const),
    at: fc.nat(),
    value: fc.nat({ max: 0xffff_ffff }),
  }),
)
function applyDamage(
  blob: Buffer,
  d: typeof damage extends fc.Arbitrary<infer T> ? T : never,
): Buffer {
  const copy = Buffer.from(blob)
  const spot = d.at % copy.length
  switch (d.kind) {
    case 'set':
      copy.writeUInt8(d.byte, spot)
      return copy
    case 'flip':
      copy.writeUInt8(copy.readUInt8(spot) ^ (1 << d.bit), spot)
      return copy
    case 'cut':
      return Buffer.concat([copy.subarray(0, spot), copy.subarray(spot + d.length)])
    case 'insert':
      return Buffer.concat([copy.subarray(0, spot), d.bytes, copy.subarray(spot)])
    case 'length':
      if (spot + 4 <= copy.length) copy.writeUInt32BE(d.value, spot)
      return copy
  }
}

const isRefusal = (error: unknown): boolean =>
  error instanceof SshKeyError || error instanceof SshFormatError
/** The value, or undefined if it was refused; any other error is a bug. */
function attempt<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch (error) {
    if (!isRefusal(error)) throw error
    return undefined
  }
}

describe('keys', () => {
  test('what is read is written to the same bytes, whatever the comment', () => {
    const comment = fc.stringMatching(/^[A-Za-z0-9_@. ]{0,40}$/).filter((c) => !c.includes('AAAA'))
    fc.assert(
      fc.property(keyBlob, comment, (blob, text) => {
        const type = readPublicKey(blob).type
        const key = parsePublicKey(lineOf(type, blob, text))
        expect(encodePublicKey(key).equals(blob)).toBe(true)
        expect(formatPublicKey(key)).toBe(lineOf(type, blob))
      }),
      { numRuns: 300 },
    )
  })

  test('damaged blobs: refused, or the very key they now spell out', () => {
    let accepted = 0
    fc.assert(
      fc.property(keyBlob, fc.array(damage, { minLength: 1, maxLength: 3 }), (blob, list) => {
        const changed = list.reduce(
          (bytes, d) => (bytes.length === 0 ? bytes : applyDamage(bytes, d)),
          blob,
        )
        const read = attempt(() => readPublicKey(changed))
        if (!read) return
        accepted += 1
        expect(encodePublicKey(read).equals(changed)).toBe(true)
      }),
      { numRuns: 10_000 },
    )
    expect(accepted).toBeGreaterThan(50) // another point of the curve is another valid key
  })

  test('damaged lines and plain noise never make anything but a refusal or that key', () => {
    const line = keyBlob.map((blob) => lineOf(readPublicKey(blob).type, blob, 'ada'))
    const noise = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 200 }),
      fc.base64String({ maxLength: 200 }),
    )
    fc.assert(
      fc.property(line, fc.nat(), fc.nat({ max: 3 }), noise, (text, spot, cut, put) => {
        const i = spot % text.length
        const changed = text.slice(0, i) + put + text.slice(i + cut)
        const read = attempt(() => parsePublicKey(changed))
        if (read) expect(changed.startsWith(`${formatPublicKey(read)}`)).toBe(true)
        expect(attempt(() => parsePublicKey(put))).toBeUndefined()
      }),
      { numRuns: 5_000 },
    )
  })
})

describe('certificates', () => {
  test('every content comes back field by field, and only its own authority vouches for it', async () => {
    const other = signerOf(makeEd25519()).publicKey
    await fc.assert(
      fc.asyncProperty(keyBlob, content, async (blob, wanted) => {
        const line = await signCertificate(readPublicKey(blob), wanted, signer)
        const bytes = Buffer.from(line.split(' ')[1] ?? '', 'base64')
        const read = verifyCertificate(bytes, [signer.publicKey], at)
        expect(read).toMatchObject({ ...wanted, key: readPublicKey(blob) })
        expect([...read.extensions.keys()]).toEqual([...wanted.extensions.keys()].toSorted())
        expect(encodeCertificate(read).equals(bytes)).toBe(true)
        expect(() => verifyCertificate(bytes, [other], at)).toThrow('unknown authority')
      }),
      { numRuns: 300 },
    )
  })

  test('a damaged certificate is never accepted; one that can still be read is another one', async () => {
    const made: Buffer[] = []
    for (const wanted of fc.sample(content, 20)) {
      const line = await signCertificate(
        readPublicKey(samples[made.length % 16] as Buffer),
        wanted,
        signer,
      )
      made.push(Buffer.from(line.split(' ')[1] ?? '', 'base64'))
    }
    let readable = 0
    fc.assert(
      fc.property(fc.constantFrom(...made), damage, (blob, d) => {
        const changed = applyDamage(blob, d)
        if (changed.equals(blob)) return
        expect(attempt(() => verifyCertificate(changed, [signer.publicKey], at))).toBeUndefined()
        const read = attempt(() => readCertificate(changed))
        if (!read) return
        readable += 1
        expect(encodeCertificate(read).equals(changed)).toBe(true)
      }),
      { numRuns: 10_000 },
    )
    expect(readable).toBeGreaterThan(100) // so the signature check refused those
  })

  test('every single bit of a certificate counts', async () => {
    const [wanted] = fc.sample(content, 1) as [CertificateContent]
    const line = await signCertificate(readPublicKey(samples[0] as Buffer), wanted, signer)
    const blob = Buffer.from(line.split(' ')[1] ?? '', 'base64')
    const accepted: number[] = []
    for (let bit = 0; bit < blob.length * 8; bit++) {
      blob.writeUInt8(blob.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3)
      if (attempt(() => verifyCertificate(blob, [signer.publicKey], at))) accepted.push(bit)
      blob.writeUInt8(blob.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3)
    }
    expect(accepted).toEqual([])
    expect(verifyCertificate(blob, [signer.publicKey], at).serial).toBe(wanted.serial)
  })

  test('signed bytes are unambiguous: a million pairs of different contents, none equal', () => {
    const key = readPublicKey(samples[0] as Buffer)
    const nonce = randomBytes(32)
    const base = { key, nonce, authority: signer.publicKey, signature: Buffer.alloc(64) }
    const letter = fc.constantFrom('a', 'aa', 'ab', 'b', '')
    const options = fc.uniqueArray(fc.tuple(letter, letter), { maxLength: 3, selector: ([n]) => n })
    const close = fc.record({
      kind: fc.constantFrom('user' as const, 'host' as const),
      serial: fc.bigInt({ min: 0n, max: 2n }),
      keyId: letter,
      principals: fc.array(letter, { maxLength: 4 }),
      validAfter: fc.nat({ max: 1 }),
      validBefore: fc.nat({ max: 1 }),
      criticalOptions: options.map((o) => new Map(o)),
      extensions: options.map((o) => new Map(o)),
    })
    const plain = (c: CertificateContent): (string | number)[] => [
      c.kind,
      String(c.serial),
      c.keyId,
      ...c.principals,
      c.validAfter,
      c.validBefore,
      ...[...c.criticalOptions].toSorted().flat(),
      ...[...c.extensions].toSorted().flat(),
    ]
    const sorted = (o: ReadonlyMap<string, string>) => [...o].toSorted()
    const tuples = new Map<string, SshCertificate>()
    for (const c of fc.sample(close, 20_000)) {
      const { serial, criticalOptions, extensions, ...rest } = c
      const lists = [sorted(criticalOptions), sorted(extensions)]
      tuples.set(JSON.stringify([rest, String(serial), lists]), { ...base, ...c })
      if (tuples.size === 1_500) break
    }
    expect(tuples.size).toBe(1_500) // 1,124,250 pairs
    const encodings = new Set([...tuples.values()].map((c) => encodeCertificate(c).toString('hex')))
    expect(encodings.size).toBe(1_500)
    const joined = new Set([...tuples.values()].map((c) => plain(c).join('')))
    expect(joined.size).toBeLessThan(1_500) // the positive control: fields without lengths do collide
  })

  test('an authority of another kind cannot sign', () => {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    expect(() => signerOf(privateKey)).toThrow('Ed25519')
  })
})
