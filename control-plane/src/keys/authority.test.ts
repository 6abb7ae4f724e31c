import 'reflect-metadata'
import { createHash, randomBytes, webcrypto, X509Certificate } from 'node:crypto'
import type { PeerCertificate } from 'node:tls'
import * as x509 from '@peculiar/x509'
import { beforeAll, describe, expect, test } from 'vitest'
import { ENROLMENT } from '../limits/keys.ts'
import {
  type Authority,
  createAuthority,
  issueAgentCertificate,
  issueServerCertificate,
  loadAuthority,
  parseAgentIdentity,
} from './authority.ts'

const P256 = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const newKeys = async () =>
  (await webcrypto.subtle.generateKey(P256, true, ['sign', 'verify'])) as webcrypto.CryptoKeyPair
const newCsr = async (keys?: webcrypto.CryptoKeyPair) =>
  (
    await x509.Pkcs10CertificateRequestGenerator.create({
      name: 'CN=whatever the caller likes',
      keys: keys ?? (await newKeys()),
      signingAlgorithm: P256,
      extensions: [
        new x509.BasicConstraintsExtension(true),
        new x509.SubjectAlternativeNameExtension([{ type: 'dns', value: 'berth-control-plane' }]),
      ],
    })
  ).toString('pem')

const now = new Date('2026-11-15T10:00:00.500Z')
const installationId = 'in-7f3a'
const agentId = '0193a1c2-0000-7000-8000-0123456789ab'
let authority: Authority
beforeAll(async () => {
  authority = await loadAuthority(await createAuthority(now))
})
const issue = async (
  more: { csr?: string; agentId?: string; now?: Date; generation?: number } = {},
) =>
  issueAgentCertificate(authority, {
    csr: more.csr ?? (await newCsr()),
    installationId,
    agentId,
    now,
    ...more,
  })

describe('the authority', () => {
  test('is a P-256 certificate authority that a join token can pin', () => {
    const read = new X509Certificate(authority.certificatePem) // as OpenSSL reads it
    expect(read.ca).toBe(true)
    expect(read.verify(read.publicKey)).toBe(true)
    expect(read.publicKey.asymmetricKeyDetails).toEqual({ namedCurve: 'prime256v1' })
    expect(authority.caHash).toBe(createHash('sha256').update(read.raw).digest('base64url'))
    expect(read.validToDate.getTime() - now.getTime()).toBeGreaterThan(ENROLMENT.caMs - 1_000)
  })

  test('does not load with the key of another', async () => {
    const [one, two] = [await createAuthority(now), await createAuthority(now)]
    await expect(loadAuthority({ ...one, keyPem: two.keyPem })).rejects.toThrow(/damaged/)
    const leaf = await issueServerCertificate(authority, { names: [], now })
    await expect(loadAuthority(leaf)).rejects.toThrow(/damaged/)
    await expect(loadAuthority(one)).resolves.toMatchObject({ certificatePem: one.certificatePem })
  })

  test('keeps its key to itself', async () => {
    await expect(webcrypto.subtle.exportKey('pkcs8', authority.signingKey)).rejects.toThrow()
  })
})

