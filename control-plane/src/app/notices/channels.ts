// Channels of notifications: made, changed, tested, removed by those who manage projects. The address of a receiver is
// a secret: it is written, and only its host is shown. A signing secret is shown once.
import { AppError, invalidFields, NOTIFICATIONS, USUAL_HAPPENINGS } from '@berth/shared'
import type { ChannelCreate, ChannelPatch } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { canMatch } from '../../domain/notices/rules.ts'
import { OutboundRefusal } from '../../forges/addresses.ts'
import { NOTICES } from '../../limits/notices.ts'
import { isAddress } from '../../mail/smtp-url.ts'
import { isUniqueViolation } from '../../store/engine/database.ts'
import type { Db } from '../../store/engine/db.ts'
import {
  awaitHolders,
  type Channel,
  countWaiting,
  deleteChannel,
  insertChannel,
  listChannels,
  listChannelsTo,
  listRules,
  lockChannel,
  type Rule,
  replaceRules,
  updateChannel,
} from '../../store/notices/channels.ts'
import { skipWaiting } from '../../store/notices/notices.ts'
import { listUserNames } from '../../store/people/people.ts'
import { findProject } from '../../store/projects/projects.ts'
import { loadChannel, loadProject, missing, requirePermission } from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change, emit } from '../core/transaction.ts'
import { makeSigningSecret, openSecrets, sealForChannel } from './secrets.ts'

export interface ChannelView extends Channel {
  rules: Rule[]
  waiting: number
  updatedByName: string
}

async function viewChannels(db: Db, channels: Channel[]): Promise<ChannelView[]> {
  const [first] = channels
  if (!first) return []
  const rules = await listRules(db, first.organizationId)
  const waiting = await countWaiting(
    db,
    channels.map(({ id }) => id),
  )
  const names = await listUserNames(db, [...new Set(channels.map((one) => one.updatedBy))])
  return channels.map((channel) => ({
    ...channel,
    rules: rules.filter((rule) => rule.channelId === channel.id),
    waiting: waiting.get(channel.id) ?? 0,
    updatedByName: names.get(channel.updatedBy) ?? '',
  }))
}

const viewOne = async (db: Db, channel: Channel): Promise<ChannelView> => {
  const [view] = await viewChannels(db, [channel])
  if (!view) throw missing()
  return view
}

/** With a project: those of which a rule can match it. */
export async function listChannelViews(
  ctx: Context,
  caller: Caller,
  organizationId: number,
  { projectId }: { projectId?: number | undefined } = {},
): Promise<ChannelView[]> {
  requirePermission(caller, organizationId, 'read')
  if (projectId !== undefined) {
    const project = await loadProject(ctx.db, caller, projectId, 'read')
    if (project.organizationId !== organizationId) throw missing()
  }
  const views = await viewChannels(ctx.db, await listChannels(ctx.db, organizationId))
  const isFor = ({ projectId: of, happenings }: Rule): boolean =>
    (of === null || of === projectId) && happenings.some((one) => !one.startsWith('server.'))
  return projectId === undefined ? views : views.filter(({ rules }) => rules.some(isFor))
}

export const getChannel = async (ctx: Context, caller: Caller, id: number): Promise<ChannelView> =>
  viewOne(ctx.db, await loadChannel(ctx.db, caller, id, 'read'))

const invalid = (field: string, code: string, message: string): AppError =>
  invalidFields([{ field, code, message }])

function readRecipients(ctx: Context, given: readonly string[]): string[] {
  if (ctx.config.mail.kind === 'none') {
    const message = 'This installation sends no mail. Ask its administrator to set BERTH_SMTP_URL.'
    throw invalid('recipients', 'no_mail', message)
  }
  const addresses = [...new Set(given.map((one) => one.trim().toLowerCase()))]
  const wrong = addresses.findIndex((one) => !isAddress(one))
  if (wrong < 0) return addresses
  throw invalid(`recipients.${wrong}`, 'invalid_value', 'must be a mail address')
}

/** Checks it as far as nothing has to be sent. The address itself appears in no message. */
async function readTarget(ctx: Context, given: string): Promise<URL> {
  const url = URL.canParse(given) ? new URL(given) : undefined
  const isWeb = url?.protocol === 'https:' || url?.protocol === 'http:'
  if (!url || !isWeb || url.hash !== '') {
    throw invalid('url', 'invalid_value', 'must be an address that begins with https://')
  }
  const isLocal = /^(localhost|127\.0\.0\.1|\[::1\])$/.test(url.hostname)
  if (url.protocol === 'http:' && !isLocal) {
    throw invalid('url', 'invalid_value', 'must begin with https://, because it is a secret')
  }
  try {
    await ctx.outbound.check(url.hostname)
  } catch (error) {
    const isRefused = error instanceof OutboundRefusal && error.code === 'address_not_allowed'
    if (isRefused) throw invalid('url', 'address_not_allowed', error.message)
    if (!(error instanceof OutboundRefusal)) throw error // a name that cannot be resolved now may be later
  }
  return url
}

