// The part of the command table that changes and removes things: variables, environments, projects.
import type { CommandSpec, FlagSpec } from './program.ts'

const CONFIRM: FlagSpec = {
  flags: '--confirm <name>',
  summary: 'its exact name, instead of --yes; needed for what is protected',
}

/** A setting that is on or off. */
const toggle = (name: string, summary: string): FlagSpec[] => [
  { flags: `--${name}`, summary },
  { flags: `--no-${name}`, summary: 'not so' },
]

export const CHANGE_COMMANDS: readonly CommandSpec[] = [
  {
    path: 'vars list',
    summary: 'list the keys; values are never shown',
    examples: ['berth vars list -e pr-42'],
    load: async () => (await import('../commands/environments/vars.ts')).varsList,
  },
  {
    path: 'vars set',
    summary: 'set variables, all or nothing',
    args: '[pairs...]',
    flags: [
      { flags: '--from-file <file>', summary: 'KEY=value lines' },
      { flags: '--stdin', summary: 'the value of the one KEY is read from stdin' },
      { flags: '--dry-run', summary: 'print the keys, change nothing' },
    ],
    examples: [
      'berth vars set -e pr-42 FEATURE_X=on',
      'op read op://shop/app-key | berth vars set -e pr-42 APP_KEY=-',
      'berth vars set -e pr-42 --from-file .env.preview',
    ],
    load: async () => (await import('../commands/environments/vars.ts')).varsSet,
  },
  {
    path: 'vars unset',
    summary: 'remove variables',
    args: '<keys...>',
    examples: ['berth vars unset -e pr-42 OLD_KEY'],
    load: async () => (await import('../commands/environments/vars.ts')).varsUnset,
  },
  {
    path: 'envs edit',
    summary: 'change the settings of an environment',
    flags: [
      { flags: '--title <title>', summary: 'what it is called in lists' },
      { flags: '--server <server>', summary: 'moves with the next deployment' },
      { flags: '--domain <domain>', summary: 'where it is reachable' },
      { flags: '--branch <branch>', summary: 'what it deploys' },
      {
        flags: '--recipe <recipe>',
        summary: 'docker, manual, or inherit from the project',
        choices: ['docker', 'manual', 'inherit'],
      },
      ...toggle('protected', 'only its owner may deploy and change it'),
      ...toggle('sticky', 'listed first'),
      ...toggle('auto-deploy', 'deploys pushes'),
    ],
    examples: ['berth env edit -e staging --title "Staging" --sticky'],
    load: async () => (await import('../commands/environments/env-changes.ts')).envEdit,
  },
  {
    path: 'envs set',
    summary: "change settings by the API's own names",
    args: '<settings...>',
    examples: ['berth env set -e staging title=Staging sticky=true server=fra-2'],
    load: async () => (await import('../commands/environments/env-changes.ts')).envSet,
  },
  {
    path: 'envs delete',
    summary: 'remove an environment from its server and from Berth',
    flags: [
      CONFIRM,
      { flags: '--force', summary: "skip the repository's own destroy steps" },
      { flags: '--forget', summary: 'the server will not return: destroy nothing' },
    ],
    examples: ['berth env delete -e pr-42 --yes', 'berth env delete -e staging --confirm staging'],
    load: async () => (await import('../commands/environments/env-changes.ts')).envDelete,
  },
  {
    path: 'envs reset',
    summary: 'remove everything of it on its server, data too, and deploy anew',
    flags: [CONFIRM],
    examples: ['berth env reset -e pr-42 --confirm pr-42'],
    load: async () => (await import('../commands/environments/env-changes.ts')).envReset,
  },
  {
    path: 'projects edit',
    summary: 'change the settings of a project',
    args: '[project]',
    flags: [
      { flags: '--name <name>', summary: 'another name' },
      { flags: '--repo <url>', summary: 'address of the git repository' },
      { flags: '--domain <domain>', summary: 'environments live below it' },
      { flags: '--server <server>', summary: 'where it runs; replaces the list', repeat: true },
      { flags: '--branch <branch>', summary: 'the default branch' },
      {
        flags: '--recipe <recipe>',
        summary: 'docker or manual',
        choices: ['docker', 'manual'],
      },
      ...toggle('auto-deploy', 'new environments deploy pushes'),
    ],
    examples: ['berth project edit shop --server fra-1 --server fra-2'],
    load: async () => (await import('../commands/projects/project-changes.ts')).projectEdit,
  },
  {
    path: 'projects set',
    summary: "change settings by the API's own names",
    args: '<settings...>',
    examples: ['berth project set -p shop default_branch=main servers=fra-1,fra-2'],
    load: async () => (await import('../commands/projects/project-changes.ts')).projectSet,
  },
  {
    path: 'projects check',
    summary: 'look at everything a project needs; exit 6 when something is missing',
    args: '[project]',
    examples: ['berth project check shop'],
    load: async () => (await import('../commands/projects/project-check.ts')).projectCheck,
  },
  {
    path: 'projects webhook',
    summary: 'the webhook, its last deliveries, its secret',
    args: '[project]',
    flags: [
      { flags: '--rotate-secret', summary: 'make a new secret; the old one works a day longer' },
      { flags: '--redeliver <id>', summary: 'act on a delivery once more' },
    ],
    examples: ['berth project webhook shop', 'berth project webhook shop --rotate-secret --yes'],
    load: async () => (await import('../commands/projects/project-webhook.ts')).projectWebhook,
  },
  {
    path: 'projects trust-host-key',
    summary: 'trust the SSH host key that the forge shows now; owners only',
    args: '[project]',
    flags: [{ flags: '--fingerprint <fingerprint>', summary: 'exactly this one: SHA256:…' }],
    examples: ['berth project trust-host-key shop'],
    load: async () => (await import('../commands/projects/project-host-key.ts')).projectHostKey,
  },
  {
    path: 'projects delete',
    summary: 'remove every environment from its server, then the project',
    args: '[project]',
    flags: [
      CONFIRM,
      {
        flags: '--confirm-protected <env>',
        summary: 'a protected environment that goes with it',
        repeat: true,
      },
    ],
    examples: ['berth project delete shop --confirm shop --confirm-protected staging'],
    load: async () => (await import('../commands/projects/project-changes.ts')).projectDelete,
  },
  {
    path: 'server remove',
    summary: 'forget a server; its agent is cut off',
    args: '<name>',
    flags: [CONFIRM],
    examples: ['berth server remove fra-1 --confirm fra-1'],
    load: async () => (await import('../commands/servers/server-remove.ts')).serverRemove,
  },
]
