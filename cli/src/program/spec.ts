// How a command is described: words, flags and examples, as data. Help, completions and the reference are generated
// from it.
import type { Runnable } from '../context.ts'

export interface FlagSpec {
  /** commander's notation: "-e, --env <env>". */
  flags: string
  summary: string
  choices?: readonly string[]
  /** May be given several times. */
  repeat?: true
  required?: true
}

export interface CommandSpec {
  /** Words after `berth`. */
  path: string
  summary: string
  /** "<id>", "[project]". */
  args?: string
  argChoices?: readonly string[]
  flags?: readonly FlagSpec[]
  examples: readonly string[]
  /** Works, but is not listed. */
  hidden?: true
  /** Words after `--` belong to another program, even if they look like flags. */
  passesRest?: true
  load(): Promise<Runnable>
}

interface GroupSpec {
  aliases: readonly string[]
  summary: string
  /** The default command of the bare word. */
  fallback?: string
}

export const GLOBAL_FLAGS: readonly FlagSpec[] = [
  { flags: '-p, --project <project>', summary: 'project, by name or id' },
  { flags: '-e, --env <env>', summary: 'environment: identifier, pull request, branch or id:N' },
  { flags: '-o, --org <org>', summary: 'organization, by id or slug' },
  { flags: '--url <url>', summary: 'address of the Berth server' },
  { flags: '--json', summary: "print the API's JSON" },
  { flags: '--no-color', summary: 'no colours, no animation' },
  { flags: '--no-input', summary: 'never ask anything' },
  { flags: '-y, --yes', summary: 'answer questions with yes' },
  { flags: '-q, --quiet', summary: 'no progress, only data and errors' },
  { flags: '-v, --verbose', summary: 'show every request on stderr' },
  { flags: '--cacert <file>', summary: 'PEM file of a private certificate authority' },
]

export const GROUPS: Readonly<Record<string, GroupSpec>> = {
  projects: { aliases: ['project'], summary: 'projects', fallback: 'list' },
  envs: { aliases: ['env'], summary: 'environments of a project', fallback: 'list' },
  vars: { aliases: ['var'], summary: 'custom variables of an environment', fallback: 'list' },
  tasks: { aliases: ['task'], summary: 'deployments and their logs', fallback: 'list' },
  actions: { aliases: ['action'], summary: 'actions of an environment', fallback: 'list' },
  artifacts: { aliases: ['artifact'], summary: 'files that an action left', fallback: 'list' },
  server: { aliases: ['servers'], summary: 'servers and their agents', fallback: 'list' },
  config: { aliases: [], summary: 'write and check .service.yml' },
  orgs: { aliases: ['org'], summary: 'organizations you belong to', fallback: 'list' },
  prs: { aliases: ['pr'], summary: 'pull requests of a project', fallback: 'list' },
  ssh: { aliases: [], summary: 'a shell or a command in an environment', fallback: 'shell' },
  user: { aliases: ['users'], summary: 'people of an organization', fallback: 'list' },
  token: { aliases: ['tokens'], summary: 'personal tokens', fallback: 'list' },
  mcp: { aliases: [], summary: 'tools for programs that speak MCP', fallback: 'serve' },
}

export const RECIPE: FlagSpec = {
  flags: '--recipe <recipe>',
  summary: 'docker or manual',
  choices: ['docker', 'manual'],
}

export const CONFIRM: FlagSpec = {
  flags: '--confirm <name>',
  summary: 'its exact name, instead of --yes; needed for what is protected',
}

export const toggle = (name: string, summary: string): FlagSpec[] => [
  { flags: `--${name}`, summary },
  { flags: `--no-${name}`, summary: `turn off --${name}` },
]

export const TIMEOUT: FlagSpec = {
  flags: '--timeout <time>',
  summary: 'stop waiting after this long (60m); the task goes on',
}

export const WAIT: FlagSpec = { flags: '--wait', summary: 'wait for the end; exit 3 when it fails' }

export const LOG: FlagSpec = { flags: '--log', summary: 'show the raw log instead of the phases' }
