// Checks the meaning of a file beyond its shape: names that must exist, addresses, defaults, impossible orders. Works
// on the tree, so that a file with other mistakes is checked too, and skips values that `check.ts` has refused.
import { domainFault, ENVIRONMENT_DOMAIN } from './domain.ts'
import { alternatives, join, type Path, type Report, type Span, shown } from './problem.ts'
import { referencesIn } from './references.ts'
import { addressOf, defaultService, sameAddress } from './routes.ts'
import { RESULT_REPLACED } from './schema.ts'
import { suggest } from './suggestion.ts'
import { NAME } from './values.ts'
import {
  childOf,
  type Entry,
  entriesIn,
  entryOf,
  itemsIn,
  type MapNode,
  type TreeNode,
  textOf,
} from './yaml/tree.ts'

interface Service {
  name: string
  keySpan: Span
  node: TreeNode
  path: Path
  isRouted: boolean
  isDefault: boolean
}

/** Keys that say where a service listens. */
const TARGETS = { docker: ['port'], manual: ['port', 'socket', 'root'] } as const
type Section = keyof typeof TARGETS

export function checkMeaning(root: TreeNode, report: Report): void {
  for (const section of ['docker', 'manual'] as const) {
    const services = servicesOf(root, section)
    checkHealth(root, services, section, report)
    checkAddresses(root, services, section, report)
  }
  checkShared(root, report)
  const docker = servicesOf(root, 'docker')
  checkVolumes(root, docker, report)
  checkArguments(docker, report)
  for (const service of docker) {
    warnDatabase(service, report)
    checkReplicas(service, report)
    checkRestart(service, report)
  }
  for (const service of servicesOf(root, 'manual')) checkRestart(service, report)
  checkDependencies(docker, report)
  for (const action of entriesIn(childOf(root, 'actions'))) {
    checkAction(action, root, docker, report)
  }
}

const servicesOf = (root: TreeNode, section: Section): Service[] =>
  entriesIn(childOf(childOf(root, section), 'services')).map(({ key, keySpan, value }) => ({
    name: key,
    keySpan,
    node: value,
    path: [section, 'services', key],
    // A misspelt 'port' was already reported; its absence would only repeat that.
    isRouted:
      !isFalse(childOf(value, 'public')) &&
      (isProcfileWeb(root, section, key) ||
        entriesIn(value).some((entry) => suggest(entry.key, TARGETS[section]))),
    isDefault: isTrue(childOf(value, 'default')),
  }))

/** The Procfile has its command, and gives `web` a port. */
const isProcfileWeb = (root: TreeNode, section: Section, key: string): boolean =>
  section === 'manual' &&
  key === 'web' &&
  entryOf(childOf(root, 'manual'), 'procfile') !== undefined

const isFalse = (node: TreeNode | undefined): boolean =>
  node?.kind === 'scalar' && node.value === false

const isTrue = (node: TreeNode | undefined): boolean =>
  node?.kind === 'scalar' && node.value === true

function checkHealth(root: TreeNode, services: Service[], section: Section, report: Report): void {
  const ports = section === 'docker' ? ['port'] : ['port', 'socket']
  for (const { name, node, path } of services) {
    const health = entryOf(node, 'health')
    if (!health || isFalse(health.value) || isProcfileWeb(root, section, name)) continue
    if (entriesIn(health.value).some(({ key }) => suggest(key, ['command', 'port']))) continue
    if (entriesIn(node).some(({ key }) => suggest(key, ports))) continue
    const missing = ports.map((key) => `'${key}'`).join(' or ')
    const message = `${join(path)} has 'health' but no ${missing} to ask; add it or remove 'health'`
    report.error(health.keySpan, [...path, 'health'], 'health_without_port', message)
  }
}

