// berth project webhook: the settings for the forge, its deliveries, and the secret, which is shown when it is created.
import { randomUUID } from 'node:crypto'
import { Delivery, ProjectDetail, WebhookSecret } from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import { findProject } from '../../client/resolve.ts'
import { type Context, compose, flagOn, flagText, type Invocation } from '../../context.ts'
import { EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { formatAgo, formatUntil, parseCount } from '../../terminal/format.ts'
import { renderTable } from '../../terminal/terminal.ts'
import { cleanText } from '../../terminal/text.ts'
import { confirmYes } from '../prompt.ts'

interface WebhookOptions {
  project: string | undefined
  rotate: boolean
  redeliver: number | undefined
}

function parseProjectWebhook({ args, flags, globals }: Invocation): WebhookOptions {
  const redeliver = flagText(flags, 'redeliver')
  const rotate = flagOn(flags, 'rotateSecret')
  if (rotate && redeliver !== undefined) throw usage('--rotate-secret or --redeliver, not both')
  return {
    project: args[0] ?? globals.project,
    rotate,
    redeliver:
      redeliver === undefined ? undefined : parseCount('--redeliver', redeliver, 999_999_999),
  }
}

async function rotateSecret(context: Context, api: Api, project: ProjectDetail): Promise<ExitCode> {
  const { screen, io } = context
  await confirmYes(context, `Make a new webhook secret for ${project.name}?`)
  const path = `/api/projects/${project.id}/webhook_secret`
  const { value, raw } = await api.post(path, WebhookSecret, {
    idempotencyKey: randomUUID(),
    expect: 201,
  })
  const until = value.previous_accepted_until
  const before = until === null ? '' : ` The former one ${formatUntil(until, io.now())}.`
  await screen.note(
    `${screen.err.paint('green', '✓')} A new secret, shown this once; put it in at the host.${before}`,
  )
  if (screen.json) await screen.printJson(raw)
  else await screen.print(cleanText(value.secret))
  return EXIT.done
}

async function redeliver(context: Context, api: Api, id: number): Promise<ExitCode> {
  const { screen } = context
  const { value, raw } = await api.post(`/api/deliveries/${id}/redeliver`, Delivery, {
    idempotencyKey: randomUUID(),
    expect: 202,
  })
  const mark = screen.err.paint('green', '✓')
  const text = `Delivery ${value.id}: ${value.outcome}${value.reason ? `, ${value.reason}` : ''}`
  await screen.note(`${mark} ${cleanText(text)}`)
  if (screen.json) await screen.printJson(raw)
  else if (!screen.human) await screen.print(`${value.id}\t${value.outcome}`)
  return EXIT.done
}

const SIGNED = {
  current: 'the current secret',
  previous: 'the former secret',
  legacy: 'the legacy secret',
}

async function show(context: Context, api: Api, project: ProjectDetail): Promise<ExitCode> {
  const { screen, io } = context
  const { webhook } = project
  const path = `/api/projects/${project.id}/deliveries`
  const { items, raw } = await api.list(path, Delivery, { query: { per_page: 10 }, limit: 10 })
  if (screen.json) {
    await screen.printJson({ webhook, deliveries: raw })
    return EXIT.done
  }
  const time = (at: string | null) => (screen.human && at !== null ? formatAgo(at, io.now()) : at)
  await screen.printFields(undefined, [
    ['url', webhook.url],
    ['secret', webhook.secret_source === 'project' ? "the project's own" : 'the legacy one'],
    ['rotated', time(webhook.secret_rotated_at) ?? ''],
    ['former secret', webhook.previous_accepted_until ?? ''],
    ['last delivery', time(webhook.last_delivery_at) ?? 'never'],
    ['signed with', webhook.last_delivery_secret ? SIGNED[webhook.last_delivery_secret] : ''],
  ])
  if (!screen.human || items.length === 0) return EXIT.done
  const rows = items.map((one) => [
    String(one.id),
    formatAgo(one.received_at, io.now()),
    one.event,
    one.branch ?? '-',
    one.outcome,
    one.reason ?? one.error ?? '',
  ])
  const header = ['ID', 'RECEIVED', 'EVENT', 'BRANCH', 'OUTCOME', 'REASON']
  await screen.print(`\n${renderTable(header, rows, screen.width, screen.out.paint).join('\n')}`)
  return EXIT.done
}

async function performProjectWebhook(options: WebhookOptions, context: Context): Promise<ExitCode> {
  const api = await context.connect()
  if (options.redeliver !== undefined) return redeliver(context, api, options.redeliver)
  const globals = { ...context.globals, project: options.project }
  const purpose = options.rotate ? 'change' : 'read'
  const { id } = await findProject(api, { ...context, globals }, purpose)
  const { value: project } = await api.get(`/api/projects/${id}`, ProjectDetail)
  return options.rotate ? rotateSecret(context, api, project) : show(context, api, project)
}

export const projectWebhook = compose(parseProjectWebhook, performProjectWebhook)
