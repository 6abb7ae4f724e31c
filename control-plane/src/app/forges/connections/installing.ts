// Puts the deploy key and the webhook of a project into its repository, and looks whether they are there. Berth finds
// its own and changes it, so that repeating makes no second one. What the forge refuses becomes a check with the missing
// permission; nothing here opens a transaction around a request.
import type { Context } from '../../../context.ts'
import {
  type ForgeCheck,
  failed,
  findOwnKeys,
  findOwnWebhooks,
  judgeDeliveries,
  judgeKeys,
  judgeWebhooks,
  passed,
  unknown,
} from '../../../domain/forges/setup.ts'
import {
  type ForgeClient,
  ForgeError,
  type ForgeRepository,
} from '../../../forges/clients/forge.ts'
import { explainRefusal, type ForgeStep } from '../../../forges/clients/setup/permissions.ts'
import { fingerprintOf } from '../../../keys/deploy-key.ts'
import { FORGE_CONNECTIONS } from '../../../limits/forges.ts'
import type { ForgeSetup } from '../../../store/forges/connections.ts'
import { listRefused } from '../../../store/forges/webhook-deliveries.ts'
import { findProject, type Project } from '../../../store/projects/projects.ts'
import { change, deliveryTopic } from '../../core/transaction.ts'
import { flushRefused } from '../rejected-deliveries.ts'
import { giveWebhookSecret, readWebhookSecrets } from '../webhook-secrets.ts'

const webhookUrl = (ctx: Context, projectId: number): string =>
  `${ctx.baseUrl}/webhooks/${projectId}`

export interface Looked {
  checks: ForgeCheck[]
  keyId: string | null
  webhookId: string | null
  repository: ForgeRepository | undefined
  /** True if the forge gave no usable answer, so that nothing is known. */
  isAway: boolean
  /** What the forge said about the token; null if it works, undefined if that is not known. */
  tokenError: string | null | undefined
}

/** What Berth made earlier, and in which repository. */
type Made = Pick<ForgeSetup, 'repository' | 'keyId' | 'webhookId'>

const isOutage = (error: ForgeError): boolean => error.trouble === 'unavailable'

/** Runs one step; a refusal is the result. An outage ends the whole look. */
async function step<T>(
  client: ForgeClient,
  name: ForgeStep & ForgeCheck['name'],
  work: () => Promise<T>,
): Promise<{ ok: T } | { check: ForgeCheck }> {
  try {
    return { ok: await work() }
  } catch (error) {
    if (!(error instanceof ForgeError) || isOutage(error)) throw error
    const { message, permission } = explainRefusal(error, client.provider, name)
    return { check: failed(name, message, permission) }
  }
}

async function openRepository(client: ForgeClient): Promise<Looked> {
  const nothing = { keyId: null, webhookId: null, isAway: false }
  try {
    const repository = await client.findRepository()
    const checks = [
      passed('token', 'The forge accepts the token.'),
      passed('repository', `The token opens ${repository.fullName}.`),
    ]
    return { ...nothing, checks, repository, tokenError: null }
  } catch (error) {
    if (!(error instanceof ForgeError)) throw error
    const common = { ...nothing, repository: undefined }
    if (isOutage(error)) {
      const checks = [unknown('token', error.message)]
      return { ...common, checks, isAway: true, tokenError: undefined }
    }
    if (error.trouble === 'not_found') {
      const { message } = error
      const checks = [passed('token', 'The forge answers.'), failed('repository', message)]
      return { ...common, checks, tokenError: null }
    }
    const { message, permission } = explainRefusal(error, client.provider, 'repository')
    return { ...common, checks: [failed('token', message, permission)], tokenError: error.message }
  }
}

async function whileReachable(looked: Looked, work: () => Promise<Looked>): Promise<Looked> {
  if (!looked.repository) return looked
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof ForgeError)) throw error
    return { ...looked, checks: [unknown('token', error.message)], isAway: true }
  }
}

