// Commands about projects, their folders and their pull requests.
import { CONFIRM, type CommandSpec, RECIPE, toggle } from './spec.ts'

export const PROJECTS: readonly CommandSpec[] = [
  {
    path: 'projects list',
    summary: 'list projects',
    examples: ['berth projects', 'berth projects --json'],
    load: async () => (await import('../commands/projects/projects.ts')).projectsList,
  },
  {
    path: 'projects show',
    summary: 'show a project',
    args: '[project]',
    examples: ['berth projects show shop'],
    load: async () => (await import('../commands/projects/projects.ts')).projectsShow,
  },
  {
    path: 'projects create',
    summary: 'create a project',
    args: '<name>',
    flags: [
      { flags: '--repo <url>', summary: 'address of the git repository', required: true },
      { flags: '--domain <domain>', summary: 'environments live below it', required: true },
      { flags: '--server <server>', summary: 'where it runs', repeat: true, required: true },
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
    path: 'link',
    summary: 'tie this folder to a project, and to an environment',
    examples: ['berth link -p shop', 'berth link -p shop -e staging'],
    load: async () => (await import('../commands/projects/link.ts')).link,
  },
  {
    path: 'unlink',
    summary: 'forget what this folder is tied to',
    examples: ['berth unlink'],
    load: async () => (await import('../commands/projects/link.ts')).unlink,
  },
  {
    path: 'prs list',
    summary: 'list pull requests, also those without an environment',
    examples: ['berth prs -p shop'],
    load: async () => (await import('../commands/projects/prs.ts')).prsList,
  },
  {
    path: 'prs approve',
    summary: 'let the code of a fork be deployed, at one exact commit',
    args: '<number>',
    flags: [{ flags: '--commit <sha>', summary: 'the commit that was looked at' }],
    examples: ['berth prs approve 51', 'berth prs approve 51 --commit "$(git rev-parse HEAD)"'],
    load: async () => (await import('../commands/projects/prs.ts')).prsApprove,
  },
]
