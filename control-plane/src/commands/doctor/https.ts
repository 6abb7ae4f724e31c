// Checks HTTPS that the control plane serves itself: where its name leads, the port for plain HTTP, and its certificate
// with the last answer of the authority.

import { readFileSync } from 'node:fs'
import { get } from 'node:http'
import { type Finding, ok, problem, reasonOf, warning } from '@berth/shared/findings'
import { DAY } from '@berth/shared/units'
import type { Config, HttpsConfig } from '../../config.ts'
import { renewalTime } from '../../domain/installation/certificate.ts'
import { type Certificate, readCertificate, TlsFiles } from '../../https/files.ts'
import { DOCTOR } from '../../limits/installation.ts'
import { checkPort, dialable, isOwnAddress, resolveName } from './network.ts'

const dateOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10)
const timeOf = (ms: number): string => `${new Date(ms).toISOString().slice(0, 16)}Z`

/** Nothing behind a proxy. */
export async function checkHttps(config: Config): Promise<Finding[]> {
  const { https } = config
  if (!https) return []
  const name = await checkDomain(https)
  const port = await checkHttpPort(config, https)
  return [...name, port, ...checkCertificates(config, https)]
}

/** `checkNames` reports a name that leads nowhere. */
async function checkDomain({ domain, httpPort }: HttpsConfig): Promise<Finding[]> {
  const addresses = await resolveName(domain).catch(() => [])
  const elsewhere = addresses.filter((one) => !isOwnAddress(one))
  if (addresses.length === 0) return []
  const subject = `domain ${domain}`
  if (elsewhere.length === 0) return [ok(subject, 'leads to this machine')]
  return [
    warning(
      subject,
      `it leads to ${elsewhere.join(', ')}, which is no address of this machine`,
      `That is fine if a router there forwards the ports ${httpPort} and 443 to this machine. Otherwise correct the A and AAAA records.`,
    ),
  ]
}

/** Only our own port 80 sends people on to this address. */
function sendsOn({ host, baseUrl }: Config, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const options = { host: dialable(host), port, agent: false, timeout: DOCTOR.waitMs }
    const call = get(options, (answer) => {
      resolve(answer.statusCode === 308 && answer.headers.location === `${baseUrl}/`)
      answer.destroy()
    })
    call.once('timeout', () => call.destroy())
    call.once('error', () => resolve(false))
  })
}

function checkHttpPort(config: Config, { httpPort }: HttpsConfig): Promise<Finding> {
  return checkPort({
    subject: 'port of plain HTTP',
    host: config.host,
    port: httpPort,
    variable: 'BERTH_HTTP_PORT',
    isOurs: () => sendsOn(config, httpPort),
  })
}

function checkCertificates(config: Config, https: HttpsConfig): Finding[] {
  const { domain, directory, files } = https
  const subject = `HTTPS certificate of ${domain}`
  if (files) return [checkFiles(subject, files, domain)]
  const stored = new TlsFiles(config.dataDir, domain)
  const certificate = stored.readCertificate()
  const { problem: last, nextTryAt } = stored.readStatus(directory)
  const findings = certificate ? [judge(subject, certificate)] : []
  if (last) {
    const isUrgent = !certificate || certificate.until - Date.now() < DOCTOR.certificateMs
    const message = `the try at ${timeOf(last.at)} failed: ${last.message}; the next one is at ${timeOf(nextTryAt)}`
    const fix = `${last.fix} Then run \`berth-server renew-certificate\`, or wait.`
    findings.push((isUrgent ? problem : warning)(subject, message, fix))
  } else if (!certificate) {
    const fix =
      'Start the control plane: it orders one. The ports 80 and 443 must be open to everyone.'
    findings.push(warning(subject, 'there is none yet', fix))
  }
  return findings
}

function judge(subject: string, certificate: Certificate): Finding {
  const { until, issuer } = certificate
  const days = Math.floor((until - Date.now()) / DAY)
  const fix =
    'The lines below and the log of the control plane name the reason; it must run to renew.'
  if (days < 0) return problem(subject, `it expired on ${dateOf(until)}`, fix)
  const message = `valid for ${days} days, until ${dateOf(until)} (${issuer})`
  const renewal = renewalTime(certificate)
  if (renewal < Date.now() - DAY) {
    return warning(subject, `${message}; it should have been renewed on ${dateOf(renewal)}`, fix)
  }
  return ok(subject, `${message}; renewed from ${dateOf(renewal)} on`)
}

function checkFiles(
  subject: string,
  { certificate, key }: NonNullable<HttpsConfig['files']>,
  domain: string,
): Finding {
  try {
    const text = [key, certificate].map((path) => readFileSync(path, 'utf8')).join('\n')
    const { until, issuer } = readCertificate(text, domain)
    const days = Math.floor((until - Date.now()) / DAY)
    const message = `valid for ${days} days, until ${dateOf(until)} (${issuer})`
    const fix = `Replace ${certificate} and ${key}; the control plane notices it.`
    if (until < Date.now()) return problem(subject, `it expired on ${dateOf(until)}`, fix)
    if (until - Date.now() < DOCTOR.certificateMs) return warning(subject, message, fix)
    return ok(subject, message)
  } catch (error) {
    const fix =
      'Put certificate with chain, and key, in place as PEM, readable by the account of the control plane.'
    return problem(subject, `${certificate} cannot be used: ${reasonOf(error)}`, fix)
  }
}
