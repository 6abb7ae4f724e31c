// A private PostgreSQL on a Unix socket in a temporary folder, one for the whole run (setup.ts); each test takes a
// database of its own in it. As root the server runs as `postgres`, which refuses to be root.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

export interface Postgres {
  folder: string
  /** Cuts every client off; the data stays. */
  halt(): Promise<void>
  resume(): Promise<void>
  stop(): Promise<void>
}

export async function startPostgres(postgres: string): Promise<Postgres> {
  const root = process.getuid?.() === 0
  const as = root ? ['setpriv', '--reuid=postgres', '--regid=postgres', '--clear-groups'] : []
  const folder = mkdtempSync(join(tmpdir(), 'berth-pg-'))
  if (root) execFileSync('chown', ['postgres:postgres', folder])
  const data = join(folder, 'data')
  const initdb = [join(dirname(postgres), 'initdb'), '-D', data, '-A', 'trust', '-U', 'berth']
  run([...as, ...initdb, '-N', '-E', 'UTF8', '--locale=C'])
  const options = ['-c', 'listen_addresses=', '-c', 'fsync=off', '-c', 'max_connections=300']
  const [program, ...args] = [...as, postgres, '-D', data, '-k', folder, ...options]
  const launch = async (): Promise<ChildProcess> => {
    const child = spawn(program as string, args, { stdio: ['ignore', 'ignore', 'pipe'], cwd: '/' })
    await new Promise<void>((resolve, reject) => {
      let log = ''
      child.stderr?.on('data', (d) => {
        log = (log + d).slice(-10_000)
        if (log.includes('ready to accept connections')) resolve()
      })
      child.once('exit', () => reject(new Error(`postgres ended: ${log}`)))
    })
    return child
  }
  let child = await launch()
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill(signal)
    await ended
  }
  return {
    folder,
    halt: () => end('SIGINT'),
    async resume() {
      child = await launch()
    },
    async stop() {
      await end('SIGTERM') // waits for the clients to leave; SIGINT cuts them while pools are closing
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function run(argv: string[]): void {
  execFileSync(argv[0] as string, argv.slice(1), { stdio: 'pipe', cwd: '/' })
}

export const urlOf = (folder: string, name: string): string =>
  `postgres://berth@localhost/${name}?host=${encodeURIComponent(folder)}`

/** A database of the run's server: empty, or a copy of another one that nobody is connected to. */
export async function createDatabase(
  template?: string,
  name = `t${randomBytes(6).toString('hex')}`,
): Promise<string> {
  const folder = process.env.BERTH_TEST_POSTGRES
  if (!folder) throw new Error('the test set-up started no PostgreSQL')
  const { default: pg } = await import('pg')
  const client = new pg.Client({ host: folder, user: 'berth', database: 'postgres' })
  await client.connect()
  await client.query(`create database ${name}${template ? ` template ${template}` : ''}`)
  await client.end()
  return urlOf(folder, name)
}
