// Commands about servers and shells on them.
import { CONFIRM, type CommandSpec, type FlagSpec } from './spec.ts'

const SERVER: FlagSpec = {
  flags: '--server <server>',
  summary: 'A whole server, instead of an environment',
}

const WITH: FlagSpec = {
  flags: '--with <organization>',
  summary: 'Slug or id of the other organization',
  required: true,
}

export const SERVERS: readonly CommandSpec[] = [
  {
    path: 'server list',
    summary: 'List servers',
    examples: ['berth server list'],
    load: async () => (await import('../commands/servers/servers.ts')).serverList,
  },
  {
    path: 'server show',
    summary: 'Show a server',
    args: '<name>',
    examples: ['berth server show fra-1'],
    load: async () => (await import('../commands/servers/servers.ts')).serverShow,
  },
  {
    path: 'server add',
    summary: 'Add a server and print its join command',
    args: '<name>',
    flags: [
      { flags: '--hostname <host>', summary: 'Host name or address of the server', required: true },
      { flags: '--wait', summary: 'Wait for its agent (default on a terminal)' },
      { flags: '--no-wait', summary: 'Do not wait for its agent' },
    ],
    examples: ['berth server add fra-1 --hostname fra-1.example.com'],
    load: async () => (await import('../commands/servers/servers.ts')).serverAdd,
  },
  {
    path: 'server join-token',
    summary: 'Print a new join command for a server',
    args: '<name>',
    flags: [
      { flags: '--rejoin', summary: 'Let a new agent replace the old one' },
      { flags: '--wait', summary: 'Wait for its agent (default on a terminal)' },
      { flags: '--no-wait', summary: 'Do not wait for its agent' },
    ],
    examples: ['berth server join-token fra-1', 'berth server join-token fra-1 --rejoin --no-wait'],
    load: async () => (await import('../commands/servers/servers.ts')).serverJoinToken,
  },
  {
    path: 'server set',
    summary: 'Change what builds may use on a server, its slots, or its name',
    args: '<name>',
    flags: [
      { flags: '--build-memory <size>', summary: 'Memory of a build or step: 512m, 8g, default' },
      { flags: '--build-cpus <number>', summary: 'Processors of a build or step, or default' },
      { flags: '--build-timeout <time>', summary: 'Time of a build or step: 45m, 2h, default' },
      { flags: '--build-slots <number>', summary: 'Builds that run together, or default' },
      { flags: '--task-slots <number>', summary: 'Other tasks that run together, or default' },
      { flags: '--name <name>', summary: 'New name' },
    ],
    examples: [
      'berth server set fra-1 --build-memory 8g --build-cpus 4',
      'berth server set fra-1 --build-slots 2 --task-slots default',
    ],
    load: async () => (await import('../commands/servers/server-set.ts')).serverSet,
  },
  {
    path: 'server upgrade',
    summary: "Upgrade a server's agent, or all outdated ones in waves",
    args: '[name]',
    flags: [
      { flags: '--all', summary: 'Every outdated server of the organization' },
      { flags: '--installation', summary: 'Every outdated server (platform administrators)' },
      { flags: '--wait', summary: 'Follow it to its end' },
    ],
    examples: ['berth server upgrade fra-1', 'berth server upgrade --all --wait'],
    load: async () => (await import('../commands/servers/server-upgrade.ts')).serverUpgrade,
  },
  {
    path: 'server share',
    summary: 'Let another organization place environments on a server',
    args: '<name>',
    flags: [WITH],
    examples: ['berth server share fra-1 --with acme'],
    load: async () => (await import('../commands/servers/server-share.ts')).serverShare,
  },
  {
    path: 'server unshare',
    summary: 'End the sharing of a server; refused while environments are on it',
    args: '<name>',
    flags: [WITH],
    examples: ['berth server unshare fra-1 --with acme'],
    load: async () => (await import('../commands/servers/server-share.ts')).serverUnshare,
  },
  {
    path: 'server remove',
    summary: 'Remove a server and disconnect its agent',
    args: '<name>',
    flags: [CONFIRM],
    examples: ['berth server remove fra-1 --confirm fra-1'],
    load: async () => (await import('../commands/servers/server-remove.ts')).serverRemove,
  },
  {
    path: 'ssh shell',
    summary: 'Open a shell, or run the command after --, in an environment',
    args: '[words...]',
    flags: [SERVER, { flags: '-s, --service <service>', summary: 'Container of this service' }],
    examples: [
      'berth ssh -e pr-42',
      'berth ssh -e pr-42 -s web -- node -v',
      "berth ssh -e pr-42 -- 'cd app; ls -l | head'",
      'berth ssh --server fra-1',
    ],
    passesRest: true,
    hidden: true,
    load: async () => (await import('../commands/ssh/ssh.ts')).ssh,
  },
  {
    path: 'ssh cert',
    summary: 'Sign your own public key for five minutes',
    flags: [
      { ...SERVER, required: true },
      { flags: '--public-key <file>', summary: 'Your .pub file', required: true },
      {
        flags: '-O, --output <file>',
        summary: 'Save the certificate to a file instead of printing it',
      },
    ],
    examples: [
      'berth ssh cert --server fra-1 -e pr-42 --public-key ~/.ssh/id_ed25519.pub ' +
        '-O ~/.ssh/id_ed25519-cert.pub',
    ],
    load: async () => (await import('../commands/ssh/ssh.ts')).sshCert,
  },
]