/** Looks and changes nothing. */
export async function inspectSetup(
  ctx: Context,
  project: Project,
  client: ForgeClient,
): Promise<Looked> {
  const looked = await openRepository(client)
  return whileReachable(looked, async () => {
    const url = webhookUrl(ctx, project.id)
    const keys = await step(client, 'deploy_key', () => client.listKeys())
    const hooks = await step(client, 'webhook', () => client.listWebhooks())
    const own = 'ok' in hooks ? findOwnWebhooks(hooks.ok, url)[0] : undefined
    return {
      ...looked,
      keyId: 'ok' in keys ? (findOwnKeys(keys.ok, project.deployKeyPublic)[0]?.id ?? null) : null,
      webhookId: own?.id ?? null,
      checks: [
        ...looked.checks,
        'ok' in keys ? judgeKeys(keys.ok, project.deployKeyPublic) : keys.check,
        'ok' in hooks ? judgeWebhooks(hooks.ok, url) : hooks.check,
        await judgeArrivals(ctx, project, own?.failure ?? null),
      ],
    }
  })
}

async function judgeArrivals(
  ctx: Context,
  project: Project,
  failure: string | null,
): Promise<ForgeCheck> {
  const refused = await findNewestRefusal(ctx, project.id)
  return judgeDeliveries({
    failure,
    lastDeliveryAt: project.lastDeliveryAt,
    lastRefusedAt: refused?.at ?? null,
    url: webhookUrl(ctx, project.id),
  })
}

/** Adds or changes what is missing. With `test`, asks for a delivery and waits until it arrived. */
export async function installSetup(
  ctx: Context,
  project: Project,
  client: ForgeClient,
  { made: stored, test }: { made: Made; test: boolean },
): Promise<Looked> {
  const looked = await openRepository(client)
  return whileReachable(looked, async () => {
    const startedAt = ctx.clock.now()
    const isSame = stored.repository === looked.repository?.fullName
    const made = isSame ? stored : { ...stored, keyId: null, webhookId: null }
    const key = await step(client, 'deploy_key', () => putKey(client, project))
    const secret = await currentSecret(ctx, project)
    const url = webhookUrl(ctx, project.id)
    const hook = await step(client, 'webhook', () => putHook(client, { url, secret, made }))
    const checks: ForgeCheck[] = [
      ...looked.checks,
      'ok' in key
        ? passed('deploy_key', 'The deploy key is in the repository and may only read.')
        : key.check,
      'ok' in hook ? passed('webhook', 'The webhook sends pushes and pull requests.') : hook.check,
    ]
    if ('ok' in hook) {
      const isEmpty = looked.repository?.isEmpty ?? false
      checks.push(
        test && !isEmpty
          ? await testDelivery(ctx, project, client, { hookId: hook.ok, startedAt })
          : judgeDeliveries({ ...NOTHING, lastDeliveryAt: project.lastDeliveryAt, url }),
      )
    }
    const keyId = 'ok' in key ? key.ok : made.keyId
    return { ...looked, checks, keyId, webhookId: 'ok' in hook ? hook.ok : made.webhookId }
  })
}

const NOTHING = { failure: null, lastRefusedAt: null }

/** The title differs for each key: Gitea refuses a second key of the same title, and the former one goes later. */
const keyOf = ({ name, deployKeyPublic }: Project) => ({
  title: `Berth (${name}) ${fingerprintOf(deployKeyPublic).slice(0, 'SHA256:'.length + 8)}`,
  line: deployKeyPublic,
})

/** Replaces a key that may write, and removes the key that was replaced here. */
async function putKey(client: ForgeClient, project: Project): Promise<string> {
  const keys = await client.listKeys()
  const own = findOwnKeys(keys, project.deployKeyPublic)
  const good = own.find((key) => key.readOnly)
  for (const key of own) if (key !== good) await client.removeKey(key.id)
  const id = good?.id ?? (await client.addKey(keyOf(project)))
  if (project.previousDeployKeyPublic !== null) {
    for (const key of findOwnKeys(keys, project.previousDeployKeyPublic)) {
      await client.removeKey(key.id)
    }
  }
  return id
}

interface WantedHook {
  url: string
  secret: string
  made: Made
}

