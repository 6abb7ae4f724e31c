// Converts a compose file to .service.yml. Returns the docker section, the variables that the user has to set, and what
// could not be converted, each with its reason. The result always passes `config validate`: a value that it refuses is
// left out and noted. PURE.
import { jsonSchema, readServiceFile } from '@berth/shared/service-file'
import { parseDocument, stringify } from 'yaml'
import { type Converted, convertService, type Note, type Wanted } from './service.ts'
import { isMap, type Plain, quoteWords, serviceName } from './values.ts'

export interface Conversion {
  /** Lines of .service.yml from `docker:` on. */
  lines: string[]
  services: string[]
  /** The service of the environment's own address. */
  defaultService: string | null
  variables: { key: string; services: string[]; reason: string }[]
  notes: Note[]
}

/** The compose file cannot be read at all. */
export class ComposeError extends Error {}

const ALIASES = 100 // far more than files of people have, and no bomb
const MERGE = 'docker compose config > merged.yaml writes one complete file; convert that'

function readCompose(text: string): Plain {
  const document = parseDocument(text, { merge: true, uniqueKeys: true, logLevel: 'silent' })
  const [error] = document.errors
  if (error) throw new ComposeError(error.message.split('\n')[0] ?? 'it is not YAML')
  let value: unknown
  try {
    value = document.toJS({ maxAliasCount: ALIASES })
  } catch {
    throw new ComposeError('it has too many aliases')
  }
  if (!isMap(value) || !isMap(value.services)) throw new ComposeError("it has no 'services'")
  return value
}

function knownKeys(): ReadonlySet<string> {
  const { definitions } = jsonSchema() as { definitions?: Record<string, { properties?: object }> }
  return new Set(Object.keys(definitions?.dockerService?.properties ?? {}))
}

/** `folder`: where the compose file is in the repository, '' for its root. */
export function convertCompose(text: string, folder: string): Conversion {
  const compose = readCompose(text)
  const notes: Note[] = []
  const note = (where: string, reason: string): void => {
    if (reason !== '') notes.push({ where, reason })
  }
  const known = knownKeys()
  if (compose.include !== undefined) note('include', `other files are not read; ${MERGE}`)
  for (const key of ['secrets', 'configs']) {
    if (isMap(compose[key])) note(key, 'files are not given to services; use variables')
  }
  const raws = Object.entries(compose.services as Plain)
  const names = renameAll(raws, note)
  const converted = raws.flatMap(([written, raw]) => {
    const name = names.get(written)
    if (name === undefined || !isMap(raw)) return []
    if (raw.profiles !== undefined) {
      note(written, `is left out: compose starts it only with its profile`)
      return []
    }
    if (raw.extends !== undefined) note(`${written}.extends`, `is not followed; ${MERGE}`)
    const place = {
      folder,
      known,
      note: (key: string, why: string) => note(`${written}.${key}`, why),
    }
    const service = convertService(name, raw, place)
    if (!service) note(written, 'is left out: it has neither a build nor an image that is known')
    return service ? [service] : []
  })
  if (converted.length === 0) throw new ComposeError('none of its services can be converted')
  const services = releaseOnce(converted, names, note)
  linkAll(services, names, note)
  const defaultService = chooseDefault(services)
  const variables = wantedBy(services, note)
  noteVolumes(compose.volumes, note)
  const section = settle(services, note)
  const lines = stringify({ docker: section }, { lineWidth: 0 }).trimEnd().split('\n')
  return { lines, services: services.map(({ name }) => name), defaultService, variables, notes }
}

type AddNote = (where: string, reason: string) => void

/** Names of compose → names of .service.yml. */
function renameAll(raws: [string, unknown][], note: AddNote): Map<string, string> {
  const names = new Map<string, string>()
  const taken = new Set<string>()
  for (const [written] of raws) {
    const name = serviceName(written)
    if (name === null || taken.has(name)) {
      note(written, 'is left out: no other name is possible that is not taken')
      continue
    }
    taken.add(name)
    names.set(written, name)
    if (name !== written) {
      note(written, `is named ${name}; other services must use that name in their settings`)
    }
  }
  return names
}

const sameProgram = (a: Converted, b: Converted): boolean =>
  JSON.stringify([a.keys.build, a.keys.image]) === JSON.stringify([b.keys.build, b.keys.image])

/** A service that others wait for to end becomes the release command of one that runs the same program. */
function releaseOnce(
  services: Converted[],
  names: ReadonlyMap<string, string>,
  note: AddNote,
): Converted[] {
  const gone = new Set<string>()
  for (const service of services) {
    const waiting = services.filter((one) =>
      one.dependsOn.some(
        ({ name, condition }) =>
          condition === 'service_completed_successfully' && names.get(name) === service.name,
      ),
    )
    if (waiting.length === 0) continue
    gone.add(service.name)
    const first = waiting.find((one) => sameProgram(one, service))
    const command = service.keys.command
    if (!first || command === undefined || service.keys.port !== undefined) {
      const others = waiting.map(({ name }) => name).join(', ')
      const reason = `is left out: services run all the time. Run its command with 'release' of ${others}`
      note(service.name, reason)
      continue
    }
    const line = typeof command === 'string' ? command : quoteWords(command as string[])
    const before = first.keys.release
    first.keys.release = before === undefined ? line : `${before} && ${line}`
    first.dependsOn.push(...service.dependsOn)
    for (const other of waiting) {
      if (other !== first) {
        other.dependsOn.push({
          name: originalName(first.name, names),
          condition: 'service_healthy',
        })
      }
    }
    reportRelease(service, first, note)
  }
  const left = services.filter(({ name }) => !gone.has(name))
  if (left.length === 0) throw new ComposeError('none of its services runs all the time')
  return left
}

