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
  /** "<id>", "[project]", "<from> <to>". */
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
  { flags: '-p, --project <project>', summary: 'Project, by name or ID' },
  { flags: '-e, --env <env>', summary: 'Environment: identifier, pull request, branch or id:N' },
  { flags: '-o, --org <org>', summary: 'Organization, by ID or slug' },
  { flags: '--url <url>', summary: 'Address of the Berth server' },
  { flags: '--json', summary: "Print the API's JSON" },
  { flags: '--no-color', summary: 'Print no colours and no animation' },
  { flags: '--no-input', summary: 'Never ask; fail if an answer is needed' },
  { flags: '-y, --yes', summary: 'Answer every question with yes' },
  { flags: '-q, --quiet', summary: 'Print only data and errors, no progress' },
  { flags: '-v, --verbose', summary: 'Print each request to stderr' },
  { flags: '--cacert <file>', summary: 'PEM file of a private certificate authority to trust' },
]

export const GROUPS: Readonly<Record<string, GroupSpec>> = {
  projects: { aliases: ['project'], summary: 'Manage projects', fallback: 'list' },
  envs: { aliases: ['env'], summary: 'Manage environments', fallback: 'list' },
  vars: {
    aliases: ['var'],
    summary: 'Manage custom variables of environments and projects',
    fallback: 'list',
  },
  tasks: {
    aliases: ['task'],
    summary: 'List, show and cancel deployments and other tasks',
    fallback: 'list',
  },
  actions: {
    aliases: ['action'],
    summary: 'List and run the actions of an environment',
    fallback: 'list',
  },
  artifacts: {
    aliases: ['artifact'],
    summary: 'List and download the files that an action made',
    fallback: 'list',
  },
  backup: {
    aliases: ['backups'],
    summary: 'Back up the data of environments and restore it',
    fallback: 'list',
  },
  server: { aliases: ['servers'], summary: 'Manage servers and their agents', fallback: 'list' },
  config: { aliases: [], summary: 'Write and check .service.yml' },
  registry: {
    aliases: ['registries'],
    summary: 'Manage credentials of image registries',
    fallback: 'list',
  },
  context: {
    aliases: ['contexts'],
    summary: 'List, choose and remove control planes',
    fallback: 'list',
  },
  notify: {
    aliases: ['notifications'],
    summary: 'Send notifications to e-mail, chats and webhooks',
    fallback: 'list',
  },
  orgs: { aliases: ['org'], summary: 'Manage organizations and choose one', fallback: 'list' },
  prs: { aliases: ['pr'], summary: 'List pull requests and approve forks', fallback: 'list' },
  ssh: {
    aliases: [],
    summary: 'Open a shell or run a command in an environment; list and end SSH access',
    fallback: 'shell',
  },
  user: {
    aliases: ['users'],
    summary: 'Manage the members of an organization',
    fallback: 'list',
  },
  token: { aliases: ['tokens'], summary: 'Manage personal access tokens', fallback: 'list' },
  mcp: { aliases: [], summary: 'Run the MCP server for AI assistants', fallback: 'serve' },
}

/** The commands of `berth help`, by what a user wants to do. */
export const HELP_GROUPS: Readonly<Record<string, readonly string[]>> = {
  Deploy: ['up', 'deploy', 'rollback', 'restart', 'stop', 'start', 'open'],
  'See what happened': [
    'diagnose',
    'tasks',
    'logs',
    'requests',
    'metrics',
    'events',
    'actions',
    'artifacts',
    'notify',
  ],
  'Reach what runs': ['ssh', 'forward', 'copy'],
  'Projects and environments': [
    'projects',
    'envs',
    'vars',
    'prs',
    'backup',
    'registry',
    'repos',
    'link',
    'unlink',
  ],
  'The service file': ['config'],
  'Servers and people': ['server', 'user', 'orgs', 'token'],
  'This client': ['login', 'logout', 'whoami', 'context', 'mcp', 'api', 'completion', 'help'],
}

export const LOG_AND_LOGS =
  "berth log (tasks log) shows what a deployment did. berth logs shows what the environment's services write."

export const RECIPE: FlagSpec = {
  flags: '--recipe <recipe>',
  summary: 'docker or manual',
  choices: ['docker', 'manual'],
}

export const CONFIRM: FlagSpec = {
  flags: '--confirm <name>',
  summary: 'Confirm with the exact name; required for protected environments',
}

export const toggle = (name: string, summary: string): FlagSpec[] => [
  { flags: `--${name}`, summary },
  { flags: `--no-${name}`, summary: `Turn off --${name}` },
]

export const TIMEOUT: FlagSpec = {
  flags: '--timeout <time>',
  summary: 'Stop waiting after this time (default 60m); the task continues',
}

export const WAIT: FlagSpec = { flags: '--wait', summary: 'Wait until it ends; exit 3 if it fails' }

export const LOG: FlagSpec = { flags: '--log', summary: 'Print the raw log instead of the phases' }
