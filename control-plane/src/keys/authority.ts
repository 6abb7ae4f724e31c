// The X.509 authority of this installation: signs agents' client certificates, the certificate of their listener, and
// those of control planes for each other. Invariant: names, usage and lifetime are decided here; a request contributes
// only its key. `parseAgentIdentity` and `parseReplicaId` are the reverse, the only functions that turn a certificate
// into an id. There are no revocation lists (a column of the agent replaces them) and no intermediate authorities.
import 'reflect-metadata' // before @peculiar/x509, which needs it to load
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  randomBytes,
  randomInt,
  X509Certificate,
} from 'node:crypto'
import { isIP } from 'node:net'
import type { PeerCertificate } from 'node:tls'
import * as x509 from '@peculiar/x509'
import { ENROLMENT } from '../limits/keys.ts'
import { readRequestedKey } from './csr.ts'

x509.cryptoProvider.set(crypto)

/** The platform's own type, so that this also compiles beside a browser's declarations. */
type Keys = { publicKey: Key; privateKey: Key }
type Key = Awaited<ReturnType<typeof crypto.subtle.importKey>>

/** The listener always has this name, for any address that agents dial. */
export const CONTROL_PLANE_NAME = 'berth-control-plane'

const P256 = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
/** Ids of installations and agents: one label in lower case, so that the URI has a single spelling. */
const ID = /^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$/
const DNS_LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/

export interface KeyPair {
  certificatePem: string
  /** PKCS#8; encrypted before it is stored. */
  keyPem: string
}

/** A loaded authority; its key signs and cannot be exported. */
export interface Authority {
  readonly certificatePem: string
  /** base64url SHA-256 of the certificate, which a join token pins. */
  readonly caHash: string
  readonly certificate: x509.X509Certificate
  readonly signingKey: Key
}

export interface IssuedCertificate {
  certificatePem: string
  /** SHA-256 of the DER, hexadecimal. */
  fingerprint: string
  serial: string
  notAfter: Date
  /** A random point of its lifetime, so that agents that joined together renew at different times. */
  renewAt: Date
}

export interface AgentIdentity {
  agentId: string
  fingerprint: string
  /** When it was signed; it is valid from a little before. */
  issuedAt: Date
  notAfter: Date
}

const generateKeys = async (): Promise<Keys> =>
  (await crypto.subtle.generateKey(P256, true, ['sign', 'verify'])) as Keys

const toPem = async (key: Key): Promise<string> =>
  x509.PemConverter.encode(await crypto.subtle.exportKey('pkcs8', key), 'PRIVATE KEY')

/** 16 random bytes, positive and of full length in DER. */
function makeSerial(): string {
  const bytes = randomBytes(16)
  bytes.writeUInt8((bytes.readUInt8(0) & 0x7f) | 0x40, 0)
  return bytes.toString('hex')
}

const sha256 = (bytes: ArrayBuffer): Buffer =>
  createHash('sha256').update(new Uint8Array(bytes)).digest()

/** Creates a self-signed authority for the first start of an installation. */
export async function createAuthority(now: Date): Promise<KeyPair> {
  const keys = await generateKeys()
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: makeSerial(),
    name: 'CN=Berth agents',
    notBefore: new Date(now.getTime() - ENROLMENT.backdateMs),
    notAfter: new Date(now.getTime() + ENROLMENT.caMs),
    signingAlgorithm: P256,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(
        x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign,
        true,
      ),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  })
  return { certificatePem: certificate.toString('pem'), keyPem: await toPem(keys.privateKey) }
}

/** Loads a stored authority; refuses a key that does not match its certificate. */
export async function loadAuthority(pems: KeyPair): Promise<Authority> {
  const certificate = new x509.X509Certificate(pems.certificatePem)
  const key = createPrivateKey(pems.keyPem)
  const spki = createPublicKey(key).export({ format: 'der', type: 'spki' })
  const isOurs = Buffer.from(certificate.publicKey.rawData).equals(spki)
  const constraints = certificate.getExtension(x509.BasicConstraintsExtension)
  if (!isOurs || !constraints?.ca)
    throw new Error(
      'The stored agent authority is damaged: certificate and key do not belong together. ' +
        'Restore the database from a backup; a new authority would lock every agent out.',
    )
  const pkcs8 = key.export({ format: 'der', type: 'pkcs8' })
  const signingKey = await crypto.subtle.importKey('pkcs8', pkcs8, P256, false, ['sign'])
  pkcs8.fill(0)
  return {
    certificatePem: certificate.toString('pem'),
    caHash: sha256(certificate.rawData).toString('base64url'),
    certificate,
    signingKey,
  }
}

