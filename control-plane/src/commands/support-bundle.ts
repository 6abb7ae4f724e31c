// `berth-server support-bundle`: what people who help need to see, in one file: the machine, the settings, the doctor's
// findings and the end of the log. None of these contains a secret; should one have slipped into a log line or a
// message, it is masked here.
import { execFile } from 'node:child_process'
import { closeSync, openSync, statfsSync, writeFileSync } from 'node:fs'
import { arch, availableParallelism, freemem, loadavg, release, totalmem, uptime } from 'node:os'
import { resolve } from 'node:path'
import { VERSION } from '@berth/shared/version'
import { packTexts } from '../backup/texts.ts'
import { SUPPORT } from '../limits/installation.ts'
import { type ReadSettings, readSettings } from '../settings/read.ts'
import type { CommandContext } from './command.ts'
import { configCheck } from './config-check.ts'
import { doctor } from './doctor/doctor.ts'
import { readOptions } from './options.ts'

const USAGE = 'support-bundle [--to FILE]'

export async function supportBundle({ args, env, print }: CommandContext): Promise<number> {
  const { values } = readOptions(args, { to: { type: 'string' } }, { usage: USAGE })
  const stamp = new Date().toISOString().slice(0, 19).replaceAll(/[-:]/g, '')
  const file = resolve(values.to ?? `berth-support-${stamp}Z.tar.gz`)
  // first, because the doctor gives up root's rights
  const target = openSync(file, 'wx', 0o600)
  try {
    const settings = readSettings(env)
    const mask = masking(secretsOf(settings))
    const parts = [
      ['system.json', `${JSON.stringify(describeSystem(settings), null, 2)}\n`],
      ['log.txt', await readJournal()],
      ['settings.json', await said(configCheck, env)],
      ['doctor.json', await said(doctor, env)],
    ] as const
    writeFileSync(target, await packTexts(parts.map(([name, text]) => [name, mask(text)])))
  } finally {
    closeSync(target)
  }
  print(`${file}: system, settings without secrets, the doctor's findings, the end of the log.`)
  print('Read it before you send it: it names your addresses, folders and servers.')
  return 0
}

async function said(
  command: (context: CommandContext) => Promise<number>,
  env: NodeJS.ProcessEnv,
): Promise<string> {
  let text = ''
  const print = (line: string): void => {
    text += `${line}\n`
  }
  await command({ args: ['--json'], env, print })
  return text
}

function describeSystem({ values }: ReadSettings): object {
  const disk = statfsSync('/')
  return {
    berth: VERSION,
    node: process.version,
    time: new Date().toISOString(),
    system: `${process.platform} ${release()} ${arch()}`,
    database: values.databaseUrl === undefined ? 'sqlite' : 'postgres',
    processors: availableParallelism(),
    load: loadavg(),
    up_seconds: Math.round(uptime()),
    memory: { bytes: totalmem(), free: freemem() },
    disk: { bytes: disk.blocks * disk.bsize, free: disk.bavail * disk.bsize },
  }
}

/** Empty where no journal is kept, or this account may not read it. */
const readJournal = (): Promise<string> =>
  new Promise((done) => {
    const argv = [
      '-u',
      'berth-server',
      '-n',
      String(SUPPORT.lines),
      '--no-pager',
      '-o',
      'short-iso',
    ]
    const bounds = { timeout: SUPPORT.waitMs, maxBuffer: SUPPORT.bytes }
    execFile('journalctl', argv, bounds, (error, stdout) =>
      done(error ? `The journal could not be read: ${error.message}\n` : stdout),
    )
  })

/** Values of secret settings, and the passwords inside of addresses and headers, also as they are written there. */
function secretsOf({ rows }: ReadSettings): string[] {
  const values = rows.flatMap(({ setting, value }) => {
    if (!setting.secret) return []
    if (Array.isArray(value)) return value.map((one) => String(one).replace(/^[^=]*=/, ''))
    return typeof value === 'string' ? [value] : []
  })
  const passwords = values.flatMap((value) => {
    const written = URL.parse(value)?.password ?? ''
    return [written, decodeURIComponent(written)]
  })
  return [...values, ...passwords].filter((one) => one.length >= SUPPORT.shortestSecret)
}

const masking =
  (secrets: string[]): ((text: string) => string) =>
  (text) =>
    secrets
      .toSorted((a, b) => b.length - a.length)
      .reduce((masked, secret) => masked.replaceAll(secret, '***'), text)
