// Commands that reach into running services and end such access; and the pause of a server.
import type { CommandSpec } from './spec.ts'

export const ACCESS: readonly CommandSpec[] = [
  {
    path: 'forward',
    summary: "Make ports of an environment's services reachable on this machine",
    args: '<ports...>',
    flags: [{ flags: '-s, --service <service>', summary: 'Service, if a port names none itself' }],
    examples: [
      'berth forward 5432 -s db -e pr-42',
      'berth forward 15432:db:5432 8080:web:80 -p shop -e staging',
    ],
    load: async () => (await import('../commands/ssh/forward.ts')).forward,
  },
  {
    path: 'copy',
    summary: 'Copy a file or folder from or to a service (SERVICE:PATH, or :PATH for the only one)',
    args: '<from> <to>',
    flags: [{ flags: '--force', summary: 'Replace what exists on this machine' }],
    examples: [
      'berth copy web:/data/uploads ./uploads -e pr-42',
      'berth copy ./seed.sql db:/tmp/ -e staging',
    ],
    load: async () => (await import('../commands/ssh/copy.ts')).copy,
  },
  {
    path: 'ssh list',
    summary: 'List live SSH certificates and the sessions they hold',
    flags: [{ flags: '--all', summary: 'Of everyone (administrators)' }],
    examples: ['berth ssh list', 'berth ssh list --all -o acme'],
    load: async () => (await import('../commands/ssh/sessions.ts')).sshList,
  },
  {
    path: 'ssh revoke',
    summary: 'Revoke a certificate and end its sessions',
    args: '[serial]',
    flags: [{ flags: '--mine', summary: 'All of your own' }],
    examples: ['berth ssh revoke 4611686018427387904', 'berth ssh revoke --mine --yes'],
    load: async () => (await import('../commands/ssh/sessions.ts')).sshRevoke,
  },
  {
    path: 'server pause',
    summary: 'Start no new tasks on a server; what runs goes on',
    args: '<name>',
    examples: ['berth server pause fra-1'],
    load: async () => (await import('../commands/servers/server-pause.ts')).serverPause,
  },
  {
    path: 'server resume',
    summary: 'Let a paused server start tasks again',
    args: '<name>',
    examples: ['berth server resume fra-1'],
    load: async () => (await import('../commands/servers/server-pause.ts')).serverResume,
  },
]