interface Leaf {
  subject: x509.JsonName
  names: x509.JsonGeneralName[]
  usages: string[]
  spki: Uint8Array
  now: Date
  lifeMs: number
}

async function sign(authority: Authority, leaf: Leaf): Promise<IssuedCertificate> {
  const end = Math.min(leaf.now.getTime() + leaf.lifeMs, authority.certificate.notAfter.getTime())
  if (end <= leaf.now.getTime())
    throw new Error('The agent authority has expired; no certificate can be issued with it.')
  const publicKey = new x509.PublicKey(new Uint8Array(leaf.spki))
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: makeSerial(),
    subject: leaf.subject,
    issuer: authority.certificate.subjectName.toJSON(),
    notBefore: new Date(leaf.now.getTime() - ENROLMENT.backdateMs),
    notAfter: new Date(end),
    signingAlgorithm: P256,
    publicKey,
    signingKey: authority.signingKey,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension(leaf.usages),
      new x509.SubjectAlternativeNameExtension(leaf.names),
      await x509.AuthorityKeyIdentifierExtension.create(authority.certificate.publicKey),
      await x509.SubjectKeyIdentifierExtension.create(publicKey),
    ],
  })
  const { renewFrom, renewTo } = ENROLMENT
  const part = renewFrom + (renewTo - renewFrom) * (randomInt(1_000_000) / 1_000_000)
  const life = certificate.notAfter.getTime() - leaf.now.getTime()
  return {
    certificatePem: certificate.toString('pem'),
    fingerprint: sha256(certificate.rawData).toString('hex'),
    serial: certificate.serialNumber,
    notAfter: certificate.notAfter,
    renewAt: new Date(leaf.now.getTime() + Math.floor(life * part)),
  }
}

function checkId(what: string, id: string): void {
  if (!ID.test(id)) throw new Error(`${JSON.stringify(id)} cannot be the id of an ${what}.`)
}

interface AgentCertificateRequest {
  /** PKCS#10, PEM or DER; only its public key counts. */
  csr: string | Uint8Array
  installationId: string
  agentId: string
  now: Date
  /** Shown in the subject for human readers; the row in the database decides. */
  generation?: number
  lifeMs?: number
}

/** Issues an agent's client certificate; throws AppError `csr_invalid` for an invalid request. */
export async function issueAgentCertificate(
  authority: Authority,
  request: AgentCertificateRequest,
): Promise<IssuedCertificate> {
  const { installationId, agentId, generation, now } = request
  checkId('installation', installationId)
  checkId('agent', agentId)
  const uri = `spiffe://${installationId}/agent/${agentId}`
  const key = readRequestedKey(request.csr)
  return await sign(authority, {
    subject: [
      { CN: [`agent ${agentId}`.slice(0, 64)] },
      ...(generation === undefined ? [] : [{ OU: [`generation ${generation}`] }]),
    ],
    names: [{ type: 'url', value: uri }],
    usages: [x509.ExtendedKeyUsage.clientAuth],
    spki: key.export({ format: 'der', type: 'spki' }),
    now,
    lifeMs: request.lifeMs ?? ENROLMENT.certificateMs,
  })
}

function toGeneralName(name: string): x509.JsonGeneralName {
  if (isIP(name)) return { type: 'ip', value: name }
  if (name.length > 253 || !name.split('.').every((label) => DNS_LABEL.test(label)))
    throw new Error(
      `${JSON.stringify(name)} is neither a host name nor an address for the listener.`,
    )
  return { type: 'dns', value: name }
}

/** Issues key and certificate of the listener: its constant name, and the names and addresses agents dial. */
export async function issueServerCertificate(
  authority: Authority,
  request: { names: readonly string[]; now: Date },
): Promise<IssuedCertificate & KeyPair> {
  const wanted = request.names.map((name) => name.toLowerCase())
  const names = [...new Set([CONTROL_PLANE_NAME, ...wanted])].map(toGeneralName)
  if (names.length > ENROLMENT.serverNames)
    throw new Error(`The listener can have at most ${ENROLMENT.serverNames} names.`)
  const keys = await generateKeys()
  const issued = await sign(authority, {
    subject: [{ CN: [CONTROL_PLANE_NAME] }],
    names,
    usages: [x509.ExtendedKeyUsage.serverAuth],
    spki: new Uint8Array(await crypto.subtle.exportKey('spki', keys.publicKey)),
    now: request.now,
    lifeMs: ENROLMENT.serverCertificateMs,
  })
  return { ...issued, keyPem: await toPem(keys.privateKey) }
}

