// Joins the subjects of the glossary and finds entries. To describe a new operation, parameter or property, add its
// entry to the file of its subject; test/contract/words.test.ts names every key that is missing or no longer used.
import { BACKUPS } from './backups.ts'
import { CONNECTIONS } from './connections.ts'
import { DEPLOYMENTS } from './deployments.ts'
import type { FieldEntry, Glossary, OperationEntry } from './entries.ts'
import { ENVIRONMENTS } from './environments.ts'
import { EVERYWHERE } from './everywhere.ts'
import { FORGES } from './forges.ts'
import { INSTALLATION } from './installation.ts'
import { NOTICES } from './notices.ts'
import { PEOPLE } from './people.ts'
import { PROJECTS } from './projects.ts'
import { SERVERS } from './servers.ts'
import { SSH } from './ssh.ts'
import { VARIABLES } from './variables.ts'

const SUBJECTS: readonly Glossary[] = [
  EVERYWHERE,
  PEOPLE,
  PROJECTS,
  FORGES,
  CONNECTIONS,
  ENVIRONMENTS,
  VARIABLES,
  BACKUPS,
  DEPLOYMENTS,
  SERVERS,
  SSH,
  NOTICES,
  INSTALLATION,
]

/** Schemas, or bodies of operations, whose properties mean what those of another schema mean. */
const SAME_AS: Readonly<Record<string, string>> = {
  ChannelCreate: 'Channel',
  ChannelMade: 'Channel',
  ChannelPatch: 'ChannelCreate',
  DeliveryDetail: 'Delivery',
  EnvironmentCreate: 'Environment',
  EnvironmentCreated: 'Environment',
  EnvironmentPatch: 'Environment',
  ForgeConnectionPatch: 'ForgeConnectionPost',
  HostToken: 'HostTokenFacts',
  LimitsPatch: 'Limits',
  LiveSshAccess: 'IssuedSshCertificate',
  ProjectCreate: 'ProjectDetail',
  ProjectCreated: 'ProjectDetail',
  ProjectDetail: 'Project',
  ProjectForge: 'ForgeFacts',
  ProjectPatch: 'ProjectDetail',
  ProjectVariable: 'Variable',
  ProjectVariablesPatch: 'VariablesPatch',
  ProjectVariablesPatched: 'VariablesPatched',
  PullRequestApproved: 'PullRequest',
  RegisteredMembership: 'AcceptedMembership',
  Server: 'ServerRef',
  ServerCreate: 'Server',
  ServerPatch: 'Server',
  ServerSettingsPatch: 'ServerSettings',
  TokenCreate: 'Token',
  TokenCreated: 'Token',
  setProjectForge: 'ForgeConnectionPost',
}

/** Two subjects with the same key would hide one of the entries. */
function join<T>(parts: readonly Record<string, T>[]): ReadonlyMap<string, T> {
  const entries = parts.flatMap((part) => Object.entries(part))
  const joined = new Map(entries)
  if (joined.size === entries.length) return joined
  const twice = entries.find(([key], n) => entries.findIndex(([other]) => other === key) < n)
  throw new Error(`the glossary has ${twice?.[0]} twice`)
}

export const OPERATIONS: ReadonlyMap<string, OperationEntry> = join(
  SUBJECTS.map(({ operations }) => operations),
)
export const FIELDS: ReadonlyMap<string, FieldEntry> = join(SUBJECTS.map(({ fields }) => fields))

function* lineage(schema: string): Generator<string> {
  const seen = new Set<string>()
  for (let name: string | undefined = schema; name && !seen.has(name); ) {
    seen.add(name)
    yield name
    name = SAME_AS[name] ?? (name.endsWith('Input') ? name.slice(0, -5) : undefined)
  }
}

/** The keys under which a property may have its entry; `path` begins with the name of its schema. */
export function keysOfProperty([schema = '', ...path]: readonly string[]): string[] {
  const named = [...lineage(schema)].map((name) => [name, ...path].join('.'))
  const shorter = path.map((_, n) => path.slice(n).join('.'))
  return [...new Set([...named, ...shorter])]
}

export function keysOfParameter(
  operation: { id: string; path: string },
  parameter: { name: string; in: string },
): string[] {
  const own = `${operation.id}.${parameter.name}`
  if (parameter.in !== 'path') return [own, `?${parameter.name}`]
  const segments = operation.path.split('/')
  const before = segments[segments.indexOf(`{${parameter.name}}`) - 1] ?? ''
  return [own, `/${before}/{${parameter.name}}`, `{${parameter.name}}`]
}

/** The key with an entry, if one of them has it. */
export const findKey = (keys: readonly string[]): string | undefined =>
  keys.find((key) => FIELDS.has(key))
