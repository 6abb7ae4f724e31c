// The certificate of the control plane's own HTTPS: ordered from an ACME authority and renewed, or read from files of the
// operator. Until the first one is there, the agents' authority signs one, so that a server can join: its token names
// that authority. A failure never stops what is served; it is logged, kept for `doctor`, and tried again later.
import { readFileSync, statSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Clock } from '../clock.ts'
import type { Config, HttpsConfig } from '../config.ts'
import {
  begin,
  explain,
  fail,
  isDue,
  type RenewalProblem,
  type RenewalStatus,
  UNTRIED,
} from '../domain/installation/certificate.ts'
import { type Authority, issueServerCertificate } from '../keys/authority.ts'
import { HTTPS } from '../limits/installation.ts'
import { AcmeRefused, orderCertificate } from './acme.ts'
import { type Certificate, readCertificate, TlsFiles } from './files.ts'
import { HttpPort } from './http-port.ts'

/** What TLS needs; passed to the server at its start, and again after each change. */
export interface SecureContext {
  key: string
  cert: string
  minVersion: 'TLSv1.2'
}

interface Parts {
  config: Config
  authority: Authority
  clock: Clock
  log: Logger
}

/** Undefined without a domain: a proxy serves HTTPS. */
export async function openCertificates(parts: Parts): Promise<HttpsCertificates | undefined> {
  const { https } = parts.config
  return https ? HttpsCertificates.open(parts, https) : undefined
}

export class HttpsCertificates {
  readonly #parts: Parts
  readonly #https: HttpsConfig
  readonly #files: TlsFiles
  readonly #port: HttpPort
  #certificate: Certificate | undefined
  #context: SecureContext
  #apply: (context: SecureContext) => void = () => {}
  #timer: NodeJS.Timeout | undefined
  #running: Promise<void> | undefined
  /** Of the operator's files, so that replaced ones are noticed. */
  #seen = ''
  #fileProblem: RenewalProblem | undefined

  private constructor(parts: Parts, https: HttpsConfig, temporary: SecureContext) {
    this.#parts = parts
    this.#https = https
    this.#files = new TlsFiles(parts.config.dataDir, https.domain)
    this.#port = new HttpPort(parts.config.baseUrl)
    this.#context = temporary
  }

  static async open(parts: Parts, https: HttpsConfig): Promise<HttpsCertificates> {
    const { authority, clock } = parts
    const now = new Date(clock.now())
    const own = await issueServerCertificate(authority, { names: [https.domain], now })
    const made = new HttpsCertificates(parts, https, {
      key: own.keyPem,
      cert: `${own.certificatePem.trim()}\n${authority.certificatePem.trim()}\n`,
      minVersion: 'TLSv1.2',
    })
    if (https.files) made.#readFiles(https.files)
    else made.#use(made.#files.readCertificate())
    return made
  }

  get context(): SecureContext {
    return this.#context
  }

  /** When the served certificate ends; undefined while the agents' authority stands in. */
  get until(): number | undefined {
    return this.#certificate?.until
  }

