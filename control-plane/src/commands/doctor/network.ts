// Checks what the control plane shows to the network: its ports, the names that lead to it, and its HTTPS certificate.
import { X509Certificate } from 'node:crypto'
import { lookup } from 'node:dns/promises'
import { createServer, connect as dial, isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import { connect, type TLSSocket } from 'node:tls'
import { type Finding, ok, problem, reasonOf, skipped, warning } from '@berth/shared/findings'
import type { Config } from '../../config.ts'
import { DOCTOR } from '../../limits/installation.ts'

/** The address at which this machine reaches a listener on `host`. */
export const dialable = (host: string): string =>
  host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
export const inUrl = (host: string): string => (host.includes(':') ? `[${host}]` : host)
const isLoopback = (address: string): boolean => /^(127\.|::1$|localhost$)/.test(address)

/** The code of the error; undefined: the port is free, and this account may use it. */
function tryPort(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', (error) => resolve(reasonOf(error)))
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)))
  })
}

interface Asked {
  version: string
  /** How far its clock is ahead of ours, to a second. */
  offsetMs: number | undefined
}

/** Undefined if what answers is no control plane. Throws if nothing answers. */
async function askHealth(url: string): Promise<Asked | undefined> {
  const answer = await fetch(`${url}/api/health`, {
    redirect: 'manual',
    signal: AbortSignal.timeout(DOCTOR.waitMs),
  })
  const { version, setup_required } = await readBounded(answer)
  if (typeof version !== 'string' || typeof setup_required !== 'boolean') return undefined
  const offsetMs = Date.parse(answer.headers.get('date') ?? '') - Date.now()
  return { version, offsetMs: Number.isNaN(offsetMs) ? undefined : offsetMs }
}

/** Empty if it is not JSON, or too long for an answer of ours. */
async function readBounded(answer: Response): Promise<Record<string, unknown>> {
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of answer.body ?? []) {
    bytes += part.length
    if (bytes > DOCTOR.answerBytes) return {} // leaving the loop cancels the rest
    parts.push(part)
  }
  try {
    return Object(JSON.parse(Buffer.concat(parts).toString()))
  } catch {
    return {}
  }
}

export function openTls(host: string, port: number, name = host): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connect({
      host,
      port,
      rejectUnauthorized: false, // the findings say what is wrong with it
      ALPNProtocols: ['h2', 'http/1.1'],
      ...(isIP(name) === 0 ? { servername: name } : {}),
    })
    const timer = setTimeout(() => socket.destroy(new Error('no answer')), DOCTOR.waitMs)
    socket.once('close', () => clearTimeout(timer))
    socket.on('error', reject) // later errors, such as a refused client certificate, change nothing
    socket.once('secureConnect', () => resolve(socket))
  })
}

/** Returns whether the listener's certificate comes from this installation's authority. */
async function isOurListener(config: Config, ca: string | undefined): Promise<boolean> {
  if (ca === undefined) return false
  try {
    const socket = await openTls(dialable(config.agentHost), config.agentPort)
    const seen = socket.getPeerX509Certificate()
    socket.destroy()
    return seen?.verify(new X509Certificate(ca).publicKey) === true
  } catch {
    return false
  }
}

const takenBy = (subject: string, at: string, port: number, variable: string): Finding =>
  problem(
    subject,
    `another program listens at ${at}`,
    `Find it with \`ss -ltnp 'sport = :${port}'\` and stop it, or set ${variable} to another port.`,
  )

/** For ports that this account may not try by listening. */
function isTaken(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = dial({ host: dialable(host), port, timeout: DOCTOR.waitMs })
    const end = (taken: boolean): void => {
      socket.destroy()
      resolve(taken)
    }
    socket.once('connect', () => end(true))
    socket.once('error', () => end(false))
    socket.once('timeout', () => end(false))
  })
}

export interface Port {
  subject: string
  host: string
  port: number
  variable: string
  isOurs: () => Promise<boolean>
}

