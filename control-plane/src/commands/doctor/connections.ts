// Checks what the control plane depends on: its database with the agents' authority, its clock, the mail server.
import { X509Certificate } from 'node:crypto'
import { join } from 'node:path'
import { type Finding, ok, problem, reasonOf, skipped, warning } from '@berth/shared/findings'
import type { Config } from '../../config.ts'
import { DOCTOR } from '../../limits/installation.ts'
import { tryMailServer } from '../../mail/mail.ts'
import {
  type Inspection,
  inspectPostgres,
  inspectSqlite,
} from '../../store/installation/inspection.ts'

export async function checkDatabase(
  config: Config,
): Promise<{ findings: Finding[]; database: Inspection | undefined }> {
  const { databaseUrl, dataDir } = config
  const file = join(dataDir, 'berth.db')
  try {
    const database = await (databaseUrl === undefined
      ? inspectSqlite(file)
      : inspectPostgres(databaseUrl, DOCTOR.waitMs))
    if (!database) return { findings: [ok('database', `${file} will be created`)], database }
    return { findings: [judgeDatabase(database), ...judgeAuthority(database)], database }
  } catch (error) {
    const [what, fix] =
      databaseUrl === undefined
        ? [
            file,
            `Make it readable by the account that runs the control plane, or restore a backup.`,
          ]
        : [
            'PostgreSQL',
            'Start PostgreSQL, and check host, name, user and password in DATABASE_URL.',
          ]
    const findings = [problem('database', `${what} cannot be opened (${reasonOf(error)})`, fix)]
    return { findings, database: undefined }
  }
}

function judgeDatabase({ version, unknown, pending }: Inspection): Finding {
  if (unknown.length > 0) {
    return problem(
      'database',
      `${version} was written by a newer Berth (${unknown.join(', ')})`,
      'Start that release, or restore a backup made before the upgrade.',
    )
  }
  const next =
    pending.length > 0 ? `; the next start runs ${pending.length} migrations` : ', up to date'
  return ok('database', `${version}${next}`)
}

function judgeAuthority({ caCertificate }: Inspection): Finding[] {
  if (caCertificate === undefined) return []
  const until = Date.parse(new X509Certificate(caCertificate).validTo)
  const date = new Date(until).toISOString().slice(0, 10)
  const subject = "agents' authority"
  const fix = 'Set up a new installation before that day, and join the servers there.'
  if (until < Date.now()) return [problem(subject, `it expired on ${date}`, fix)]
  if (until - Date.now() < DOCTOR.authorityMs) {
    return [warning(subject, `it expires on ${date}`, fix)]
  }
  return [ok(subject, `valid until ${date}`)]
}

/** `other`: how far the clock of another machine is ahead. */
export function checkClock(other: { name: string; offsetMs: number } | undefined): Finding {
  const fix = 'Synchronize the clock: `timedatectl set-ntp true`, or chrony.'
  if (!other) {
    const message = 'no other machine answered that has a clock to compare with'
    return skipped('clock', message, '`timedatectl` shows whether it is synchronized.')
  }
  const seconds = Math.round(Math.abs(other.offsetMs) / 1_000)
  const message = `it differs from that of ${other.name} by ${seconds} s`
  if (Math.abs(other.offsetMs) > DOCTOR.clockProblemMs) return problem('clock', message, fix)
  if (Math.abs(other.offsetMs) > DOCTOR.clockMs) return warning('clock', message, fix)
  return ok('clock', message)
}

export async function checkMail({ mail }: Config): Promise<Finding> {
  switch (mail.kind) {
    case 'none':
      return warning(
        'mail',
        'no mail server is set, so password resets, invitations and alerts reach nobody',
        'Set BERTH_SMTP_URL and BERTH_MAIL_FROM.',
      )
    case 'files':
      return ok('mail', 'development: mail becomes files')
    case 'smtp':
      return tryMailServer(mail.url, DOCTOR.waitMs).then(
        () =>
          ok(
            'mail',
            `the mail server accepts us${new URL(mail.url).username ? ' and the password' : ''}`,
          ),
        (error: unknown) => problem('mail', ...explainMail(error)),
      )
  }
}

function explainMail(error: unknown): [message: string, fix: string] {
  const { code, responseCode } = error as { code?: string; responseCode?: number }
  const answer = responseCode === undefined ? '' : `, answer ${responseCode}`
  switch (code) {
    case 'EAUTH':
      return [
        `the mail server refuses user or password${answer}`,
        'Correct both in BERTH_SMTP_URL. Percent-encode special characters: @ is %40.',
      ]
    case 'EDNS':
      return ['the name of the mail server leads nowhere', 'Correct the host in BERTH_SMTP_URL.']
    case 'ETLS':
      return [
        'the mail server offers no encryption, or its certificate is not valid',
        'Use the name in its certificate in BERTH_SMTP_URL, and smtps:// for port 465.',
      ]
    default:
      return [
        `the mail server does not answer as one (${reasonOf(error)}${answer})`,
        'Check host and port in BERTH_SMTP_URL, and that a firewall lets this machine connect.',
      ]
  }
}
