// Commands about projects, their folders and their pull requests.
import { PROVIDERS } from '@berth/shared'
import { CONFIRM, type CommandSpec, type FlagSpec, RECIPE, toggle } from './spec.ts'

const ALL_PROJECTS: FlagSpec = {
  flags: '--all-projects',
  summary: 'For every project of the organization; credentials of a project win',
}

const CONNECTION: FlagSpec = {
  flags: '--connection <id>',
  summary: 'A connection of the organization, by ID',
}

export const PROJECTS: readonly CommandSpec[] = [
  {
    path: 'projects list',
    summary: 'List projects',
    examples: ['berth projects', 'berth projects --json'],
    load: async () => (await import('../commands/projects/projects.ts')).projectsList,
  },
  {
    path: 'projects show',
    summary: 'Show a project',
    args: '[project]',
    examples: ['berth projects show shop'],
    load: async () => (await import('../commands/projects/projects.ts')).projectsShow,
  },
  {
    path: 'projects create',
    summary: 'Create a project',
    args: '<name>',
    flags: [
      { flags: '--repo <url>', summary: 'Address of the git repository', required: true },
      { flags: '--domain <domain>', summary: 'Base domain of its environments', required: true },
      {
        flags: '--server <server>',
        summary: 'Server on which it runs',
        repeat: true,
        required: true,
      },
      RECIPE,
    ],
    examples: [
      'berth project create shop --repo git@github.com:acme/shop.git --domain shop.example.com ' +
        '--server fra-1',
    ],
    load: async () => (await import('../commands/projects/projects.ts')).projectCreate,
  },
  {
    path: 'projects edit',
    summary: 'Change the settings of a project',
    args: '[project]',
    flags: [
      { flags: '--name <name>', summary: 'New name' },
      { flags: '--repo <url>', summary: 'Address of the git repository' },
      { flags: '--domain <domain>', summary: 'Base domain of its environments' },
      {
        flags: '--server <server>',
        summary: 'Server on which it runs; replaces the list',
        repeat: true,
      },
      { flags: '--branch <branch>', summary: 'Default branch' },
      {
        flags: '--recipe <recipe>',
        summary: 'docker or manual',
        choices: ['docker', 'manual'],
      },
      ...toggle('auto-deploy', 'Deploy pushes in new environments'),
    ],
    examples: ['berth project edit shop --server fra-1 --server fra-2'],
    load: async () => (await import('../commands/projects/project-changes.ts')).projectEdit,
  },
  {
    path: 'projects set',
    summary: "Change settings by the API's field names",
    args: '<settings...>',
    examples: ['berth project set -p shop default_branch=main servers=fra-1,fra-2'],
    load: async () => (await import('../commands/projects/project-changes.ts')).projectSet,
  },
  {
    path: 'projects check',
    summary: 'Check everything that a project needs; exit 6 if something is missing',
    args: '[project]',
    examples: ['berth project check shop'],
    load: async () => (await import('../commands/projects/project-check.ts')).projectCheck,
  },
  {
    path: 'projects webhook',
    summary: 'Show the webhook and its last deliveries',
    args: '[project]',
    flags: [
      {
        flags: '--rotate-secret',
        summary: 'Create a new secret; the old one stays valid for one day',
      },
      { flags: '--redeliver <id>', summary: 'Process a delivery again' },
    ],
    examples: ['berth project webhook shop', 'berth project webhook shop --rotate-secret --yes'],
    load: async () => (await import('../commands/projects/project-webhook.ts')).projectWebhook,
  },
  {
    path: 'projects connect',
    summary: 'Connect a project to its forge: deploy key, webhook, statuses; repeat to repair',
    args: '[project]',
    flags: [
      {
        flags: '--forge <kind>',
        summary: 'Kind of forge; found out if it is left out',
        choices: PROVIDERS,
      },
      { flags: '--api <url>', summary: 'Address of the API, if it differs from the repository’s' },
      { flags: '--with-token', summary: 'Read the token from stdin instead of asking for it' },
      CONNECTION,
    ],
    examples: [
      'berth project connect shop',
      'berth project connect shop --forge gitea --api https://git.example.com:8443/gitea/api/v1',
      'op read op://shop/forge | berth project connect shop --with-token',
    ],
    load: async () => (await import('../commands/projects/forges.ts')).projectConnect,
  },
  {
    path: 'projects disconnect',
    summary: 'Remove the deploy key and the webhook of a project at its forge',
    args: '[project]',
    examples: ['berth project disconnect shop'],
    load: async () => (await import('../commands/projects/forges.ts')).projectDisconnect,
  },
  {
    path: 'repos',
    summary: 'List the repositories that the connected forges show',
    args: '[search]',
    flags: [CONNECTION],
    examples: ['berth repos', 'berth repos shop'],
    load: async () => (await import('../commands/projects/forges.ts')).repos,
  },
  {
    path: 'projects trust-host-key',
    summary: 'Trust the current SSH host key of the git server; owners only',
    args: '[project]',
    flags: [
      { flags: '--fingerprint <fingerprint>', summary: 'Trust only this fingerprint (SHA256:…)' },
    ],
    examples: ['berth project trust-host-key shop'],
    load: async () => (await import('../commands/projects/project-host-key.ts')).projectHostKey,
  },
  {
    path: 'projects delete',
    summary: 'Delete a project and all its environments',
    args: '[project]',
    flags: [
      CONFIRM,
      {
        flags: '--confirm-protected <env>',
        summary: 'Protected environment that is deleted with it',
        repeat: true,
      },
    ],
    examples: ['berth project delete shop --confirm shop --confirm-protected staging'],
    load: async () => (await import('../commands/projects/project-changes.ts')).projectDelete,
  },
  {
    path: 'registry list',
    summary: 'List registries with stored credentials; passwords are never shown',
    flags: [ALL_PROJECTS],
    examples: ['berth registry list -p shop'],
    load: async () => (await import('../commands/projects/registries.ts')).registryList,
  },
  {
    path: 'registry add',
    summary: 'Store or replace the credentials of an image registry',
    args: '<host>',
    flags: [
      { flags: '--username <name>', summary: 'User name', required: true },
      { flags: '--password-stdin', summary: 'Read the password from stdin' },
      ALL_PROJECTS,
    ],
    examples: [
      'berth registry add ghcr.io --username ada -p shop',
      'op read op://shop/hub | berth registry add docker.io --username ada --password-stdin --all-projects',
    ],
    load: async () => (await import('../commands/projects/registries.ts')).registryAdd,
  },
  {
    path: 'registry remove',
    summary: 'Remove the credentials of an image registry',
    args: '<host>',
    flags: [ALL_PROJECTS],
    examples: ['berth registry remove ghcr.io -p shop'],
    load: async () => (await import('../commands/projects/registries.ts')).registryRemove,
  },
  {
    path: 'link',
    summary: 'Link this folder to a project or an environment',
    examples: ['berth link -p shop', 'berth link -p shop -e staging'],
    load: async () => (await import('../commands/projects/link.ts')).link,
  },
  {
    path: 'unlink',
    summary: 'Remove the link of this folder',
    examples: ['berth unlink'],
    load: async () => (await import('../commands/projects/link.ts')).unlink,
  },
  {
    path: 'prs list',
    summary: 'List pull requests, with or without an environment',
    examples: ['berth prs -p shop'],
    load: async () => (await import('../commands/projects/prs.ts')).prsList,
  },
  {
    path: 'prs approve',
    summary: 'Allow one exact commit of a fork to be deployed',
    args: '<number>',
    flags: [{ flags: '--commit <sha>', summary: 'The commit that you reviewed' }],
    examples: ['berth prs approve 51', 'berth prs approve 51 --commit "$(git rev-parse HEAD)"'],
    load: async () => (await import('../commands/projects/prs.ts')).prsApprove,
  },
]
