// The commands of `berth-server`. Each is loaded only when it is called: most of the program serves the control plane.
import { VERSION } from '@berth/shared/version'
import type { Command, CommandContext } from './command.ts'

interface Entry {
  /** Empty: a part of another command, which the help leaves out. */
  summary: string
  load: () => Promise<Command>
}

/** By name, in the order of the help; a name has one or two words. */
const COMMANDS: Record<string, Entry> = {
  serve: {
    summary: 'Run the control plane (also without a command)',
    load: async () => (await import('./serve.ts')).serve,
  },
  'config check': {
    summary: 'Show every setting, where it came from, and what is wrong (--json)',
    load: async () => (await import('./config-check.ts')).configCheck,
  },
  doctor: {
    summary: 'Check ports, names, clock, disk, mail, database, key and certificates (--json)',
    load: async () => (await import('./doctor/doctor.ts')).doctor,
  },
  'renew-certificate': {
    summary: 'Order a new HTTPS certificate now, in place of waiting (with a domain)',
    load: async () => (await import('./renew-certificate.ts')).renewCertificate,
  },
  backup: {
    summary: 'Back up database, logs and settings while the control plane runs',
    load: async () => (await import('./backup.ts')).backup,
  },
  'backup list': {
    summary: 'List the backups, and scheduled ones that failed',
    load: async () => (await import('./backup.ts')).backupList,
  },
  'backup-key': {
    summary: 'Copy the key that opens stored secrets, for another place',
    load: async () => (await import('./backup.ts')).backupKey,
  },
  restore: {
    summary: 'Restore a backup into a new folder or an empty database',
    load: async () => (await import('./restore.ts')).restore,
  },
  upgrade: {
    summary: 'Install a signed release, and return by itself if it does not become ready',
    load: async () => (await import('./upgrade/upgrade.ts')).upgrade,
  },
  'upgrade-check': {
    summary: '',
    load: async () => (await import('./upgrade/database.ts')).upgradeCheck,
  },
  'upgrade-others': {
    summary: '',
    load: async () => (await import('./upgrade/database.ts')).upgradeOthers,
  },
  'upgrade-backup': {
    summary: '',
    load: async () => (await import('./upgrade/database.ts')).upgradeBackup,
  },
  'upgrade-restore': {
    summary: '',
    load: async () => (await import('./upgrade/database.ts')).upgradeRestore,
  },
  'migrate-database': {
    summary: 'Copy SQLite into an empty PostgreSQL database',
    load: async () => (await import('./migrate-database.ts')).migrateDatabase,
  },
  'support-bundle': {
    summary: 'Write a file for people who help: system, settings without secrets, findings, log',
    load: async () => (await import('./support-bundle.ts')).supportBundle,
  },
  'reset-two-factor': {
    summary: 'Remove the second factors of a person who lost them: reset-two-factor EMAIL',
    load: async () => (await import('./reset-two-factor.ts')).resetTwoFactor,
  },
  'verify-audit': {
    summary: 'Check the chain of the audit log',
    load: async () => (await import('./verify-audit.ts')).verifyAudit,
  },
}

const SHOWN = Object.entries(COMMANDS).filter(([, { summary }]) => summary !== '')
const width = Math.max(...SHOWN.map(([name]) => name.length))
const help = (): string =>
  [
    'Usage: berth-server [COMMAND]',
    '',
    ...SHOWN.map(([name, one]) => `  ${name.padEnd(width)}  ${one.summary}`),
    '',
    '  --help, --version',
  ].join('\n')

export async function runCommand(context: CommandContext): Promise<number | undefined> {
  const { args, print } = context
  const [first = 'serve', second = ''] = args
  if (first === '--help' || first === 'help') {
    print(help())
    return 0
  }
  if (first === '--version') {
    print(VERSION)
    return 0
  }
  const name = [`${first} ${second}`, first].find((one) => Object.hasOwn(COMMANDS, one))
  if (name === undefined) throw new Error(`There is no command ${first}.\n\n${help()}`)
  const command = await (COMMANDS[name] as Entry).load()
  return command({ ...context, args: args.slice(name.split(' ').length) })
}
