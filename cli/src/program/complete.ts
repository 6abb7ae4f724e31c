// The hidden `berth __complete WORDS…`: candidates for the last word, one per line. Silent on every failure, takes at
// most 800 ms, caches answers of the server for 30 s. Prints only words of harmless characters, because shells expand
// what they are offered.
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, readFile, rename, stat, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import {
  Action,
  Environment,
  Me,
  Project,
  PullRequest,
  Server,
  Task,
  Variable,
} from '@berth/shared/api'
import type { Api } from '../client/api.ts'
import { connectAs, findIdentity, type Identity, trustAuthority } from '../client/login.ts'
import { findProject, findTarget } from '../client/resolve.ts'
import type { Context } from '../context.ts'
import { CLIENT } from '../limits/client.ts'
import { EXIT, type ExitCode } from '../terminal/exit.ts'
import type { Io } from '../terminal/io.ts'
import { openScreen } from '../terminal/terminal.ts'
import { completionLevels, flagNames, takesValue } from './completion.ts'
import { COMMANDS } from './program.ts'
import { GLOBAL_FLAGS, GROUPS } from './spec.ts'

type Kind =
  | 'projects'
  | 'environments'
  | 'services'
  | 'servers'
  | 'orgs'
  | 'tasks'
  | 'actions'
  | 'pull_requests'
  | 'variables'

const FLAG_KINDS: Readonly<Record<string, Kind>> = {
  '-p': 'projects',
  '--project': 'projects',
  '-e': 'environments',
  '--env': 'environments',
  '-s': 'services',
  '--service': 'services',
  '--server': 'servers',
  '-o': 'orgs',
  '--org': 'orgs',
  '--confirm-protected': 'environments',
}

/** By the command's own path, after aliases are resolved. */
const ARGUMENT_KINDS: Readonly<Record<string, Kind>> = {
  'projects show': 'projects',
  'projects edit': 'projects',
  'projects check': 'projects',
  'projects webhook': 'projects',
  'projects delete': 'projects',
  'server show': 'servers',
  'server set': 'servers',
  'server upgrade': 'servers',
  'server share': 'servers',
  'server unshare': 'servers',
  'server remove': 'servers',
  'server join-token': 'servers',
  'orgs use': 'orgs',
  'tasks show': 'tasks',
  'tasks cancel': 'tasks',
  rollback: 'tasks',
  'tasks log': 'tasks',
  log: 'tasks',
  'artifacts list': 'tasks',
  'artifacts download': 'tasks',
  'actions history': 'actions',
  'actions run': 'actions',
  'prs approve': 'pull_requests',
  'vars unset': 'variables',
  'vars history': 'variables',
}

interface Place {
  current: string
  /** Commands, by their own names. */
  words: string[]
  /** The flag whose value the current word is. */
  flag: string | undefined
  values: Map<string, string>
}

const canonical = (word: string): string =>
  Object.entries(GROUPS).find(([, group]) => group.aliases.includes(word))?.[0] ?? word

/** Where the cursor is. */
function readPlace(typed: readonly string[]): Place {
  const flags = [...GLOBAL_FLAGS, ...COMMANDS.flatMap((spec) => spec.flags ?? [])]
  const switches = new Set(flags.filter((flag) => !takesValue(flag)).flatMap(flagNames))
  const named = flags.filter(takesValue).flatMap(flagNames)
  const valued = new Set(named.filter((name) => !switches.has(name)))
  const words: string[] = []
  const values = new Map<string, string>()
  let flag: string | undefined
  for (const word of typed.slice(0, -1)) {
    if (flag !== undefined) {
      values.set(flag, word)
      flag = undefined
    } else if (valued.has(word)) flag = word
    else if (!word.startsWith('-')) words.push(words.length === 0 ? canonical(word) : word)
  }
  return { current: typed.at(-1) ?? '', words, flag, values }
}

function kindOf(place: Place): Kind | undefined {
  if (place.flag !== undefined) return FLAG_KINDS[place.flag]
  const [first = '', second = ''] = place.words
  const path = first in ARGUMENT_KINDS ? first : `${first} ${second}`
  const isOpen = place.words.length === path.split(' ').length || path === 'vars unset'
  return isOpen && !place.current.startsWith('-') ? ARGUMENT_KINDS[path] : undefined
}

/** Words from the command table itself. */
function staticWords(place: Place): string[] {
  if (place.flag !== undefined) {
    const flags = COMMANDS.flatMap((spec) => spec.flags ?? [])
    const flag = flags.find((one) => one.choices && flagNames(one).includes(place.flag ?? ''))
    return [...(flag?.choices ?? [])]
  }
  const level = completionLevels(COMMANDS).find((one) => one.path === place.words.join(' '))
  if (!place.current.startsWith('-')) return level?.words.map(({ word }) => word) ?? []
  return [...(level?.flags ?? []), ...GLOBAL_FLAGS].flatMap(flagNames)
}

