// Test support: an agent CA like the control plane's, created for each test file. Signs certificate requests of agents
// and certificates of listeners.
import 'reflect-metadata' // must come before @peculiar/x509
import { randomBytes, webcrypto } from 'node:crypto'
import * as x509 from '@peculiar/x509'
import { certificateHash, createKeyRequest } from './certificate.ts'

const P256 = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const DAY = 86_400_000

const serialNumber = (): string => {
  const bytes = randomBytes(16)
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40
  return bytes.toString('hex')
}

interface Issue {
  csrPem: string
  usage: 'client' | 'server'
  names: x509.JsonGeneralName[]
  notBefore?: Date
  notAfter?: Date
}

export async function createAuthority(name = 'Berth agents') {
  const keys = await webcrypto.subtle.generateKey(P256, true, ['sign', 'verify'])
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: serialNumber(),
    name: `CN=${name}`,
    notBefore: new Date(Date.now() - 300_000),
    notAfter: new Date(Date.now() + 3_650 * DAY),
    signingAlgorithm: P256,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  })
  const { ExtendedKeyUsage } = x509

  const issue = async (of: Issue): Promise<string> => {
    const csr = new x509.Pkcs10CertificateRequest(of.csrPem)
    if (!(await csr.verify())) throw new Error('the request is not signed by its own key')
    const usage = of.usage === 'client' ? ExtendedKeyUsage.clientAuth : ExtendedKeyUsage.serverAuth
    const issued = await x509.X509CertificateGenerator.create({
      serialNumber: serialNumber(),
      subject: `CN=${of.usage}`,
      issuer: certificate.subject,
      notBefore: of.notBefore ?? new Date(Date.now() - 300_000),
      notAfter: of.notAfter ?? new Date(Date.now() + 30 * DAY),
      signingAlgorithm: P256,
      publicKey: await csr.publicKey.export(),
      signingKey: keys.privateKey,
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([usage]),
        new x509.SubjectAlternativeNameExtension(of.names),
        await x509.AuthorityKeyIdentifierExtension.create(keys.publicKey),
      ],
    })
    return issued.toString('pem')
  }

  return {
    pem: certificate.toString('pem'),
    hash: certificateHash(new Uint8Array(certificate.rawData)),
    issue,
    issueAgent: (csrPem: string, over: Partial<Issue> = {}): Promise<string> =>
      issue({
        csrPem,
        usage: 'client',
        names: [{ type: 'url', value: 'spiffe://test/agent/agent-1' }],
        ...over,
      }),
    /** Key and chain of a listener. */
    async issueListener(...dns: string[]): Promise<{ key: string; cert: string }> {
      const { key, csrPem } = await createKeyRequest()
      const names: x509.JsonGeneralName[] = [
        ...dns.map((value) => ({ type: 'dns' as const, value })),
        { type: 'ip', value: '127.0.0.1' },
      ]
      return { key, cert: await issue({ csrPem, usage: 'server', names }) }
    },
  }
}

export type Authority = Awaited<ReturnType<typeof createAuthority>>
