// The precedence of a deployment's variables. PURE. Weakest to strongest (documented in docs/reference/service-file.md): PORT of
// a fixed port < env of the section < env of service or step < custom values < PORT… of `auto` < the four system
// variables, which always exist and cannot be overridden.
import {
  addressesIn,
  expandAddresses,
  isReference,
  isReservedVariable,
  portVariable,
  SYSTEM_VARIABLES,
  VARIABLE_KEY,
} from '@berth/shared/service-file'
import type { Values } from './variable-files.ts'

interface VariableSources {
  /** `manual.env`. */
  section: Readonly<Record<string, string>>
  custom: Values
  /** Ports of services with `port: auto`, by service; the default service's port is also PORT. */
  autoPorts: ReadonlyMap<string, number>
  defaultService: string | undefined
  system: Readonly<Record<string, string>>
  /** Keys of custom values that are no secrets. */
  plain?: ReadonlySet<string>
}

export interface ResolvedVariables {
  /** What the variable files and every step contain, sorted by key. */
  values: Map<string, string>
  /** Keys that the `env` of a service or step may not override. */
  strong: Set<string>
  /** Keys of custom values. */
  customKeys: string[]
  /** Those whose values are secrets. */
  secretKeys: string[]
}

const sorted = (values: Map<string, string>): Map<string, string> =>
  new Map([...values].sort(([a], [b]) => (a < b ? -1 : 1)))

export function resolveVariables(sources: VariableSources): ResolvedVariables {
  const values = new Map<string, string>()
  const strong = new Set<string>()
  for (const [key, value] of Object.entries(sources.section)) {
    if (!isReservedVariable(key)) values.set(key, value)
  }
  const custom = [...sources.custom].filter(
    ([key]) => VARIABLE_KEY.test(key) && !isReservedVariable(key),
  )
  for (const [key, value] of custom) {
    values.set(key, value)
    strong.add(key)
  }
  for (const [service, port] of sources.autoPorts) {
    const keys = [portVariable(service), ...(service === sources.defaultService ? ['PORT'] : [])]
    for (const key of keys) {
      values.set(key, String(port))
      strong.add(key)
    }
  }
  for (const key of SYSTEM_VARIABLES) {
    values.set(key, sources.system[key] ?? '')
    strong.add(key)
  }
  const customKeys = custom.map(([key]) => key).sort()
  const secretKeys = customKeys.filter((key) => !sources.plain?.has(key))
  return { values: sorted(values), strong, customKeys, secretKeys }
}

interface Expanded {
  values: Map<string, string>
  /** Keys whose value is an address and nothing else, so it is no secret. */
  plain: Set<string>
  /** References to services without an address. */
  unknown: { key: string; service: string }[]
}

/** Replaces references to the addresses of services in custom values. */
export function expandCustom(custom: Values, addresses: Values): Expanded {
  const found: Expanded = { values: new Map(), plain: new Set(), unknown: [] }
  for (const [key, value] of custom) {
    const named = addressesIn(value)
    for (const service of named) {
      if (!addresses.has(service)) found.unknown.push({ key, service })
    }
    if (named.length > 0 && isReference(value)) found.plain.add(key)
    found.values.set(key, expandAddresses(value, addresses))
  }
  return found
}

/** What the `env` of a step or service adds: nothing that a stronger source sets, nothing reserved. */
export function weakerAdditions(
  env: Readonly<Record<string, string>>,
  strong: ReadonlySet<string>,
): Record<string, string> {
  const kept = Object.entries(env).filter(([key]) => !strong.has(key) && !isReservedVariable(key))
  return Object.fromEntries(kept)
}

interface ServicePort {
  port: number | undefined
  isAuto: boolean
}

/**
 * What the process of a service gets beyond the file: its own env, and its port as PORT. A fixed port is the weakest
 * source; an automatic one is stronger than every custom value.
 */
export function serviceAdditions(
  resolved: ResolvedVariables,
  env: Readonly<Record<string, string>>,
  at: ServicePort,
): Record<string, string> {
  const additions = weakerAdditions(env, resolved.strong)
  if (at.port === undefined) return additions
  const port = String(at.port)
  if (at.isAuto) return { ...additions, PORT: port }
  const isNamed = 'PORT' in additions || resolved.values.has('PORT')
  return isNamed ? additions : { ...additions, PORT: port }
}
