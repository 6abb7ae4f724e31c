// berth backup settings, history and storage: when an environment is backed up, how long backups stay, and the bucket
// of the organization. The secret key is typed or read from stdin, never an argument, and never printed.
import { randomUUID } from 'node:crypto'
import { backupLocation, VOLUME_BACKUPS } from '@berth/shared'
import {
  BackupSettings,
  type BackupSettingsPatch,
  BackupStorage,
  ScheduledRun,
} from '@berth/shared/api'
import { type Api, removeAt } from '../../client/api.ts'
import { findTarget, type Target, targetName } from '../../client/resolve.ts'
import { type Context, compose, flagOn, flagText, type Invocation } from '../../context.ts'
import { CLIENT } from '../../limits/client.ts'
import { EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { parseCount } from '../../terminal/format.ts'
import { cleanText } from '../../terminal/text.ts'
import { findOrganization } from '../people/orgs.ts'
import { askSecret, confirmYes, mayAsk } from '../prompt.ts'

const settingsPath = ({ environment }: Target): string =>
  `/api/environments/${environment.id}/backup-settings`

function parseSettings({ flags }: Invocation): BackupSettingsPatch {
  const cron = flagText(flags, 'schedule')
  const timezone = flagText(flags, 'timezone')
  const keep = flagText(flags, 'keep')
  const days = flagText(flags, 'keepDays')
  const to = flagText(flags, 'to') as BackupSettingsPatch['place']
  if (timezone !== undefined && (cron === undefined || cron === 'off')) {
    throw usage('--timezone needs --schedule')
  }
  return {
    ...(cron === undefined ? {} : { schedule: cron === 'off' ? null : { cron } }),
    ...(cron === undefined || timezone === undefined ? {} : { schedule: { cron, timezone } }),
    ...(keep === undefined
      ? {}
      : { keep_count: parseCount('--keep', keep, VOLUME_BACKUPS.keepCountMost) }),
    ...(days === undefined
      ? {}
      : {
          keep_days:
            days === 'any' ? null : parseCount('--keep-days', days, VOLUME_BACKUPS.keepDaysMost),
        }),
    ...(to === undefined ? {} : { place: to }),
  }
}

async function showSettings(context: Context, target: Target, settings: BackupSettings) {
  const { screen } = context
  const { schedule, keep_count: count, keep_days: days, place } = settings
  const when = schedule ? `${schedule.cron} (${schedule.timezone})` : 'off'
  if (!screen.human) {
    return screen.print([when, String(count), String(days ?? ''), place].map(cleanText).join('\t'))
  }
  const next = schedule?.paused_reason ?? schedule?.next_run_at ?? '-'
  const lines = [
    `Backups of ${targetName(target)}`,
    `  Schedule  ${when}`,
    ...(schedule ? [`  Next      ${next}`] : []),
    `  Keep      ${count} backups${days === null ? '' : `, none older than ${days} days`}`,
    `  Where     ${place === 'server' ? "the server's disk" : "the organization's bucket"}`,
  ]
  return screen.print(lines.map(cleanText).join('\n'))
}

async function performSettings(patch: BackupSettingsPatch, context: Context): Promise<ExitCode> {
  const api = await context.connect()
  const isChange = Object.keys(patch).length > 0
  const target = await findTarget(api, context, isChange ? 'change' : 'read')
  const path = settingsPath(target)
  const { value, raw } = isChange
    ? await api.change('PATCH', path, BackupSettings, { body: patch, expect: 200 })
    : await api.get(path, BackupSettings)
  if (context.screen.json) await context.screen.printJson(raw)
  else await showSettings(context, target, value)
  return EXIT.done
}

export const backupSettings = compose(parseSettings, performSettings)

async function performHistory(_: unknown, context: Context): Promise<ExitCode> {
  const api = await context.connect()
  const target = await findTarget(api, context, 'read')
  const path = `/api/environments/${target.environment.id}/backup-runs`
  const { items, raw } = await api.list(path, ScheduledRun)
  const cells = (run: ScheduledRun): string[] => [
    run.due_at,
    run.task_status ?? run.outcome,
    String(run.runs),
    run.task_id === null ? '' : String(run.task_id),
    run.reason ?? '',
  ]
  await context.screen.printList({
    rows: items,
    raw,
    header: ['DUE', 'RESULT', 'RUNS', 'TASK', 'REASON'],
    human: (run) => cells(run).map((text) => text || '-'),
    plain: cells,
    empty: `No scheduled backup of ${targetName(target)} yet.`,
  })
  return EXIT.done
}

export const backupHistory = compose(() => undefined, performHistory)

const storagePath = async (api: Api): Promise<{ path: string; name: string }> => {
  const { id, name } = await findOrganization(api)
  return { path: `/api/organizations/${id}/backup-storage`, name }
}

async function performShow(_: unknown, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const { path } = await storagePath(api)
  const { value, raw } = await api.get(path, BackupStorage)
  if (screen.json) await screen.printJson(raw)
  else {
    const { endpoint, region, access_key_id: key, recipient } = value
    const fields = [backupLocation(value), endpoint, region, key, recipient].map(cleanText)
    await screen.print(screen.human ? fields.join('\n') : fields.join('\t'))
    if (screen.human) await screen.note('(the secret key is never shown)')
  }
  return EXIT.done
}

export const backupStorage = compose(() => undefined, performShow)

const HOW = 'type it when asked, or pipe it in with --secret-stdin'

async function readSecret(fromStdin: boolean, context: Context): Promise<string> {
  const { io } = context
  if (!fromStdin) {
    if (!mayAsk(context)) throw usage('the secret key is missing', HOW)
    return askSecret(context, 'Secret access key: ')
  }
  if (io.stdin.isTTY) throw usage('the secret key is read from stdin, which is a terminal', HOW)
  return (await io.stdin.read(CLIENT.stdinBytes)).replace(/\r?\n$/, '')
}

interface StorageOptions {
  endpoint: string
  bucket: string
  region: string | undefined
  prefix: string | undefined
  accessKeyId: string
  fromStdin: boolean
}

function parseStorage({ flags }: Invocation): StorageOptions {
  const need = (key: string, flag: string): string => {
    const text = flagText(flags, key)
    if (!text) throw usage(`${flag} is missing`)
    return text
  }
  return {
    endpoint: need('endpoint', '--endpoint'),
    bucket: need('bucket', '--bucket'),
    region: flagText(flags, 'region'),
    prefix: flagText(flags, 'prefix'),
    accessKeyId: need('accessKeyId', '--access-key-id'),
    fromStdin: flagOn(flags, 'secretStdin'),
  }
}

async function performSet(options: StorageOptions, context: Context): Promise<ExitCode> {
  const { screen } = context
  const secret = await readSecret(options.fromStdin, context)
  if (secret === '') throw usage('the secret key is empty', HOW)
  const api = await context.connect()
  const { path, name } = await storagePath(api)
  const { endpoint, bucket, region, prefix, accessKeyId } = options
  const { value, raw } = await api.change('PUT', path, BackupStorage, {
    body: {
      endpoint,
      bucket,
      ...(region === undefined ? {} : { region }),
      ...(prefix === undefined ? {} : { prefix }),
      access_key_id: accessKeyId,
      secret_access_key: secret,
    },
    idempotencyKey: randomUUID(),
    expect: 200,
  })
  const mark = screen.err.paint('green', '✓')
  await screen.note(`${mark} ${cleanText(`${name} keeps backups at ${backupLocation(value)}`)}`)
  if (screen.json) await screen.printJson(raw)
  else if (!screen.human) await screen.print(cleanText(backupLocation(value)))
  return EXIT.done
}

export const backupSetStorage = compose(parseStorage, performSet)

async function performRemove(_: unknown, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const { path, name } = await storagePath(api)
  await confirmYes(
    context,
    `Remove the storage of ${name} for backups, and the key of its backups?`,
  )
  await removeAt(api, path)
  await screen.note(`${screen.err.paint('green', '✓')} Removed the storage of ${cleanText(name)}`)
  if (screen.json) await screen.printJson({ removed: name })
  else if (!screen.human) await screen.print(cleanText(name))
  return EXIT.done
}

export const backupRemoveStorage = compose(() => undefined, performRemove)
