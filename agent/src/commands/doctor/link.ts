// Checks who this server is for the control plane, and whether it reaches it both ways: the REST API (joining, renewal)
// and the agents' listener.
import { X509Certificate } from 'node:crypto'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { type Finding, ok, problem, skipped, warning } from '@berth/shared/findings'
import { DAY } from '@berth/shared/units'
import { DOCTOR } from '../../limits/maintenance.ts'
import { CONTROL_PLANE_NAME, explainFailure } from '../../link/channel.ts'
import { type Identity, isJoined, readIdentity } from '../../link/identity/identity.ts'
import { greet, NotKnown } from '../../link/identity/leave.ts'
import type { AgentSettings } from '../../settings.ts'

const JOIN =
  'Create a join token on the server page (berth server join-token NAME) and run the command that it shows.'

export async function checkLink(settings: AgentSettings): Promise<Finding[]> {
  if (!isJoined(settings)) {
    return [
      problem('identity', 'this server has not joined a control plane', JOIN),
      skipped('control plane', 'this server does not know one'),
    ]
  }
  let identity: Identity
  try {
    identity = readIdentity(settings)
  } catch (error) {
    const again = 'Join again: berth-agent join --force URL, with a new token.'
    return [problem('identity', (error as Error).message.split(' Join again')[0] ?? '', again)]
  }
  const [rest, listeners] = await Promise.all([
    checkRest(identity),
    Promise.all(identity.endpoints.map((endpoint) => checkListener(identity, endpoint))),
  ])
  return [...checkIdentity(settings, identity), ...rest, ...listeners]
}

function checkIdentity(settings: AgentSettings, identity: Identity): Finding[] {
  const subject = 'identity'
  const key = join(settings.stateDir, 'identity/current/key.pem')
  const { mode } = statSync(key)
  const findings: Finding[] = []
  if ((mode & 0o077) !== 0) {
    findings.push(problem(subject, `other accounts can read ${key}`, `Run: chmod 0600 ${key}`))
  }
  const left = new X509Certificate(identity.certificate).validToDate.getTime() - Date.now()
  const days = Math.floor(Math.abs(left) / DAY)
  const shown = `server ${identity.serverId} at ${identity.baseUrl}`
  const renew = 'The daemon renews it as soon as it reaches the control plane; see below.'
  if (left <= 0) {
    const message = `${shown}; its certificate expired ${days} days ago`
    return [...findings, problem(subject, message, `${renew} After 90 days: ${JOIN}`)]
  }
  if (left < DOCTOR.certificateMs) {
    const message = `${shown}; its certificate is valid for ${days} more days and was not renewed`
    return [...findings, warning(subject, message, renew)]
  }
  return [...findings, ok(subject, `${shown}; its certificate is valid for ${days} more days`)]
}

async function checkRest(identity: Identity): Promise<Finding[]> {
  const subject = 'control plane'
  try {
    const { offsetMs } = await greet(identity)
    return [ok(subject, `${identity.baseUrl} knows this server`), checkClock(offsetMs)]
  } catch (error) {
    const { message } = error as Error
    const sentence = message.replace(/\.$/, '')
    if (error instanceof NotKnown) {
      return [problem(subject, `it refuses this server: ${sentence}`, JOIN)]
    }
    const fix = `Check its name, the firewalls between, and that it runs. A new address: berth-agent move URL.`
    return [problem(subject, sentence, fix), skipped('clock', 'the control plane was not reached')]
  }
}

function checkClock(offsetMs: number | undefined): Finding {
  const subject = 'clock'
  if (offsetMs === undefined) return skipped(subject, 'the control plane did not say its time')
  const seconds = Math.round(Math.abs(offsetMs) / 1_000)
  const side = offsetMs > 0 ? 'behind' : 'ahead of'
  const fix = 'Set the clock: install systemd-timesyncd or chrony, here and on the control plane.'
  if (Math.abs(offsetMs) > DOCTOR.clockProblemMs) {
    const message = `${seconds} s ${side} the control plane, so certificates are refused`
    return problem(subject, message, fix)
  }
  if (Math.abs(offsetMs) > DOCTOR.clockMs) {
    return warning(subject, `${seconds} s ${side} the control plane`, fix)
  }
  return ok(subject, `within ${seconds + 1} s of the control plane`)
}

/** The first bytes of HTTP/2 come only after the other side accepted this agent's certificate. */
function checkListener(identity: Identity, endpoint: string): Promise<Finding> {
  const subject = `agents' listener ${endpoint}`
  const [, host = '', port = ''] = /^\[?(.+?)\]?:(\d+)$/.exec(endpoint) ?? []
  const fix = `Open TCP port ${port} to ${host} in the firewalls between; on the control plane: berth-server doctor.`
  return new Promise((resolve) => {
    const socket = connect({
      host,
      port: Number(port),
      servername: CONTROL_PLANE_NAME,
      ca: identity.ca,
      cert: identity.certificate,
      key: identity.key,
      minVersion: 'TLSv1.3',
      ALPNProtocols: ['h2'],
    })
    const finish = (finding: Finding): void => {
      clearTimeout(timer)
      socket.destroy()
      resolve(finding)
    }
    const fail = (why: string): void =>
      finish(problem(subject, explainFailure(why, endpoint).replace(` (${endpoint})`, ''), fix))
    const timer = setTimeout(() => fail('no answer'), DOCTOR.waitMs)
    socket.on('error', (error) => fail(error.message))
    socket.on('end', () => fail('it closed the connection'))
    socket.once('data', () => finish(ok(subject, 'accepts this server')))
  })
}
