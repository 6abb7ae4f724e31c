// Commands about the login, organizations, people and tokens.
import type { CommandSpec } from './spec.ts'

const SCOPES = ['read', 'deploy', 'write', 'ssh', 'admin']

const ROLES = ['viewer', 'developer', 'admin', 'owner']

export const PEOPLE: readonly CommandSpec[] = [
  {
    path: 'login',
    summary: 'Log in to a server, with a browser on any device',
    flags: [
      { flags: '--with-token', summary: 'Read a token from stdin instead' },
      {
        flags: '--scope <scope>',
        summary: 'Also request this scope (admin: settings, members, tokens)',
        choices: ['read', 'deploy', 'write', 'ssh', 'admin'],
        repeat: true,
      },
      { flags: '--name <name>', summary: 'Name of this device (default: its host name)' },
      { flags: '--no-browser', summary: 'Print the address of the login page, do not open it' },
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
    summary: 'Log out of a server',
    flags: [{ flags: '--all', summary: 'Log out of every server' }],
    examples: ['berth logout', 'berth logout --all'],
    load: async () => (await import('../commands/people/login.ts')).logout,
  },
  {
    path: 'whoami',
    summary: 'Show the current user, server and organizations',
    examples: ['berth whoami'],
    load: async () => (await import('../commands/people/login.ts')).whoami,
  },
  {
    path: 'context list',
    summary: 'List the control planes that you are logged in to',
    examples: ['berth context', 'berth context list --json'],
    load: async () => (await import('../commands/people/contexts.ts')).contextList,
  },
  {
    path: 'context use',
    summary: 'Choose the control plane for later commands',
    args: '<url>',
    examples: ['berth context use deploy.example.com'],
    load: async () => (await import('../commands/people/contexts.ts')).contextUse,
  },
  {
    path: 'context remove',
    summary: 'Log out of a control plane and forget it',
    args: '<url>',
    examples: ['berth context remove deploy.example.com'],
    load: async () => (await import('../commands/people/contexts.ts')).contextRemove,
  },
  {
    path: 'orgs list',
    summary: 'List your organizations',
    examples: ['berth orgs', 'berth orgs --json'],
    load: async () => (await import('../commands/people/orgs.ts')).orgsList,
  },
  {
    path: 'orgs use',
    summary: 'Choose the organization for later commands; - for all',
    args: '<org>',
    examples: ['berth orgs use acme', 'berth orgs use -'],
    load: async () => (await import('../commands/people/orgs.ts')).orgsUse,
  },
  {
    path: 'user list',
    summary: 'List the members of an organization',
    examples: ['berth user list -o acme'],
    load: async () => (await import('../commands/people/people.ts')).userList,
  },
  {
    path: 'user invite',
    summary: 'Invite a member by email',
    args: '<email>',
    flags: [{ flags: '--role <role>', summary: ROLES.join(', '), choices: ROLES, required: true }],
    examples: ['berth user invite grace@example.com --role developer'],
    load: async () => (await import('../commands/people/people.ts')).userInvite,
  },
  {
    path: 'token list',
    summary: 'List your tokens and logins, without their secrets',
    examples: ['berth token list'],
    load: async () => (await import('../commands/people/tokens.ts')).tokenList,
  },
  {
    path: 'token create',
    summary: 'Create a personal access token; it is shown only once',
    args: '<name>',
    flags: [
      {
        flags: '--scope <scopes>',
        summary: `${SCOPES.join(', ')}; several with commas`,
        repeat: true,
        required: true,
      },
      { flags: '--expires <time>', summary: 'Lifetime in days, at most 365d', required: true },
    ],
    examples: ['berth token create ci --scope read,deploy --expires 90d'],
    load: async () => (await import('../commands/people/tokens.ts')).tokenCreate,
  },
  {
    path: 'token revoke',
    summary: 'Revoke a token immediately',
    args: '<id>',
    examples: ['berth token revoke 17', 'berth token revoke 17 --yes'],
    load: async () => (await import('../commands/people/tokens.ts')).tokenRevoke,
  },
]