describe("an agent's certificate", () => {
  test('carries the key of the request and nothing else of it', async () => {
    const keys = await newKeys()
    const issued = await issue({ csr: await newCsr(keys), generation: 3 })
    const read = new X509Certificate(issued.certificatePem)
    const spki = Buffer.from(await webcrypto.subtle.exportKey('spki', keys.publicKey))
    expect(read.publicKey.export({ format: 'der', type: 'spki' })).toEqual(spki)
    expect(read.verify(new X509Certificate(authority.certificatePem).publicKey)).toBe(true)
    expect(read.checkIssued(new X509Certificate(authority.certificatePem))).toBe(true)
    expect(read.subjectAltName).toBe(`URI:spiffe://${installationId}/agent/${agentId}`)
    expect(read.keyUsage).toEqual(['1.3.6.1.5.5.7.3.2'])
    expect(read.ca).toBe(false)
    expect(read.subject).toBe(`CN=agent ${agentId}\nOU=generation 3`)
    expect(read.fingerprint256.replaceAll(':', '').toLowerCase()).toBe(issued.fingerprint)
    expect(read.serialNumber.toLowerCase()).toBe(issued.serial)
  })

  test('began 5 minutes ago, lasts 30 days, renews between 50 and 80 % of them', async () => {
    const points = new Set<number>()
    const serials = new Set<string>()
    for (let n = 0; n < 20; n++) {
      const issued = await issue()
      const read = new X509Certificate(issued.certificatePem)
      expect(read.validFromDate.toISOString()).toBe('2026-11-15T09:55:00.000Z')
      expect(read.validToDate.toISOString()).toBe('2026-12-15T10:00:00.000Z')
      expect(issued.notAfter).toEqual(read.validToDate)
      const part = (issued.renewAt.getTime() - now.getTime()) / ENROLMENT.certificateMs
      expect(part).toBeGreaterThan(0.499)
      expect(part).toBeLessThan(0.801)
      expect(issued.serial).toMatch(/^[4-7][0-9a-f]{31}$/)
      points.add(issued.renewAt.getTime())
      serials.add(issued.serial)
    }
    expect(points.size).toBe(20)
    expect(serials.size).toBe(20)
  })

  test('never outlives the authority, and is not issued by an expired one', async () => {
    const lateBy = (days: number) =>
      new Date(authority.certificate.notAfter.getTime() + days * 86_400_000)
    expect((await issue({ now: lateBy(-3) })).notAfter).toEqual(authority.certificate.notAfter)
    await expect(issue({ now: lateBy(1) })).rejects.toThrow(/expired/)
  })

  test('is refused for a bad request, and for ids that would change the name', async () => {
    await expect(issue({ csr: 'nonsense' })).rejects.toMatchObject({ code: 'csr_invalid' })
    for (const bad of ['', 'a/b', 'A', 'a b', '-a', 'a,CN=x', 'ü', 'a'.repeat(65)])
      await expect(issue({ agentId: bad })).rejects.toThrow(/cannot be the id/)
  })
})

describe("the listener's certificate", () => {
  test('names the control plane, and every name and address that agents dial', async () => {
    const names = [
      'deploy.example.com',
      '10.0.0.7',
      '::1',
      'berth-control-plane',
      'Deploy.Example.com',
    ]
    const issued = await issueServerCertificate(authority, { names, now })
    const read = new X509Certificate(issued.certificatePem)
    expect(read.subjectAltName?.split(', ').sort()).toEqual([
      'DNS:berth-control-plane',
      'DNS:deploy.example.com',
      'IP Address:0:0:0:0:0:0:0:1',
      'IP Address:10.0.0.7',
    ])
    expect(read.keyUsage).toEqual(['1.3.6.1.5.5.7.3.1'])
    expect(read.checkHost('deploy.example.com')).toBeDefined()
    expect(read.checkIP('10.0.0.7')).toBeDefined()
    expect(issued.keyPem).toMatch(/^-----BEGIN PRIVATE KEY-----/)
  })

  test.each(['*.example.com', 'a..b', '', 'host:443', '-a', 'x'.repeat(64), 'a b'])(
    'is refused for %j',
    async (name) => {
      const made = issueServerCertificate(authority, { names: [name], now })
      await expect(made).rejects.toThrow(/neither a host name/)
    },
  )

  test('has a bound on its names', async () => {
    const names = Array.from({ length: ENROLMENT.serverNames }, (_, n) => `h${n}.example`)
    await expect(issueServerCertificate(authority, { names, now })).rejects.toThrow(/at most/)
  })
})

