// Commands that change organizations and their members.
import { CONFIRM, type CommandSpec, type FlagSpec } from './spec.ts'

const SLUG: FlagSpec = { flags: '--slug <slug>', summary: 'Short name, as in addresses and -o' }

export const MEMBERS: readonly CommandSpec[] = [
  {
    path: 'orgs create',
    summary: 'Create an organization (platform administrators)',
    args: '<name>',
    flags: [SLUG],
    examples: ['berth org create "Acme Ltd" --slug acme'],
    load: async () => (await import('../commands/people/org-changes.ts')).orgCreate,
  },
  {
    path: 'orgs rename',
    summary: 'Change the name or the slug of an organization',
    args: '[name]',
    flags: [SLUG],
    examples: ['berth org rename "Acme Group" -o acme', 'berth org rename --slug acme-group'],
    load: async () => (await import('../commands/people/org-changes.ts')).orgRename,
  },
  {
    path: 'orgs remove',
    summary: 'Remove an empty organization',
    flags: [CONFIRM],
    examples: ['berth org remove -o acme --confirm acme'],
    load: async () => (await import('../commands/people/org-changes.ts')).orgRemove,
  },
  {
    path: 'user role',
    summary: "Change a member's role: viewer, developer, admin or owner",
    args: '<user> <role>',
    examples: ['berth user role grace@example.com admin'],
    load: async () => (await import('../commands/people/members.ts')).userRole,
  },
  {
    path: 'user remove',
    summary: 'Remove a member from an organization, and end their access',
    args: '<user>',
    examples: ['berth user remove grace@example.com --yes'],
    load: async () => (await import('../commands/people/members.ts')).userRemove,
  },
  {
    path: 'user invitations',
    summary: 'List invitations to an organization',
    examples: ['berth user invitations -o acme'],
    load: async () => (await import('../commands/people/members.ts')).userInvitations,
  },
  {
    path: 'user uninvite',
    summary: 'Withdraw an invitation',
    args: '<email>',
    examples: ['berth user uninvite grace@example.com'],
    load: async () => (await import('../commands/people/members.ts')).userUninvite,
  },
]
