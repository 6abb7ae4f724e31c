// Commands about the login, organizations, people and tokens.
import type { CommandSpec } from './spec.ts'

const SCOPES = ['read', 'deploy', 'write', 'ssh', 'admin']

const ROLES = ['viewer', 'developer', 'admin', 'owner']

export const PEOPLE: readonly CommandSpec[] = [
  {
    path: 'login',
    summary: 'log in to a server, through a browser on any device',
    flags: [
      { flags: '--with-token', summary: 'read a token from stdin instead' },
      {
        flags: '--scope <scope>',
        summary: 'ask for this scope as well (admin: set-up, members, tokens)',
        choices: ['read', 'deploy', 'write', 'ssh', 'admin'],
        repeat: true,
      },
      { flags: '--name <name>', summary: 'what this device is called (its host name)' },
      { flags: '--no-browser', summary: 'do not open the page, only show its address' },
    ],
    examples: [
      'berth login --url https://deploy.example.com',
      'berth login --scope admin',
      'berth login --with-token --url https://deploy.example.com < token-file',
    ],
    load: async () => (await import('../commands/people/login.ts')).login,
  },
  {
    path: 'logout',
    summary: 'end the login at a server',
    flags: [{ flags: '--all', summary: 'of every server' }],
    examples: ['berth logout', 'berth logout --all'],
    load: async () => (await import('../commands/people/login.ts')).logout,
  },
  {
    path: 'whoami',
    summary: 'who is logged in, where, with which organizations',
    examples: ['berth whoami'],
    load: async () => (await import('../commands/people/login.ts')).whoami,
  },
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
