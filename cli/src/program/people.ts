// The part of the command table about who and where: organizations, people, tokens, pull requests, the working folder.
import type { CommandSpec } from './program.ts'

const SCOPES = ['read', 'deploy', 'write', 'ssh', 'admin']
const ROLES = ['viewer', 'developer', 'admin', 'owner']

export const PEOPLE_COMMANDS: readonly CommandSpec[] = [
  {
    path: 'orgs list',
    summary: 'list the organizations you belong to',
    examples: ['berth orgs', 'berth orgs --json'],
    load: async () => (await import('../commands/people/orgs.ts')).orgsList,
  },
  {
    path: 'orgs use',
    summary: 'work in one organization from now on; - for all of them',
    args: '<org>',
    examples: ['berth orgs use acme', 'berth orgs use -'],
    load: async () => (await import('../commands/people/orgs.ts')).orgsUse,
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
    path: 'open',
    summary: 'show an environment in the browser',
    flags: [{ flags: '--dashboard', summary: 'its page in the dashboard instead' }],
    examples: ['berth open -e pr-42', 'berth open -e pr-42 --dashboard'],
    load: async () => (await import('../commands/environments/open.ts')).openPage,
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
  {
    path: 'user list',
    summary: 'list the people of an organization',
    examples: ['berth user list -o acme'],
    load: async () => (await import('../commands/people/people.ts')).userList,
  },
  {
    path: 'user invite',
    summary: 'invite somebody by mail',
    args: '<email>',
    flags: [{ flags: '--role <role>', summary: ROLES.join(', '), choices: ROLES, required: true }],
    examples: ['berth user invite grace@example.com --role developer'],
    load: async () => (await import('../commands/people/people.ts')).userInvite,
  },
  {
    path: 'token list',
    summary: 'list your tokens and logins; none is shown again',
    examples: ['berth token list'],
    load: async () => (await import('../commands/people/tokens.ts')).tokenList,
  },
  {
    path: 'token create',
    summary: 'make a personal token, shown this once',
    args: '<name>',
    flags: [
      {
        flags: '--scope <scopes>',
        summary: `${SCOPES.join(', ')}; several with commas`,
        repeat: true,
        required: true,
      },
      { flags: '--expires <time>', summary: 'in days, 365d at most', required: true },
    ],
    examples: ['berth token create ci --scope read,deploy --expires 90d'],
    load: async () => (await import('../commands/people/tokens.ts')).tokenCreate,
  },
  {
    path: 'token revoke',
    summary: 'end a token at once',
    args: '<id>',
    examples: ['berth token revoke 17', 'berth token revoke 17 --yes'],
    load: async () => (await import('../commands/people/tokens.ts')).tokenRevoke,
  },
]