const originalName = (name: string, names: ReadonlyMap<string, string>): string =>
  [...names].find(([, converted]) => converted === name)?.[0] ?? name

function reportRelease(service: Converted, first: Converted, note: AddNote): void {
  note(service.name, `is now the release command of ${first.name}, without the image's entrypoint`)
  const own = Object.keys((service.keys.env ?? {}) as object)
  const lost = own.filter((key) => !Object.hasOwn((first.keys.env ?? {}) as object, key))
  if (lost.length > 0) {
    note(`${service.name}.environment`, `${lost.join(', ')}: ${first.name} does not have it`)
  }
}

/** Writes `depends_on` with the new names, without services that are left out and without circles. */
function linkAll(services: Converted[], names: ReadonlyMap<string, string>, note: AddNote): void {
  const byName = new Map(services.map((service) => [service.name, service]))
  const edges = new Map<string, string[]>(services.map(({ name }) => [name, []]))
  const reaches = (from: string, to: string): boolean =>
    from === to || (edges.get(from) ?? []).some((next) => reaches(next, to))
  for (const service of services) {
    for (const { name: written } of service.dependsOn) {
      const name = names.get(written) ?? written
      const mine = edges.get(service.name) ?? []
      if (!byName.has(name) || mine.includes(name)) continue
      if (reaches(name, service.name)) {
        note(`${service.name}.depends_on`, `${name} waits for ${service.name} already`)
      } else mine.push(name)
    }
    const mine = edges.get(service.name) ?? []
    if (mine.length > 0) service.keys.depends_on = mine
  }
}

const isRouted = ({ keys }: Converted): boolean => keys.port !== undefined && keys.public !== false

function chooseDefault(services: Converted[]): string | null {
  const routed = services.filter(isRouted)
  const web = routed.find(({ name }) => name === 'web')
  const [first] = routed
  if (web || routed.length < 2) return (web ?? first)?.name ?? null
  if (first) first.keys.default = true
  return first?.name ?? null
}

/** Each service gets the variables that its compose service had; one with an env_file gets all. */
function wantedBy(services: Converted[], note: AddNote): Conversion['variables'] {
  const byKey = new Map<string, { services: string[]; reason: string; written: Set<string> }>()
  const add = (service: string, { key, reason, written }: Wanted): void => {
    const known = byKey.get(key) ?? { services: [], reason, written: new Set<string>() }
    if (!known.services.includes(service)) known.services.push(service)
    if (written !== null) known.written.add(written)
    byKey.set(key, known)
  }
  for (const service of services) for (const one of service.wanted) add(service.name, one)
  for (const [key, { services: users, written }] of byKey) {
    if (written.size < 2) continue
    note(`environment.${key}`, `${users.join(', ')} had different values; a key has one value`)
  }
  if (byKey.size > 0) {
    for (const { keys, wanted, hasEnvFile } of services) {
      if (!hasEnvFile) keys.variables = [...new Set(wanted.map(({ key }) => key))]
    }
  }
  return [...byKey]
    .map(([key, { services: users, reason }]) => ({ key, services: users, reason }))
    .toSorted((a, b) => a.key.localeCompare(b.key))
}

function noteVolumes(volumes: unknown, note: AddNote): void {
  for (const [name, raw] of Object.entries(isMap(volumes) ? volumes : {})) {
    if (!isMap(raw)) continue
    if (raw.external)
      note(`volumes.${name}`, 'is external; each environment gets its own, empty one')
    if (raw.driver_opts !== undefined) note(`volumes.${name}`, 'has options of a driver; not used')
  }
}

const ORDER =
  'build image command entrypoint user port public default health env variables release depends_on volumes tmpfs shm_size memory cpus replicas stop_timeout stop_signal'.split(
    ' ',
  )

interface Section {
  services: Record<string, Record<string, unknown>>
  volumes?: string[]
}

function sectionOf(services: readonly Converted[]): Section {
  const volumes = [...new Set(services.flatMap((service) => service.volumes))]
  const entries = services.map(({ name, keys }) => {
    const sorted = ORDER.filter((key) => keys[key] !== undefined).map((key) => [key, keys[key]])
    return [name, Object.fromEntries(sorted)]
  })
  const section: Section = { services: Object.fromEntries(entries) }
  return volumes.length > 0 ? { ...section, volumes } : section
}

/** Leaves out what the checks of .service.yml refuse; each round removes at least one key. */
function settle(services: Converted[], note: AddNote): Section {
  for (;;) {
    const section = sectionOf(services)
    const { problems } = readServiceFile(stringify({ docker: section }, { lineWidth: 0 }))
    const errors = problems.filter(({ severity }) => severity === 'error')
    if (errors.length === 0) return section
    const removed = new Set<string>()
    for (const { path, message } of errors) {
      const [, , name = '', key = ''] = path.split('.')
      const service = services.find((one) => one.name === name)
      if (!service || service.keys[key] === undefined || removed.has(`${name}.${key}`)) continue
      removed.add(`${name}.${key}`)
      delete service.keys[key]
      note(`${name}.${key}`, message)
    }
    if (removed.size === 0) throw new ComposeError(errors[0]?.message ?? 'it cannot be converted')
  }
}