/** Issues a temporary client certificate without an agent's name: enough for a handshake, but no identity. */
export async function issueProbeCertificate(authority: Authority, now: Date): Promise<KeyPair> {
  const keys = await generateKeys()
  const issued = await sign(authority, {
    subject: [{ CN: ['self-test'] }],
    names: [{ type: 'dns', value: 'self-test' }],
    usages: [x509.ExtendedKeyUsage.clientAuth],
    spki: new Uint8Array(await crypto.subtle.exportKey('spki', keys.publicKey)),
    now,
    lifeMs: ENROLMENT.probeCertificateMs,
  })
  return { certificatePem: issued.certificatePem, keyPem: await toPem(keys.privateKey) }
}

/**
 * Issues key and certificate with which one control plane calls others and answers them. It has no hostname, so it is
 * of no use as the agents' listener, and no agent's name, so it is of no use as an agent.
 */
export async function issueReplicaCertificate(
  authority: Authority,
  request: { installationId: string; replicaId: string; now: Date; lifeMs: number },
): Promise<IssuedCertificate & KeyPair> {
  const { installationId, replicaId, now, lifeMs } = request
  checkId('installation', installationId)
  checkId('replica', replicaId)
  const keys = await generateKeys()
  const issued = await sign(authority, {
    subject: [{ CN: [`replica ${replicaId}`.slice(0, 64)] }],
    names: [{ type: 'url', value: `spiffe://${installationId}/replica/${replicaId}` }],
    usages: [x509.ExtendedKeyUsage.clientAuth, x509.ExtendedKeyUsage.serverAuth],
    spki: new Uint8Array(await crypto.subtle.exportKey('spki', keys.publicKey)),
    now,
    lifeMs,
  })
  return { ...issued, keyPem: await toPem(keys.privateKey) }
}

const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2'
/** The DER of subjectAltName: node reads the first one, so there must be no second. */
const SAN_OID = Buffer.from([0x06, 0x03, 0x55, 0x1d, 0x11])

/**
 * The id in the certificate's only name, `spiffe://<installation>/<kind>/<id>`. Node's own parser quotes any other text
 * or joins several names, and no id has such characters. Every connection of a returning fleet pays for this.
 */
function readId(
  { raw, subjectAltName }: X509Certificate,
  installationId: string,
  kind: 'agent' | 'replica',
): string | undefined {
  const isSingle = raw.indexOf(SAN_OID) === raw.lastIndexOf(SAN_OID)
  const prefix = `URI:spiffe://${installationId}/${kind}/`
  const id =
    isSingle && subjectAltName?.startsWith(prefix) ? subjectAltName.slice(prefix.length) : ''
  return ID.test(id) ? id : undefined
}

/** Returns the control plane of a certificate that TLS has checked; undefined unless it is one of this installation. */
export function parseReplicaId(
  raw: Uint8Array | undefined,
  installationId: string,
): string | undefined {
  if (!raw || !ID.test(installationId)) return undefined
  try {
    return readId(new X509Certificate(raw), installationId, 'replica')
  } catch {
    return undefined // not a certificate at all
  }
}

/**
 * Returns the agent of a client certificate; undefined unless it is exactly one of ours. TLS has checked the chain; the
 * caller checks that the agent is known and not revoked.
 */
export function parseAgentIdentity(
  from: Uint8Array | Pick<PeerCertificate, 'raw'>,
  installationId: string,
): AgentIdentity | undefined {
  const der = from instanceof Uint8Array ? from : from.raw
  if (!der || !ID.test(installationId)) return undefined
  try {
    const certificate = new X509Certificate(der)
    const usages = certificate.keyUsage ?? []
    const isClient = usages.length === 1 && usages[0] === CLIENT_AUTH
    const { raw } = certificate
    const agentId = readId(certificate, installationId, 'agent')
    if (!isClient || agentId === undefined) return undefined
    return {
      agentId,
      fingerprint: createHash('sha256').update(raw).digest('hex'),
      issuedAt: new Date(Date.parse(certificate.validFrom) + ENROLMENT.backdateMs),
      notAfter: new Date(Date.parse(certificate.validTo)),
    }
  } catch {
    return undefined // not a certificate at all
  }
}
