// Keys and certificate requests of the agent, and the checks of what comes back. The only file here that imports
// @peculiar/x509. The control plane takes the public key from a request and decides everything else.
import 'reflect-metadata' // must come before @peculiar/x509
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  webcrypto,
  X509Certificate,
} from 'node:crypto'
import * as x509 from '@peculiar/x509'

x509.cryptoProvider.set(webcrypto)
const P256 = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }

export interface KeyRequest {
  /** PKCS #8, PEM. */
  key: string
  csrPem: string
  csrDer: Uint8Array
}

export async function createKeyRequest(): Promise<KeyRequest> {
  const keys = await webcrypto.subtle.generateKey(P256, true, ['sign', 'verify'])
  const csr = await x509.Pkcs10CertificateRequestGenerator.create({
    name: 'CN=berth-agent',
    keys,
    signingAlgorithm: P256,
  })
  const pkcs8 = await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)
  return {
    key: `${x509.PemConverter.encode(pkcs8, 'PRIVATE KEY')}\n`,
    csrPem: csr.toString('pem'),
    csrDer: new Uint8Array(csr.rawData),
  }
}

/** SHA-256 of the certificate's DER, base64url: the `ca_hash` of a join token. */
export const certificateHash = (der: Uint8Array): string =>
  createHash('sha256').update(der).digest('base64url')

export const parseCertificate = (pem: string): X509Certificate => new X509Certificate(pem)

/** Why a certificate cannot be ours: it must contain our key and come from one of these CAs. Undefined: it is ours. */
export function checkCertificate(pem: string, key: string, cas: string[]): string | undefined {
  let certificate: X509Certificate
  try {
    certificate = new X509Certificate(pem)
  } catch {
    return 'it is not a certificate'
  }
  const ours = createPublicKey(createPrivateKey(key)).export({ type: 'spki', format: 'der' })
  if (!ours.equals(certificate.publicKey.export({ type: 'spki', format: 'der' }))) {
    return 'it is for another key'
  }
  const issued = cas.some((ca) => {
    try {
      const issuer = new X509Certificate(ca)
      return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey)
    } catch {
      return false
    }
  })
  return issued ? undefined : 'none of the given authorities signed it'
}