  get status(): RenewalStatus {
    if (this.#https.files) return { ...UNTRIED, problem: this.#fileProblem }
    return this.#files.readStatus(this.#https.directory)
  }

  /** `apply` receives each new certificate. Resolves after the first look, tried or not. */
  async start(apply: (context: SecureContext) => void): Promise<void> {
    this.#apply = apply
    this.#timer = setInterval(() => this.#look(), HTTPS.lookMs)
    await this.#openPort()
    await this.#look()
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await Promise.race([this.#running, delay(HTTPS.stopMs, undefined, { ref: false })])
    await this.#port.close()
  }

  /** One at a time; it never rejects. */
  #look(): Promise<void> {
    this.#running ??= this.#round()
      .catch((err: unknown) =>
        this.#parts.log.error({ err }, 'the HTTPS certificate was not checked'),
      )
      .finally(() => {
        this.#running = undefined
      })
    return this.#running
  }

  async #round(): Promise<void> {
    const { files, directory } = this.#https
    if (files) return this.#readFiles(files)
    const now = this.#parts.clock.now()
    const status = this.#files.readStatus(directory)
    if (!this.#files.takeWish() && !isDue(this.#certificate, status, now)) return
    await this.#order(status)
  }

  async #openPort(): Promise<string | undefined> {
    const { config, log } = this.#parts
    const { httpPort } = this.#https
    try {
      await this.#port.open(config.host, httpPort)
      return undefined
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      log.warn({ port: httpPort, code }, 'the port for plain HTTP cannot be opened')
      return code ?? String(error)
    }
  }

  async #order(before: RenewalStatus): Promise<void> {
    const { clock, log } = this.#parts
    const { directory, domain, email, httpPort } = this.#https
    this.#files.writeStatus(directory, begin(before, clock.now()))
    const give = (problem: Omit<RenewalProblem, 'at'>, leastMs = 0): void => {
      const at = clock.now()
      const status = fail(before, at, { at, ...problem }, leastMs)
      this.#files.writeStatus(directory, status)
      const nextTry = new Date(status.nextTryAt).toISOString()
      log.warn({ domain, ...problem, nextTry }, 'no new HTTPS certificate')
    }
    const taken = await this.#openPort()
    if (taken !== undefined) {
      return give({
        message: `port ${httpPort}, where the authority looks, cannot be opened (${taken})`,
        fix: `Stop the program that listens there (ss -ltnp 'sport = :${httpPort}'), or use it as a proxy and remove BERTH_DOMAIN.`,
      })
    }
    try {
      const { challenges } = this.#port
      const made = await orderCertificate({
        directory,
        domain,
        email,
        files: this.#files,
        challenges,
      })
      readCertificate(made.keyPem + made.chainPem, domain) // before it replaces the former one
      this.#files.writeCertificate(made.keyPem, made.chainPem)
      this.#files.writeStatus(directory, { ...UNTRIED, triedAt: clock.now() })
    } catch (error) {
      if (!(error instanceof AcmeRefused)) throw error
      const { refusal } = error
      const limited = refusal.type === 'rateLimited' ? HTTPS.limitedMs : 0
      const wait = Math.min(Math.max(limited, refusal.waitMs ?? 0), HTTPS.longestWaitMs)
      return give(explain(refusal, { directory, domain, httpPort }), wait)
    }
    this.#use(this.#files.readCertificate())
    const until = new Date(this.until ?? 0).toISOString()
    log.info({ domain, issuer: this.#certificate?.issuer, until }, 'new HTTPS certificate')
  }

  #use(certificate: Certificate | undefined): void {
    if (!certificate) return
    this.#certificate = certificate
    const { keyPem: key, chainPem: cert } = certificate
    this.#context = { key, cert, minVersion: 'TLSv1.2' }
    this.#apply(this.#context)
  }

  /** Replaced files are used at once; wrong ones leave the former certificate in use. */
  #readFiles({ certificate, key }: NonNullable<HttpsConfig['files']>): void {
    const { clock, log } = this.#parts
    try {
      const seen = [certificate, key].map((path) => statSync(path).mtimeMs).join(' ')
      if (seen === this.#seen) return
      this.#seen = seen
      const text = [key, certificate].map((path) => readFileSync(path, 'utf8')).join('\n')
      this.#use(readCertificate(text, this.#https.domain))
      this.#fileProblem = undefined
      log.info({ certificate, until: new Date(this.until ?? 0).toISOString() }, 'HTTPS certificate')
    } catch (error) {
      const message = `${certificate} cannot be used: ${(error as Error).message}`
      if (this.#fileProblem?.message === message) return
      const fix = 'Put certificate, chain and key in place, readable by the account berth-server.'
      this.#fileProblem = { at: clock.now(), message, fix }
      log.warn({ message, fix }, 'no new HTTPS certificate')
    }
  }
}