export async function checkPort({ subject, host, port, variable, isOurs }: Port): Promise<Finding> {
  const at = `${inUrl(host)}:${port}`
  if (port === 0) return warning(subject, 'each start takes another one', `Set ${variable}.`)
  const code = await tryPort(host, port)
  switch (code) {
    case undefined:
      return ok(subject, `${at} is free`)
    case 'EADDRINUSE':
      if (await isOurs()) return ok(subject, `this control plane listens at ${at}`)
      return takenBy(subject, at, port, variable)
    case 'EACCES':
      if (await isOurs()) return ok(subject, `this control plane listens at ${at}`)
      if (await isTaken(host, port)) return takenBy(subject, at, port, variable)
      return warning(
        subject,
        `this account may not listen at ${at}`,
        `The unit of a release gives the service this right (AmbientCapabilities=CAP_NET_BIND_SERVICE). Otherwise set ${variable} to a port from 1024 on.`,
      )
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return problem(
        subject,
        `this machine does not have the address ${host}`,
        `Set ${variable.replace('PORT', 'HOST')} to an address of this machine, to 127.0.0.1 or to 0.0.0.0.`,
      )
    default:
      return problem(
        subject,
        `it cannot listen at ${at} (${code})`,
        `Set ${variable} to another port.`,
      )
  }
}

export async function checkPorts(config: Config, ca: string | undefined): Promise<Finding[]> {
  const { host, port, agentHost, agentPort } = config
  const web = `http://${inUrl(dialable(host))}:${port}`
  const findings = await Promise.all([
    checkPort({
      subject: 'port of REST and the dashboard',
      host,
      port,
      variable: 'BERTH_PORT',
      isOurs: async () =>
        config.https
          ? servesName(config, config.https.domain)
          : (await askHealth(web).catch(() => undefined)) !== undefined,
    }),
    checkPort({
      subject: 'port of agents',
      host: agentHost,
      port: agentPort,
      variable: 'BERTH_AGENT_PORT',
      isOurs: () => isOurListener(config, ca),
    }),
  ])
  const dialed = endpointsOf(config).map(({ host: name }) => name)
  if (isLoopback(agentHost) && dialed.some((name) => !isLoopback(name))) {
    findings.push(
      warning(
        'port of agents',
        `it listens only on ${agentHost}, so agents on other machines cannot connect`,
        'Set BERTH_AGENT_HOST to 0.0.0.0, unless something on this machine forwards the port.',
      ),
    )
  }
  return findings
}

/** Returns whether what listens shows a certificate for the domain, from whichever authority. */
async function servesName({ host, port }: Config, domain: string): Promise<boolean> {
  try {
    const socket = await openTls(dialable(host), port, domain)
    const seen = socket.getPeerX509Certificate()
    socket.destroy()
    return seen?.checkHost(domain) !== undefined
  } catch {
    return false
  }
}

interface Endpoint {
  host: string
  variable: string
}

function endpointsOf({ agentEndpoints, baseUrl }: Config): Endpoint[] {
  if (agentEndpoints.length > 0) {
    return agentEndpoints.map((one) => ({
      host: one.replace(/:\d+$/, '').replaceAll(/[[\]]/g, ''),
      variable: 'BERTH_AGENT_ENDPOINTS',
    }))
  }
  return baseUrl === '' ? [] : [{ host: hostOf(baseUrl), variable: 'BERTH_URL' }]
}

const hostOf = (url: string): string => new URL(url).hostname.replaceAll(/[[\]]/g, '')

export async function resolveName(host: string): Promise<string[]> {
  if (isIP(host) !== 0) return [host]
  const late = AbortSignal.timeout(DOCTOR.waitMs)
  const expired = new Promise<never>((_, reject) => {
    late.addEventListener('abort', () => reject(new Error('no answer')), { once: true })
  })
  const found = await Promise.race([lookup(host, { all: true }), expired])
  return found.map(({ address }) => address)
}

