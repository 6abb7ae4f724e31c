// `berth-server restore`: into a new data folder or an empty database, verified.
import { resolve } from 'node:path'
import { readIdentity, readPassphrase } from '../backup/encryption.ts'
import { restoreBackup } from '../backup/restore.ts'
import { readConfig } from '../config.ts'
import { toUtc } from '../domain/core/utc.ts'
import type { CommandContext } from './command.ts'
import { readOptions } from './options.ts'

const USAGE =
  'restore FILE|s3://BUCKET/FOLDER/NAME [--rehearse] [--to-data-dir FOLDER] [--passphrase-file FILE | --identity-file FILE]'

export async function restore({ args, env, print }: CommandContext): Promise<number> {
  const { values, positionals } = readOptions(
    args,
    {
      rehearse: { type: 'boolean' },
      'to-data-dir': { type: 'string' },
      'passphrase-file': { type: 'string' },
      'identity-file': { type: 'string' },
    },
    { usage: USAGE, positionals: 1 },
  )
  const [from] = positionals
  if (from === undefined) throw new Error(`Name the backup.\n\nUsage: berth-server ${USAGE}`)
  const dataDir = values['to-data-dir']
  const config = readConfig(
    dataDir === undefined ? env : { ...env, BERTH_DATA_DIR: resolve(dataDir) },
  )
  const { 'passphrase-file': named, 'identity-file': identityFile } = values
  const passphraseFile = named ?? (identityFile ? undefined : config.backup.passphraseFile)
  const rehearse = values.rehearse === true
  const { head, manifest } = await restoreBackup(config, {
    from,
    rehearse,
    unlock: {
      passphrase: passphraseFile && readPassphrase(passphraseFile),
      identity: identityFile && readIdentity(identityFile),
    },
  })
  const tables = Object.values(manifest.tables)
  const rows = tables.reduce((sum, table) => sum + table.rows, 0)
  const what = `the backup of ${toUtc(head.takenAt)} (Berth ${head.version}): ${rows} rows of ${tables.length} tables, ${manifest.logs.files} log files`
  if (rehearse) {
    print(
      `Rehearsed ${what}. Every table is equal by count and hash. Everything was removed again.`,
    )
    return 0
  }
  const place =
    config.databaseUrl === undefined ? config.dataDir : `PostgreSQL and ${config.dataDir}`
  print(`Restored ${what}, into ${place}. Every table is equal by count and hash.`)
  print('It ran with these settings, which agents and links depend on:')
  for (const [name, value] of Object.entries(head.settings)) print(`  ${name}=${String(value)}`)
  print(
    'Make sure that the former control plane is stopped, then start this one: berth-server serve',
  )
  return 0
}