const USUAL: Rule = {
  projectId: null,
  environmentType: null,
  happenings: [...USUAL_HAPPENINGS],
}

type RuleInput = NonNullable<ChannelCreate['rules']>[number]

async function readRules(
  db: Db,
  organizationId: number,
  given: readonly RuleInput[],
): Promise<Rule[]> {
  const rules = given.map(
    ({ project_id = null, environment_type = null, happenings }): Rule => ({
      projectId: project_id,
      environmentType: environment_type,
      happenings: [...new Set(happenings)],
    }),
  )
  for (const [i, rule] of rules.entries()) {
    if (!canMatch(rule)) {
      const message = 'names only servers, which belong to no project and no environment'
      throw invalid(`rules.${i}.happenings`, 'never_matches', message)
    }
    const project = rule.projectId === null ? undefined : await findProject(db, rule.projectId)
    if (rule.projectId !== null && project?.organizationId !== organizationId) {
      throw invalid(`rules.${i}.project_id`, 'not_found', 'must be a project of the organization')
    }
  }
  return rules
}

const nameTaken = (name: string) => (error: unknown) => {
  if (!isUniqueViolation(error)) throw error
  throw new AppError('name_taken', `There is already a channel with the name ${name}.`)
}

/** What an audit row says of a channel: never its address in full. */
const describeRules = (rules: readonly Rule[]) =>
  rules.map(({ projectId, environmentType, happenings }) => ({
    project_id: projectId,
    environment_type: environmentType,
    happenings,
  }))

const emitChannel = (c: Change, { id, organizationId }: Pick<Channel, 'id' | 'organizationId'>) =>
  emit(c, { organizationId }, 'organization.updated', { channel_id: id })

export async function createChannel(
  ctx: Context,
  caller: Caller,
  organizationId: number,
  asked: ChannelCreate,
): Promise<{ view: ChannelView; secret: string | null }> {
  requirePermission(caller, organizationId, 'project:write')
  const { name, kind } = asked
  const isMail = kind === 'email'
  if (isMail && asked.recipients === undefined) {
    throw invalid('recipients', 'required', 'is needed for an e-mail channel')
  }
  if (!isMail && asked.url === undefined)
    throw invalid('url', 'required', 'is needed for this kind')
  refuseOther(kind, asked)
  const recipients = isMail ? readRecipients(ctx, asked.recipients ?? []) : []
  const url = isMail ? undefined : await readTarget(ctx, asked.url ?? '')
  const secret = kind === 'webhook' ? makeSigningSecret() : null
  const view = await change(ctx, async (c) => {
    const rules = asked.rules ? await readRules(c.db, organizationId, asked.rules) : [USUAL]
    if ((await listChannels(c.db, organizationId)).length >= NOTIFICATIONS.channels) {
      const message = `At most ${NOTIFICATIONS.channels} channels are possible. Remove one first.`
      throw invalid('name', 'too_many', message)
    }
    const id = await insertChannel(c.db, {
      organizationId,
      name,
      kind,
      target: url?.host ?? null,
      recipients: JSON.stringify(recipients),
      createdAt: c.now,
      updatedAt: c.now,
      updatedBy: caller.userId,
    })
    const channel = { id, organizationId }
    await updateChannel(c.db, id, {
      urlSealed: url ? sealForChannel(ctx, channel, 'url', url.href) : null,
      secretSealed: secret ? sealForChannel(ctx, channel, 'secret', secret) : null,
    })
    await replaceRules(c.db, channel, rules)
    await auditCaller(c, caller, organizationId, 'channel.create', ['channel', id, name], {
      kind,
      target: url?.host ?? null,
      recipients,
      rules: describeRules(rules),
    })
    emitChannel(c, channel)
    const made = await lockChannel(c.db, id)
    if (!made) throw missing()
    return viewOne(c.db, made)
  }).catch(nameTaken(name))
  return { view, secret }
}

function refuseOther(kind: Channel['kind'], asked: ChannelPatch): void {
  if (kind === 'email' && asked.url !== undefined) {
    throw invalid('url', 'unexpected', 'is not possible for an e-mail channel')
  }
  if (kind !== 'email' && asked.recipients !== undefined) {
    throw invalid('recipients', 'unexpected', 'is only possible for an e-mail channel')
  }
}