async function ask(kind: Kind, api: Api, context: Context): Promise<string[]> {
  const names = (rows: { name: string }[]) => rows.map(({ name }) => name)
  const page = { query: { per_page: 100 }, limit: CLIENT.completionWords, retries: 0 }
  switch (kind) {
    case 'projects':
      return names((await api.list('/api/projects', Project, page)).items)
    case 'servers':
      return names((await api.list('/api/servers', Server, page)).items)
    case 'orgs':
      return (await api.get('/api/me', Me)).value.organizations.map(({ slug }) => slug)
  }
  if (kind === 'environments' || kind === 'pull_requests') {
    const { id } = await findProject(api, context, 'read')
    if (kind === 'pull_requests') {
      const { items } = await api.list(`/api/projects/${id}/pull_requests`, PullRequest, page)
      return items.map(({ number }) => String(number))
    }
    const { items } = await api.list(`/api/projects/${id}/environments`, Environment)
    return items.map(({ identifier }) => identifier)
  }
  const { environment } = await findTarget(api, context, 'read')
  const path = `/api/environments/${environment.id}`
  if (kind === 'services') return names(environment.services)
  if (kind === 'actions') return names((await api.list(`${path}/actions`, Action)).items)
  if (kind === 'variables') {
    return (await api.list(`${path}/variables`, Variable)).items.map(({ key }) => key)
  }
  const { items } = await api.list(`${path}/tasks`, Task, {
    ...page,
    query: { per_page: 20 },
    limit: 20,
  })
  return items.map(({ id }) => String(id))
}

const cacheFolder = (env: Io['env']): string =>
  join(env.XDG_CACHE_HOME || join(env.HOME || homedir(), '.cache'), 'berth')

/** Cached words, or those of `work`. The login is part of the cache key, so answers are never shared between users. */
async function remembered(
  io: Io,
  identity: Identity,
  key: readonly unknown[],
  work: () => Promise<string[]>,
): Promise<string[]> {
  const { baseUrl, token, organizationId } = identity
  const whole = JSON.stringify([baseUrl, token, organizationId ?? null, io.cwd, ...key])
  const name = createHash('sha256').update(whole).digest('hex').slice(0, 32)
  const path = join(cacheFolder(io.env), `words-${name}`)
  const age = await stat(path).then(
    ({ mtimeMs }) => Date.now() - mtimeMs,
    () => Infinity,
  )
  if (age < CLIENT.completionCacheMs) return (await readFile(path, 'utf8')).split('\n')
  const words = await work()
  const temporary = `${path}.${randomBytes(4).toString('hex')}`
  await mkdir(cacheFolder(io.env), { recursive: true, mode: 0o700 })
  await writeFile(temporary, words.join('\n'), { mode: 0o600 })
  await rename(temporary, path)
  return words
}

async function serverWords(kind: Kind, place: Place, io: Io): Promise<string[]> {
  const value = (...names: string[]) => names.map((name) => place.values.get(name)).find(Boolean)
  const globals = {
    project: value('-p', '--project'),
    env: value('-e', '--env'),
    org: value('-o', '--org'),
    url: value('--url'),
    cacert: value('--cacert'),
    json: false,
    color: false,
    quiet: true,
    verbose: false,
    input: false,
    yes: false,
  }
  const identity = await findIdentity({ ...globals, url: globals.url }, io)
  const { project, env, org } = globals
  const { BERTH_PROJECT, BERTH_ENV, BERTH_ORG } = io.env
  const key = [kind, project, env, org, BERTH_PROJECT, BERTH_ENV, BERTH_ORG]
  return remembered(io, identity, key, async () => {
    await trustAuthority(globals, io.env)
    const api = await connectAs(identity, globals, io)
    const screen = openScreen(io, globals)
    return ask(kind, api, { io, globals, screen, connect: async () => api })
  })
}

const HARMLESS = /^[A-Za-z0-9_.:@+/-]+$/

/** With `--all` first, also the words of the command table, for shells without their own script. */
export async function complete(argv: readonly string[], io: Io): Promise<ExitCode> {
  const all = argv[0] === '--all'
  const place = readPlace(all ? argv.slice(1) : argv)
  const kind = kindOf(place)
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<string[]>((resolve) => {
    timer = setTimeout(() => resolve([]), CLIENT.completionMs)
  })
  const own = all || place.flag !== undefined ? staticWords(place) : []
  const asked = kind === undefined ? [] : serverWords(kind, place, io).catch(() => [])
  const words = [...own, ...(await Promise.race([asked, limit]))]
  clearTimeout(timer)
  const fitting = words.filter((word) => HARMLESS.test(word) && word.startsWith(place.current))
  const some = [...new Set(fitting)].slice(0, CLIENT.completionWords)
  if (some.length > 0) await io.stdout.write(`${some.join('\n')}\n`)
  return EXIT.done
}