function checkAddresses(
  root: TreeNode,
  services: Service[],
  section: Section,
  report: Report,
): void {
  for (const service of services) {
    const isNothing = section === 'manual' && !entryOf(service.node, 'run') // reported as a whole
    if (!service.isRouted && !isNothing) checkUnrouted(service, section, report)
  }
  const defaults = services.filter(({ isDefault }) => isDefault)
  for (const { node, path } of defaults.slice(1)) {
    const entry = entryOf(node, 'default') as Entry
    const first = join(defaults[0]?.path ?? [])
    const message = `${join(path)} and ${first} are both 'default: true'; keep one`
    report.error(entry.value.span, [...path, 'default'], 'several_defaults', message)
  }
  const routed = services.filter(({ isRouted }) => isRouted)
  if (routed.length === 0) return
  const chosen = defaultService(services)
  if (defaults.length < 2) checkDuplicates(routed, chosen, report)
  const servicesKey = entryOf(childOf(root, section), 'services')
  if (servicesKey) warnWithoutDefault(servicesKey.keySpan, routed, chosen, section, report)
}

/** Reports an address with nothing behind it. */
function checkUnrouted({ node, path }: Service, section: Section, report: Report): void {
  for (const key of ['domain', 'path', 'default']) {
    const entry = entryOf(node, key)
    if (!entry || (key === 'default' && !isTrue(entry.value))) continue
    if (isFalse(childOf(node, 'public'))) {
      const message = `${join(path)} has '${key}' but 'public: false'; remove one of them`
      report.error(entry.keySpan, [...path, key], 'conflicting_keys', message)
      continue
    }
    const wanted = TARGETS[section].map((target) => `'${target}'`).join(', ')
    const message =
      `${join(path)} has '${key}' but nothing to route to; add ` +
      `${wanted.replace(/, ([^,]*)$/, ' or $1')}`
    report.error(entry.keySpan, [...path, key], 'missing_key', message)
  }
}

function checkDuplicates(routed: Service[], chosen: string | null, report: Report): void {
  const taken = new Map<string, Service>()
  for (const service of routed) {
    const domain = entryOf(service.node, 'domain')
    const path = entryOf(service.node, 'path')
    const written = textOf(domain?.value)
    const prefix = textOf(path?.value)
    if (domain && (written === undefined || domainFault(written))) continue
    if (path && !prefix?.startsWith('/')) continue
    const address = addressOf(
      { name: service.name, domain: written ?? null, path: prefix ?? null },
      service.name === chosen,
    )
    const key = `${address.domain}${address.path}`
    const other = taken.get(key)
    if (other) {
      const where = `${shown(address.domain)}${shown(address.path)}`
      const message = sameAddress(join(service.path), join(other.path), where)
      const span = (domain ?? path)?.value.span ?? service.keySpan
      report.error(span, service.path, 'duplicate_route', message)
    } else taken.set(key, service)
  }
}

function warnWithoutDefault(
  span: Span,
  routed: Service[],
  chosen: string | null,
  section: Section,
  report: Report,
): void {
  const path = [section, 'services']
  const answers = "the environment's own domain answers 404"
  if (chosen === null) {
    const message =
      `no service of ${section} is the default one, so ${answers}; name one 'web' or give one ` +
      "'default: true'"
    report.warn(span, path, 'no_default_service', message)
    return
  }
  const isServed = routed.some(({ node, name }) => {
    const domain = entryOf(node, 'domain')
    const written = textOf(domain?.value)
    if (domain && (written === undefined || domainFault(written))) return true // already refused
    const isDefault = name === chosen
    const prefix = textOf(childOf(node, 'path')) ?? null
    return (
      addressOf({ name, domain: written ?? null, path: prefix }, isDefault).domain ===
      ENVIRONMENT_DOMAIN
    )
  })
  if (isServed) return
  const message =
    `${section}.services.${shown(chosen)} is the default service but has its own 'domain', so ` +
    `${answers}`
  report.warn(span, path, 'no_default_service', message)
}