async function checkName({ host, variable }: Endpoint): Promise<Finding> {
  const subject = `name ${host}`
  try {
    const addresses = await resolveName(host)
    if (isIP(host) !== 0) return ok(subject, 'an address, no name is looked up')
    if (host !== 'localhost' && addresses.every(isLoopback)) {
      return warning(
        subject,
        `on this machine it leads to ${addresses.join(', ')}, so /etc/hosts hides what others see`,
        `Check from another machine that ${host} leads here.`,
      )
    }
    return ok(subject, `leads to ${addresses.join(', ')}`)
  } catch (error) {
    return problem(
      subject,
      `it leads nowhere (${reasonOf(error)})`,
      `Create an A or AAAA record for ${host} that leads to this machine, or correct ${variable}.`,
    )
  }
}

export async function checkNames(config: Config): Promise<Finding[]> {
  const own: Finding[] = []
  const wanted = new Map(endpointsOf(config).map((one) => [one.host, one]))
  if (config.baseUrl === '') {
    own.push(
      warning(
        'address',
        'BERTH_URL is not set, so links and join commands contain the address where it listens',
        'Set BERTH_URL to the address that people use.',
      ),
    )
  } else {
    const host = hostOf(config.baseUrl)
    wanted.set(host, { host, variable: 'BERTH_URL' })
  }
  return [...own, ...(await Promise.all([...wanted.values()].map(checkName)))]
}

export const isOwnAddress = (address: string): boolean =>
  Object.values(networkInterfaces()).some((all) => all?.some((one) => one.address === address))

/** Asks BERTH_URL as people do; also compares the clock, if another machine answered. */
export async function checkAddress(
  config: Config,
): Promise<{ findings: Finding[]; offsetMs: number | undefined }> {
  const { baseUrl } = config
  if (baseUrl === '') return { findings: [], offsetMs: undefined }
  const subject = `address ${baseUrl}`
  const isOurs = config.https !== undefined // then https.ts checks the certificate
  const hasProxy = baseUrl.startsWith('https:') && !isOurs
  const certificate = hasProxy ? [await checkCertificate(baseUrl)] : []
  try {
    const [answer, addresses] = await Promise.all([
      askHealth(baseUrl),
      resolveName(hostOf(baseUrl)),
    ])
    if (!answer) {
      const fix = 'Let the proxy forward every path to the control plane, or correct BERTH_URL.'
      const found = problem(subject, 'something else answers, no control plane', fix)
      return { findings: [found, ...certificate], offsetMs: undefined }
    }
    const found = ok(subject, `a control plane answers, version ${answer.version}`)
    const offsetMs = addresses.some(isOwnAddress) ? undefined : answer.offsetMs
    return { findings: [found, ...certificate], offsetMs }
  } catch (error) {
    const message = `nothing answered from here (${reasonOf(error)})`
    const fix = isOurs
      ? 'Start the control plane, then check the address in a browser.'
      : 'Start the control plane and its proxy, then check the address in a browser.'
    return { findings: [skipped(subject, message, fix), ...certificate], offsetMs: undefined }
  }
}

async function checkCertificate(baseUrl: string): Promise<Finding> {
  const { port } = new URL(baseUrl)
  const host = hostOf(baseUrl)
  const subject = `HTTPS certificate of ${host}`
  let socket: TLSSocket
  try {
    socket = await openTls(host, Number(port) || 443)
  } catch (error) {
    const fix = 'Start the proxy that serves HTTPS.'
    return skipped(subject, `no TLS answer from here (${reasonOf(error)})`, fix)
  }
  const seen = socket.getPeerX509Certificate()
  const wrong = socket.authorized ? undefined : String(socket.authorizationError)
  socket.destroy()
  const until = seen ? Date.parse(seen.validTo) : 0
  const date = new Date(until).toISOString().slice(0, 10)
  if (until < Date.now()) {
    return problem(subject, `it expired on ${date}`, 'Renew it, and let the proxy do so by itself.')
  }
  if (wrong !== undefined) {
    return problem(
      subject,
      `this machine does not trust it (${wrong})`,
      'Use a certificate of a public authority for this name, with its whole chain. For an authority of your own, install it on every client and server.',
    )
  }
  if (until - Date.now() < DOCTOR.certificateMs) {
    const fix = 'Look why it was not renewed: the log of the proxy names the reason.'
    return warning(subject, `it expires on ${date}`, fix)
  }
  return ok(subject, `valid until ${date}`)
}
