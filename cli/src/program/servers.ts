// Commands about servers and shells on them.
import { CONFIRM, type CommandSpec, type FlagSpec } from './spec.ts'

const SERVER: FlagSpec = {
  flags: '--server <server>',
  summary: 'the whole server; with -e the one it is on',
}

export const SERVERS: readonly CommandSpec[] = [
  {
    path: 'server list',
    summary: 'list servers',
    examples: ['berth server list'],
    load: async () => (await import('../commands/servers/servers.ts')).serverList,
  },
  {
    path: 'server show',
    summary: 'show a server',
    args: '<name>',
    examples: ['berth server show fra-1'],
    load: async () => (await import('../commands/servers/servers.ts')).serverShow,
  },
  {
    path: 'server add',
    summary: 'register a server and print the command that joins it',
    args: '<name>',
    flags: [
      { flags: '--hostname <host>', summary: 'name or address of the machine', required: true },
      { flags: '--wait', summary: 'wait for its agent (default on a terminal)' },
      { flags: '--no-wait', summary: 'do not wait for its agent' },
    ],
    examples: ['berth server add fra-1 --hostname fra-1.example.com'],
    load: async () => (await import('../commands/servers/servers.ts')).serverAdd,
  },
  {
    path: 'server join-token',
    summary: 'a new join command for a server',
    args: '<name>',
    flags: [
      { flags: '--rejoin', summary: 'let a new agent take the place of the old one' },
      { flags: '--wait', summary: 'wait for its agent (default on a terminal)' },
      { flags: '--no-wait', summary: 'do not wait for its agent' },
    ],
    examples: ['berth server join-token fra-1', 'berth server join-token fra-1 --rejoin --no-wait'],
    load: async () => (await import('../commands/servers/servers.ts')).serverJoinToken,
  },
  {
    path: 'server remove',
    summary: 'forget a server; its agent is cut off',
    args: '<name>',
    flags: [CONFIRM],
    examples: ['berth server remove fra-1 --confirm fra-1'],
    load: async () => (await import('../commands/servers/server-remove.ts')).serverRemove,
  },
  {
    path: 'ssh shell',
    summary: 'a shell, or with -- a command, in an environment',
    args: '[words...]',
    flags: [SERVER, { flags: '-s, --service <service>', summary: "this service's container" }],
    examples: [
      'berth ssh -e pr-42',
      'berth ssh -e pr-42 -s web -- node -v',
      'berth ssh --server fra-1',
    ],
    passesRest: true,
    hidden: true,
    load: async () => (await import('../commands/ssh/ssh.ts')).ssh,
  },
  {
    path: 'ssh cert',
    summary: 'sign a key of your own, for five minutes',
    flags: [
      { ...SERVER, required: true },
      { flags: '--public-key <file>', summary: 'your .pub file', required: true },
      { flags: '-O, --output <file>', summary: 'save it there instead of printing it' },
    ],
    examples: [
      'berth ssh cert --server fra-1 -e pr-42 --public-key ~/.ssh/id_ed25519.pub ' +
        '-O ~/.ssh/id_ed25519-cert.pub',
    ],
    load: async () => (await import('../commands/ssh/ssh.ts')).sshCert,
  },
]