/** BuildKit reserves these: which program reads the Dockerfile, whose caches it may see. */
const ENGINE_ARGUMENTS = ['BUILDKIT_SYNTAX', 'BUILDKIT_CACHE_MOUNT_NS']

function checkArguments(services: Service[], report: Report): void {
  for (const { node, path } of services) {
    for (const { key, keySpan, value } of entriesIn(childOf(childOf(node, 'build'), 'args'))) {
      const where = [...path, 'build', 'args', key]
      if (ENGINE_ARGUMENTS.includes(key)) {
        const message = `${join(where)} is set by Berth and cannot be given here; remove it`
        report.error(keySpan, where, 'reserved_key', message)
      }
      checkReferences(value, where, services, report)
    }
  }
}

function checkReferences(node: TreeNode, path: Path, services: Service[], report: Report): void {
  for (const { written, reference } of referencesIn(textOf(node) ?? '')) {
    const holds = `${join(path)} holds '${shown(written)}'`
    if (!reference) {
      const known = `a system variable, \${service.<name>.url} or a custom variable`
      const message = `${holds}, which is not ${known}; a literal '\${' is written '$\${'`
      report.error(node.span, path, 'invalid_value', message)
    } else if (reference.kind === 'address') {
      const named = services.find(({ name }) => name === reference.service)
      if (named?.isRouted) continue
      const routed = listed(services.filter(({ isRouted }) => isRouted).map(({ name }) => name))
      const why = named ? 'which has no address' : 'which is not a service'
      const message = `${holds}, ${why} (services with an address: ${routed || 'none'})`
      report.error(node.span, path, 'unknown_service', message)
    } else if (reference.kind === 'custom') {
      const message =
        `${join(path)} puts the value of ${reference.key} into the image, whose history shows it; ` +
        "name a secret in 'build.secrets' instead"
      report.warn(node.span, path, 'argument_in_image', message)
    }
  }
}

/** Images whose protocol no browser speaks, so that an address only exposes them. */
const DATABASES = new Set(
  (
    'cassandra clickhouse-server cockroach elasticsearch etcd keydb mariadb memcached mongo mssql mysql ' +
    'nats neo4j opensearch percona pgvector postgis postgres postgresql rabbitmq redis scylla timescaledb valkey'
  ).split(' '),
)

/** `docker.io/bitnami/postgresql:16@sha256:…` is `postgresql`. */
const imageName = (reference: string): string =>
  (reference.split('@')[0]?.split('/').at(-1) ?? '').replace(/:.*$/, '')

export const isDatabaseImage = (reference: string): boolean => DATABASES.has(imageName(reference))

function warnDatabase({ node, path, isRouted }: Service, report: Report): void {
  const image = textOf(childOf(node, 'image'))
  const port = entryOf(node, 'port')
  if (!isRouted || !port || image === undefined || !isDatabaseImage(image)) return
  const message =
    `${join(path)} is a database with an address, so everyone can reach it; add 'public: false', ` +
    'and other services still reach it by its name'
  report.warn(port.keySpan, [...path, 'port'], 'database_address', message)
}

/** Containers of a service without an address replace each other, because they may not share files; nor may replicas. */
function checkReplicas({ node, path, isRouted }: Service, report: Report): void {
  const replicas = entryOf(node, 'replicas')
  const count = replicas?.value.kind === 'scalar' ? Number(replicas.value.value) : 1
  const written = itemsIn(childOf(node, 'volumes'))
    .map((item) => textOf(item)?.split(':') ?? [])
    .find(([name, , mode]) => name !== undefined && mode !== 'ro')
  if (!replicas || !(count > 1) || !written) return
  const where = [...path, 'replicas']
  const volume = shown(written[0] ?? '')
  if (isRouted) {
    const message =
      `${join(path)} has ${count} replicas that all write to volume ${volume}; its program must ` +
      'share files with its other processes'
    report.warn(replicas.keySpan, where, 'shared_volume', message)
    return
  }
  const message =
    `${join(where)} must be 1, because the service writes to volume ${volume}; remove 'replicas', ` +
    `or mount it with ':ro'`
  report.error(replicas.keySpan, where, 'invalid_value', message)
}