export async function patchChannel(
  ctx: Context,
  caller: Caller,
  id: number,
  asked: ChannelPatch,
): Promise<ChannelView> {
  const before = await loadChannel(ctx.db, caller, id, 'project:write')
  refuseOther(before.kind, asked)
  const recipients = asked.recipients && readRecipients(ctx, asked.recipients)
  const url = asked.url === undefined ? undefined : await readTarget(ctx, asked.url)
  return change(ctx, async (c) => {
    const channel = await lockChannel(c.db, id)
    if (!channel) throw missing()
    const { organizationId } = channel
    const rules = asked.rules && (await readRules(c.db, organizationId, asked.rules))
    if (rules) await replaceRules(c.db, channel, rules)
    await updateChannel(c.db, id, {
      ...(asked.name === undefined ? {} : { name: asked.name }),
      ...(recipients ? { recipients: JSON.stringify(recipients), ...WORKING } : {}),
      ...(url
        ? { target: url.host, urlSealed: sealForChannel(ctx, channel, 'url', url.href), ...WORKING }
        : {}),
      updatedAt: c.now,
      updatedBy: caller.userId,
    })
    const gone = channel.recipients.filter((one) => recipients && !recipients.includes(one))
    await forgetRecipients(c, channel, gone)
    const subject: [string, number, string] = ['channel', id, asked.name ?? channel.name]
    await auditCaller(c, caller, organizationId, 'channel.change', subject, {
      changed: Object.keys(asked),
      ...(url ? { target: url.host } : {}),
      ...(recipients ? { recipients } : {}),
      ...(rules ? { rules: describeRules(rules) } : {}),
    })
    emitChannel(c, channel)
    const changed = await lockChannel(c.db, id)
    if (!changed) throw missing()
    return viewOne(c.db, changed)
  }).catch(nameTaken(asked.name ?? ''))
}

/** A new receiver starts without the failures of the former one. */
const WORKING = { failingSince: null, refused: 0, brokenAt: null, error: null }

async function forgetRecipients(c: Change, { id }: Channel, addresses: string[]): Promise<void> {
  const error = 'The address was removed from the channel.'
  for (const recipient of addresses) {
    await skipWaiting(c.db, { channelId: id, recipient }, { now: c.now, error })
  }
}

/** A former member gets no more notifications; a channel without addresses sends nothing. */
export async function forgetMember(
  c: Change,
  organizationId: number,
  email: string,
): Promise<string[]> {
  const address = email.toLowerCase()
  const channels = await listChannelsTo(c.db, organizationId, address)
  for (const channel of channels) {
    const left = channel.recipients.filter((one) => one !== address)
    await updateChannel(c.db, channel.id, { recipients: JSON.stringify(left) })
    await forgetRecipients(c, channel, [address])
  }
  return channels.map(({ name }) => name)
}

export async function removeChannel(ctx: Context, caller: Caller, id: number): Promise<void> {
  await loadChannel(ctx.db, caller, id, 'project:write')
  await change(ctx, async (c) => {
    const channel = await lockChannel(c.db, id)
    if (!channel) throw missing()
    const { organizationId, name, kind } = channel
    if (ctx.engine === 'postgres') await awaitHolders(c.db, id)
    await deleteChannel(c.db, id)
    const subject: [string, number, string] = ['channel', id, name]
    await auditCaller(c, caller, organizationId, 'channel.remove', subject, { kind })
    emitChannel(c, channel)
  })
}

/** The former secret signs too for a day, so that a receiver can change it without losing a request. */
export async function rotateSecret(
  ctx: Context,
  caller: Caller,
  id: number,
): Promise<{ view: ChannelView; secret: string }> {
  const { kind } = await loadChannel(ctx.db, caller, id, 'project:write')
  if (kind !== 'webhook') {
    throw invalid('kind', 'no_secret', 'Only webhooks are signed; this channel has no secret.')
  }
  const secret = makeSigningSecret()
  const view = await change(ctx, async (c) => {
    const channel = await lockChannel(c.db, id)
    if (!channel) throw missing()
    const [former] = await openSecrets(ctx, channel)
    await updateChannel(c.db, id, {
      secretSealed: sealForChannel(ctx, channel, 'secret', secret),
      previousSecretSealed: former ? sealForChannel(ctx, channel, 'previous', former) : null,
      previousSecretUntil: former ? c.now + NOTICES.previousSecretMs : null,
      updatedAt: c.now,
      updatedBy: caller.userId,
    })
    const subject: [string, number, string] = ['channel', id, channel.name]
    await auditCaller(c, caller, channel.organizationId, 'channel.rotate_secret', subject)
    emitChannel(c, channel)
    const changed = await lockChannel(c.db, id)
    if (!changed) throw missing()
    return viewOne(c.db, changed)
  })
  return { view, secret }
}
