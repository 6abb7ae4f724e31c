// Judges what a forge has of Berth: the deploy key, the webhook, and whether its deliveries arrive. PURE. Berth knows its
// own by content (the key, the webhook's address), never by a stored number, so one made by hand counts too.

const FORGE_CHECKS = ['token', 'repository', 'deploy_key', 'webhook', 'delivery'] as const

export interface ForgeCheck {
  name: (typeof FORGE_CHECKS)[number]
  status: 'ok' | 'failed' | 'unknown'
  message: string
  /** The permission that the token lacks, in the forge's words. */
  permission: string | null
}

interface Key {
  id: string
  line: string
  readOnly: boolean
}

interface Webhook {
  id: string
  url: string
  active: boolean
  sendsEvents: boolean
  failure: string | null
}

export const passed = (name: ForgeCheck['name'], message: string): ForgeCheck => ({
  name,
  status: 'ok',
  message,
  permission: null,
})
export const failed = (
  name: ForgeCheck['name'],
  message: string,
  permission: string | null = null,
): ForgeCheck => ({ name, status: 'failed', message, permission })
export const unknown = (name: ForgeCheck['name'], message: string): ForgeCheck => ({
  name,
  status: 'unknown',
  message,
  permission: null,
})

/** Type and key, without the comment: `ssh-ed25519 AAAA…`. */
const keyOf = (line: string): string => line.trim().split(/\s+/).slice(0, 2).join(' ')

export const findOwnKeys = <K extends Key>(keys: readonly K[], line: string): K[] =>
  keys.filter((key) => keyOf(key.line) === keyOf(line))

/** Slashes at the end and the case of the hostname make no difference. */
const addressOf = (url: string): string => {
  try {
    return new URL(url).href.replace(/\/+$/, '')
  } catch {
    return url
  }
}

export const findOwnWebhooks = <W extends Webhook>(hooks: readonly W[], url: string): W[] =>
  hooks.filter((hook) => addressOf(hook.url) === addressOf(url))

export function judgeKeys(keys: readonly Key[], line: string): ForgeCheck {
  const own = findOwnKeys(keys, line)
  if (own.length === 0) {
    return failed('deploy_key', 'The deploy key is not in the repository. Connect again to add it.')
  }
  return own.some((key) => !key.readOnly)
    ? failed('deploy_key', 'The deploy key may write. Connect again to replace it.')
    : passed('deploy_key', 'The deploy key is in the repository and may only read.')
}

export function judgeWebhooks(hooks: readonly Webhook[], url: string): ForgeCheck {
  const [hook] = findOwnWebhooks(hooks, url)
  if (!hook) {
    return failed('webhook', 'The webhook is not in the repository. Connect again to add it.')
  }
  if (!hook.active) {
    return failed('webhook', 'The webhook is switched off. Connect again to switch it on.')
  }
  if (!hook.sendsEvents) {
    const message = 'The webhook does not send pushes and pull requests. Connect again to fix it.'
    return failed('webhook', message)
  }
  return passed('webhook', 'The webhook sends pushes and pull requests.')
}

interface Deliveries {
  /** What the forge says about them; null if nothing bad. */
  failure: string | null
  lastDeliveryAt: number | null
  lastRefusedAt: number | null
  /** Where the forge sends them. */
  url: string
}

export function judgeDeliveries(d: Deliveries): ForgeCheck {
  const isRefused = (d.lastRefusedAt ?? 0) > (d.lastDeliveryAt ?? 0)
  if (isRefused) {
    const message =
      'The last delivery was refused, because the forge signed it with another secret. Connect again to store the secret there.'
    return failed('delivery', message)
  }
  if (d.failure !== null) {
    return failed('delivery', `${d.failure} The forge must be able to reach ${d.url}.`)
  }
  if (d.lastDeliveryAt === null) {
    return unknown('delivery', 'No delivery arrived yet. The next push or pull request sends one.')
  }
  return passed('delivery', 'Deliveries arrive.')
}

export const isBroken = (checks: readonly ForgeCheck[]): boolean =>
  checks.some((check) => check.status === 'failed')

/** The first thing that broke, for one line. */
export const firstFailure = (checks: readonly ForgeCheck[]): string =>
  checks.find((check) => check.status === 'failed')?.message ?? ''
