// What the data folder keeps for HTTPS, in `tls/`, readable by our account only: the account at the authority, key and
// chain in one file (so that they change together), and what happened at the last tries.
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Lifetime, type RenewalStatus, UNTRIED } from '../domain/installation/certificate.ts'
import { makePrivateFolder } from '../store/engine/private-files.ts'

export interface AcmeAccount {
  /** An account belongs to one authority. */
  directory: string
  keyPem: string
  url: string | undefined
}

export interface Certificate extends Lifetime {
  keyPem: string
  /** The certificate, and those between it and a root. */
  chainPem: string
  issuer: string
}

const PEM = /-----BEGIN ([A-Z ]+)-----[^-]+-----END \1-----/g

/** Throws if key and certificate do not belong together, or the name is another one. */
export function readCertificate(text: string, domain: string): Certificate {
  const blocks = [...text.matchAll(PEM)].map(([block, kind]) => ({ block, kind: kind ?? '' }))
  const keyPem = blocks.find(({ kind }) => kind.endsWith('PRIVATE KEY'))?.block
  const chain = blocks.filter(({ kind }) => kind === 'CERTIFICATE').map(({ block }) => block)
  const [leaf] = chain
  if (keyPem === undefined) throw new Error('it contains no private key')
  if (leaf === undefined) throw new Error('it contains no certificate')
  const seen = new X509Certificate(leaf)
  if (!seen.checkPrivateKey(createPrivateKey(keyPem))) {
    throw new Error('the key belongs to another certificate')
  }
  if (seen.checkHost(domain) === undefined) throw new Error(`it is not for ${domain}`)
  return {
    keyPem,
    chainPem: `${chain.join('\n')}\n`,
    issuer: /^(?:CN|O)=(.+)$/m.exec(seen.issuer)?.[1] ?? seen.issuer,
    from: Date.parse(seen.validFrom),
    until: Date.parse(seen.validTo),
  }
}

export class TlsFiles {
  readonly #folder: string
  readonly #domain: string

  constructor(dataDir: string, domain: string) {
    this.#folder = join(dataDir, 'tls')
    this.#domain = domain
  }

  get certificatePath(): string {
    return join(this.#folder, 'certificate.pem')
  }

  /** Undefined if there is none, or one for another name. */
  readCertificate(): Certificate | undefined {
    try {
      return readCertificate(readFileSync(this.certificatePath, 'utf8'), this.#domain)
    } catch {
      return undefined // another one is ordered
    }
  }

  writeCertificate(keyPem: string, chainPem: string): void {
    this.#write('certificate.pem', `${keyPem.trim()}\n${chainPem.trim()}\n`)
  }

  readAccount(directory: string): AcmeAccount | undefined {
    const found = this.#readJson<AcmeAccount>('account.json')
    return found?.directory === directory && typeof found.keyPem === 'string' ? found : undefined
  }

  writeAccount(account: AcmeAccount): void {
    this.#write('account.json', JSON.stringify(account))
  }

  /** Of this name at this authority: after a change of either, earlier failures do not count. */
  readStatus(directory: string): RenewalStatus {
    const found = this.#readJson<StoredStatus>('status.json')
    if (found?.domain !== this.#domain || found.directory !== directory) return UNTRIED
    return { ...UNTRIED, ...found.status }
  }

  writeStatus(directory: string, status: RenewalStatus): void {
    this.#write('status.json', JSON.stringify({ domain: this.#domain, directory, status }))
  }

  /** A command asks the running control plane for a new certificate. */
  wantRenewal(): void {
    this.#write('renew', '')
  }

  takeWish(): boolean {
    const path = join(this.#folder, 'renew')
    if (!existsSync(path)) return false
    rmSync(path, { force: true })
    return true
  }

  #readJson<T>(name: string): T | undefined {
    try {
      return JSON.parse(readFileSync(join(this.#folder, name), 'utf8')) as T
    } catch {
      return undefined // missing, or cut off by a full disk: the next write replaces it
    }
  }

  #write(name: string, text: string): void {
    makePrivateFolder(this.#folder)
    const path = join(this.#folder, name)
    writeFileSync(`${path}.new`, text, { mode: 0o600, flush: true })
    renameSync(`${path}.new`, path)
  }
}

interface StoredStatus {
  domain: string
  directory: string
  status: RenewalStatus
}