/** Nothing finds out that an unchecked service is unhealthy. */
function checkRestart({ node, path }: Service, report: Report): void {
  const restart = entryOf(node, 'restart')
  if (!restart || !isFalse(childOf(node, 'health'))) return
  const message = `${join(path)} has 'restart', but 'health: false' turns its check off; remove one`
  report.error(restart.keySpan, [...path, 'restart'], 'conflicting_keys', message)
}

function checkVolumes(root: TreeNode, services: Service[], report: Report): void {
  const declared = itemsIn(childOf(childOf(root, 'docker'), 'volumes')).map(textOf)
  for (const { node, path } of services) {
    const places = new Set<string>()
    for (const item of itemsIn(childOf(node, 'tmpfs'))) {
      places.add((textOf(item) ?? '').replace(/:.*$/, '').replace(/\/$/, ''))
    }
    for (const [index, item] of itemsIn(childOf(node, 'volumes')).entries()) {
      const [name, place = ''] = textOf(item)?.split(':') ?? []
      const folder = place.replace(/\/$/, '')
      if (folder !== '' && places.has(folder)) {
        const message = `${join(path)} mounts twice at ${shown(folder)}; remove one`
        report.error(item.span, [...path, 'volumes', index], 'invalid_value', message)
      }
      places.add(folder)
      if (name === undefined || !NAME.test(name) || declared.includes(name)) continue
      const known = declared.length > 0 ? `it has: ${listed(declared)}` : 'there is none'
      const uses = `${join(path)} uses volume '${name}'`
      const message = `${uses}, which is not in docker.volumes (${known})`
      report.error(item.span, [...path, 'volumes', index], 'unknown_volume', message)
    }
  }
}

const PROCESS_KEYS = [
  'dir',
  'env',
  'variables',
  'memory',
  'cpus',
  'stop_timeout',
  'restart',
  'drain',
]
const SHAPES = [...TARGETS.manual, 'run']

/** `kept` have their command in the Procfile. */
export function checkProcesses(
  root: TreeNode,
  report: Report,
  kept: { names: ReadonlySet<string>; procfile: string | undefined },
): void {
  for (const { name, keySpan, node, path } of servicesOf(root, 'manual')) {
    if (node.kind !== 'map' || kept.names.has(name)) continue
    const has = (keys: readonly string[]): boolean =>
      entriesIn(node).some(({ key }) => suggest(key, keys))
    if (!has(SHAPES)) {
      const line = kept.procfile ? `, or a line '${shown(name)}:' in ${shown(kept.procfile)}` : ''
      const message = `${join(path)} needs ${alternatives(SHAPES)}${line}`
      report.error(keySpan, path, 'missing_key', message)
    }
    if (has(['run'])) continue
    for (const entry of entriesIn(node).filter(({ key }) => PROCESS_KEYS.includes(key))) {
      const full = [...path, entry.key]
      const todo = `add 'run' or remove '${entry.key}'`
      const message = `${join(full)} is of use only with 'run'; ${todo}`
      report.error(entry.keySpan, full, 'missing_key', message)
    }
  }
}

/** A path inside another one would be linked into a folder that is a link itself. */
function checkShared(root: TreeNode, report: Report): void {
  const items = itemsIn(childOf(childOf(root, 'manual'), 'shared'))
  const paths = items.map((item) => textOf(item)?.replace(/\/$/, ''))
  for (const [index, item] of items.entries()) {
    const own = paths[index]
    if (own === undefined || own === '') continue
    const outer = paths.find((path, at) => at !== index && path && holds(path, own, at < index))
    if (outer === undefined) continue
    const message = `manual.shared has '${shown(outer)}', which holds '${shown(own)}'; remove '${shown(own)}'`
    report.error(item.span, ['manual', 'shared', index], 'invalid_value', message)
  }
}