/** One made under a former address of this control plane is known by its number. */
async function putHook(client: ForgeClient, { url, secret, made }: WantedHook): Promise<string> {
  const hooks = await client.listWebhooks()
  const own = findOwnWebhooks(hooks, url)
  const [first] = own.length > 0 ? own : hooks.filter((hook) => hook.id === made.webhookId)
  const id = await client.putWebhook({ id: first?.id ?? null, url, secret })
  for (const extra of own.slice(1)) await client.removeWebhook(extra.id)
  return id
}

/** A project from before each had its own secret gets one now; the former one is accepted until this one is used. */
async function currentSecret(ctx: Context, project: Project): Promise<string> {
  const { current } = await readWebhookSecrets(ctx, project)
  if (current !== undefined) return current
  return change(ctx, (c) => giveWebhookSecret(ctx, c, project))
}

interface AskedTest {
  hookId: string
  /** Deliveries since then count: some forges send one as soon as a webhook is made. */
  startedAt: number
}

async function testDelivery(
  ctx: Context,
  project: Project,
  client: ForgeClient,
  { hookId, startedAt }: AskedTest,
): Promise<ForgeCheck> {
  const url = webhookUrl(ctx, project.id)
  try {
    if (!(await client.testWebhook(hookId))) {
      const { lastDeliveryAt } = project
      return judgeDeliveries({ ...NOTHING, lastDeliveryAt, url })
    }
  } catch (error) {
    if (!(error instanceof ForgeError)) throw error
    return unknown('delivery', `No test delivery could be asked for: ${error.message}`)
  }
  const arrival = await waitForDelivery(ctx, project.id, startedAt)
  if (arrival === 'arrived') return passed('delivery', 'A test delivery arrived.')
  if (arrival !== undefined)
    return failed('delivery', `A test delivery was refused. ${arrival.why}`)
  const seconds = FORGE_CONNECTIONS.deliveryMs / 1_000
  const message = `The forge was asked for a test delivery, and none arrived in ${seconds} s. It must be able to reach ${url}.`
  const isGitea = client.provider === 'gitea' || client.provider === 'forgejo'
  const hint =
    ' To a private address it sends only if its setting webhook.ALLOWED_HOST_LIST allows it.'
  return failed('delivery', isGitea ? message + hint : message)
}

/** Undefined if nothing came in time. */
async function waitForDelivery(
  ctx: Context,
  projectId: number,
  since: number,
): Promise<'arrived' | { why: string } | undefined> {
  const signal = AbortSignal.timeout(FORGE_CONNECTIONS.deliveryMs)
  for (;;) {
    const woken = ctx.notifier.wait(deliveryTopic(projectId), signal, FORGE_CONNECTIONS.lookMs)
    const project = await findProject(ctx.db, projectId)
    if ((project?.lastDeliveryAt ?? 0) >= since) return 'arrived'
    const refused = await findNewestRefusal(ctx, projectId)
    if (refused && refused.at >= since) return { why: refused.reason }
    if (signal.aborted) return undefined
    await woken
  }
}

/** Also those that wait in memory to be written. */
async function findNewestRefusal(ctx: Context, projectId: number) {
  await flushRefused(ctx)
  const [refused] = await listRefused(ctx.db, projectId, 1)
  return refused
}

export interface Removed {
  removed: ('deploy_key' | 'webhook')[]
  left: { what: 'deploy_key' | 'webhook'; message: string }[]
}

/** Takes away what Berth made, as far as the token allows. */
export async function removeSetup(
  client: ForgeClient,
  made: { keyId: string | null; webhookId: string | null },
): Promise<Removed> {
  const result: Removed = { removed: [], left: [] }
  const take = async (what: 'deploy_key' | 'webhook', work: () => Promise<void>): Promise<void> => {
    try {
      await work()
      result.removed.push(what)
    } catch (error) {
      if (!(error instanceof ForgeError)) throw error
      const { message } = explainRefusal(error, client.provider, what)
      result.left.push({ what, message })
    }
  }
  const { keyId, webhookId } = made
  if (webhookId !== null) await take('webhook', () => client.removeWebhook(webhookId))
  if (keyId !== null) await take('deploy_key', () => client.removeKey(keyId))
  return result
}
