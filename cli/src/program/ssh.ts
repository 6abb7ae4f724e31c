// The part of the command table that goes to servers: container logs, shells, certificates.
import type { CommandSpec, FlagSpec } from './program.ts'

const SERVER: FlagSpec = {
  flags: '--server <server>',
  summary: 'the whole server; with -e the one it is on',
}

export const SSH_COMMANDS: readonly CommandSpec[] = [
  {
    path: 'logs',
    summary: 'what the containers of an environment wrote, of any age that is kept',
    flags: [
      { flags: '-s, --service <service>', summary: 'only this service', repeat: true },
      { flags: '-f, --follow', summary: 'go on until Ctrl-C' },
      {
        flags: '-n, --lines <n>',
        summary: 'the last lines, of each service named (100; all with --since)',
      },
      { flags: '--tail <n>', summary: 'the same as --lines' },
      { flags: '--since <time>', summary: '2h, 3d or 2026-11-14T07:31:00Z' },
      { flags: '--until <time>', summary: 'the same, for the end' },
      { flags: '--grep <pattern>', summary: 'only lines that match this regular expression' },
      { flags: '-t, --timestamps', summary: 'times with every digit there is' },
    ],
    examples: [
      'berth logs -e pr-42 -s web -f --since 26h',
      "berth logs -p shop -e staging --since 3d --until 2d --grep 'ERROR|WARN'",
    ],
    load: async () => (await import('../commands/deployments/logs.ts')).logs,
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
