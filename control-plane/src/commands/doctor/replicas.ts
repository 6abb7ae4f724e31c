// Checks several control planes on one PostgreSQL: their versions, the way between them, and settings that fit one only.
import { connect } from 'node:net'
import { hostname } from 'node:os'
import { type Finding, ok, problem, reasonOf, warning } from '@berth/shared/findings'
import type { Config } from '../../config.ts'
import { DOCTOR } from '../../limits/installation.ts'
import type { Inspection } from '../../store/installation/inspection.ts'
import { type LiveReplica, nameReplicas } from '../../store/installation/live-replicas.ts'

const SUBJECT = 'control planes'

/** Nothing on SQLite, and while at most one runs. */
export async function checkReplicas(
  config: Config,
  database: Inspection | undefined,
): Promise<Finding[]> {
  const replicas = database?.replicas ?? []
  if (replicas.length < 2) return []
  const peers = await Promise.all(replicas.map(checkPeer))
  return [...checkVersions(replicas), ...peers.flat(), ...checkSettings(config)]
}

function checkVersions(replicas: readonly LiveReplica[]): Finding[] {
  const versions = new Set(replicas.map(({ version }) => version))
  const message = `${replicas.length} use the database: ${nameReplicas(replicas)}`
  if (versions.size === 1) return [ok(SUBJECT, message)]
  const fix = 'That is fine during a rolling upgrade. Otherwise upgrade those that were left out.'
  return [warning(SUBJECT, message, fix)]
}

/** Only whether the port answers: the peers have certificates, the doctor has none. */
async function checkPeer({ host, pid, peer_address }: LiveReplica): Promise<Finding[]> {
  if (peer_address === null) return []
  const subject = `peer ${peer_address}`
  const who = `process ${pid} on ${host}`
  const reason = await tryConnect(peer_address)
  if (reason === undefined) return [ok(subject, `${who} answers`)]
  const where = host === hostname() ? 'this machine' : 'that machine, to all control planes'
  return [
    problem(
      subject,
      `${who} does not answer from here (${reason}), so requests to agents that it holds fail here`,
      `Open this port of ${where}. If the address is wrong, set BERTH_PEER_ADDRESS there, and BERTH_PEER_PORT to a port that stays the same.`,
    ),
  ]
}

function tryConnect(address: string): Promise<string | undefined> {
  const at = address.lastIndexOf(':')
  const host = address.slice(0, at).replaceAll(/[[\]]/g, '')
  return new Promise((resolve) => {
    const socket = connect({ host, port: Number(address.slice(at + 1)), timeout: DOCTOR.waitMs })
    const end = (reason: string | undefined): void => {
      socket.destroy()
      resolve(reason)
    }
    socket.once('connect', () => end(undefined))
    socket.once('timeout', () => end('no answer'))
    socket.once('error', (error) => end(reasonOf(error)))
  })
}

function checkSettings({ backup, https }: Config): Finding[] {
  const findings: Finding[] = []
  if (backup.schedule !== undefined && backup.to !== undefined && !backup.to.startsWith('s3://')) {
    findings.push(
      warning(
        'backups',
        `each scheduled backup goes to ${backup.to} of the machine that makes it, which may be another one each time`,
        'Set BERTH_BACKUP_TO to a bucket (s3://…), or to a folder that all machines mount.',
      ),
    )
  }
  if (https && !https.files) {
    findings.push(
      warning(
        `HTTPS certificate of ${https.domain}`,
        'each control plane orders its own, and the authority asks only the one that the balancer chooses',
        'End HTTPS in the balancer, or give all of them one certificate (BERTH_TLS_CERTIFICATE_FILE, BERTH_TLS_KEY_FILE).',
      ),
    )
  }
  return findings
}