describe('the identity in a certificate', () => {
  const uri = (value: string): x509.JsonGeneralName => ({ type: 'url', value })
  const own = uri(`spiffe://${installationId}/agent/${agentId}`)
  /** Creates a certificate of our authority with names that the product never issues. */
  async function forge(names: x509.JsonGeneralName[][], usages = ['1.3.6.1.5.5.7.3.2']) {
    const certificate = await x509.X509CertificateGenerator.create({
      subject: 'CN=agent',
      issuer: authority.certificate.subject,
      notBefore: now,
      notAfter: new Date(now.getTime() + 1e7),
      signingAlgorithm: P256,
      publicKey: (await newKeys()).publicKey,
      signingKey: authority.signingKey,
      extensions: [
        ...(usages.length > 0 ? [new x509.ExtendedKeyUsageExtension(usages)] : []),
        ...names.map((list) => new x509.SubjectAlternativeNameExtension(list)),
      ],
    })
    return new Uint8Array(certificate.rawData)
  }

  test('is the agent it was issued to', async () => {
    const issued = await issue()
    const raw = new X509Certificate(issued.certificatePem).raw
    const { fingerprint, notAfter } = issued
    const issuedAt = new Date(Math.floor(now.getTime() / 1_000) * 1_000) // certificates have a resolution of seconds
    const expected = { agentId, fingerprint, issuedAt, notAfter }
    expect(parseAgentIdentity(raw, installationId)).toEqual(expected)
    expect(parseAgentIdentity({ raw }, installationId)).toEqual(expected)
    expect(parseAgentIdentity(await forge([[own]]), installationId)?.agentId).toBe(agentId)
  })

  test('is none for another installation', async () => {
    const raw = new X509Certificate((await issue()).certificatePem).raw
    for (const other of ['in-7f3', 'in-7f3a5', 'other', '', 'in-7f3a/agent'])
      expect(parseAgentIdentity(raw, other)).toBeUndefined()
  })

  test('is none when the names are not exactly one URI of ours', async () => {
    const base = `spiffe://${installationId}`
    const wrong: x509.JsonGeneralName[][][] = [
      [],
      [[own, own]],
      [[own, { type: 'dns', value: 'localhost' }]],
      [[{ type: 'dns', value: 'localhost' }, own]],
      [[own], [own]],
      [[{ type: 'dns', value: own.value }]],
      [[{ type: 'dns', value: `URI:${own.value}` }]],
      ...[
        `${base}/agent/`,
        `${base}/agent/a/b`,
        `${base}/agent/a?b`,
        `${base}/agent/A`,
        `${base}/agent/%61`,
        `${base}/replica/a`,
        `${base}.evil/agent/a`,
        `${base}@evil/agent/a`,
        `SPIFFE://${installationId}/agent/a`,
        ` ${base}/agent/a`,
        `${base}/agent/a\n`,
        `${base}/agent/a\0b`,
        `https://${installationId}/agent/a`,
      ].map((value) => [[uri(value)]]),
    ]
    for (const names of wrong)
      expect(parseAgentIdentity(await forge(names), installationId), JSON.stringify(names)).toBe(
        undefined,
      )
  })

  test('is none for a certificate that is not for clients alone', async () => {
    const server = '1.3.6.1.5.5.7.3.1'
    for (const usages of [[], [server], ['1.3.6.1.5.5.7.3.2', server], ['2.5.29.37.0']])
      expect(parseAgentIdentity(await forge([[own]], usages), installationId)).toBeUndefined()
    const { certificatePem } = await issueServerCertificate(authority, { names: [], now })
    expect(parseAgentIdentity(new X509Certificate(certificatePem).raw, installationId)).toBe(
      undefined,
    )
  })

  test('is none for anything that is no certificate', () => {
    const missing = {} as PeerCertificate // what TLS returns for a peer without a certificate
    for (const input of [missing, new Uint8Array(), randomBytes(500), Buffer.from('3000', 'hex')])
      expect(parseAgentIdentity(input, installationId)).toBeUndefined()
  })
})