const holds = (outer: string, path: string, orSame: boolean): boolean =>
  path.startsWith(`${outer}/`) || (orSame && path === outer)

const listed = (names: readonly (string | undefined)[]): string =>
  names.map((name) => shown(name ?? '')).join(', ')

function checkDependencies(services: Service[], report: Report): void {
  const byName = new Map(services.map((service) => [service.name, service]))
  const state = new Map<string, 'open' | 'done'>()
  const visit = (service: Service, chain: readonly string[]): void => {
    state.set(service.name, 'open')
    const names = [...chain, service.name]
    for (const [index, item] of itemsIn(childOf(service.node, 'depends_on')).entries()) {
      const name = textOf(item)
      if (name === undefined || !NAME.test(name)) continue
      const path = [...service.path, 'depends_on', index]
      const next = byName.get(name)
      if (!next) {
        const message =
          `${join(service.path)} depends on '${name}', which is not a service (services: ` +
          `${listed([...byName.keys()])})`
        report.error(item.span, path, 'unknown_service', message)
      } else if (state.get(name) === 'open') {
        const cycle = [...names.slice(names.indexOf(name)), name].map(shown).join(' → ')
        const message = `${join(service.path)} waits for itself: ${cycle}; remove one of these`
        report.error(item.span, path, 'dependency_cycle', message)
      } else if (!state.has(name)) visit(next, names)
    }
    state.set(service.name, 'done')
  }
  for (const service of services) if (!state.has(service.name)) visit(service, [])
}

function checkAction(action: Entry, root: TreeNode, docker: Service[], report: Report): void {
  const path: Path = ['actions', action.key]
  const result = entryOf(action.value, 'result')
  if (result && textOf(result.value) === 'file') {
    const hasPaths = entryOf(childOf(action.value, 'artifacts'), 'paths') !== undefined
    const todo = hasPaths
      ? "remove 'result' to enable it"
      : 'this action stays disabled until migrated'
    report.warn(
      result.keySpan,
      [...path, 'result'],
      'deprecated_result',
      `${RESULT_REPLACED}; ${todo}`,
    )
  }
  if (entryOf(root, 'docker')) checkActionService(action, path, docker, report)
  else if (entryOf(root, 'manual')) checkActionFolder(action.value, path, report)
}

function checkActionService(action: Entry, path: Path, docker: Service[], report: Report): void {
  if (docker.length === 0 || action.value.kind !== 'map') return
  const service = entryOf(action.value, 'service')
  const names = listed(docker.map(({ name }) => name))
  if (!service) {
    if (docker.length === 1 || defaultService(docker) !== null) return
    const why = `no docker service is the default one (services: ${names})`
    const message = `${join(path)} needs 'service': ${why}`
    report.error(action.keySpan, path, 'missing_key', message)
    return
  }
  const name = textOf(service.value)
  if (name === undefined || !NAME.test(name) || docker.some((one) => one.name === name)) return
  const why = `which is not a docker service (services: ${names})`
  const message = `${join(path)} names service '${name}', ${why}`
  report.error(service.value.span, [...path, 'service'], 'unknown_service', message)
}

/** In a container a folder may be absolute; on the server it is inside the checkout. */
function checkActionFolder(action: TreeNode, path: Path, report: Report): void {
  const dir = entryOf(action as MapNode, 'dir')
  const written = textOf(dir?.value)
  if (!dir || written === undefined || !/^\/|(^|\/)\.\.(\/|$)/.test(written)) return
  const message =
    `${join([...path, 'dir'])} must be a path inside the repository, relative, without '..', ` +
    `got '${shown(written)}'`
  report.error(dir.value.span, [...path, 'dir'], 'invalid_value', message)
}
