// What `npm start` runs, from the outside: an example that answers, a start after everything was killed, and an end that
// leaves nothing, however often it is asked for.
import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { listProcesses, readOwner } from '../../agent/src/exec/processes.ts'
import { findAccount } from '../../agent/src/exec/users.ts'
import { missing } from '../components.ts'
import { removeAccounts, until } from '../lab.ts'
import { removeProxyAccount } from '../proxy-account.ts'

const root = join(import.meta.dirname, '../..')
const data = mkdtempSync(join(tmpdir(), 'berth-dev-'))
chmodSync(data, 0o755) // the example's account must reach its folder
const START_MS = 120_000
const digest = createHash('sha256').update(data).digest('hex')
const folderOfSshd = join('/var/lib/berth-dev', digest.slice(0, 12))

/** Its own and those that outlive it: all of them name a folder of it in their arguments or their variables. */
const ours = (): number[] =>
  listProcesses()
    .map(({ pid }) => pid)
    .filter((pid) => pid !== process.pid && names(pid))

function names(pid: number): boolean {
  try {
    return ['cmdline', 'environ'].some((file) => {
      const text = readFileSync(`/proc/${pid}/${file}`, 'utf8')
      return text.includes(data) || text.includes(folderOfSshd)
    })
  } catch {
    return false // gone meanwhile
  }
}

async function start(): Promise<ChildProcess> {
  const env = { ...process.env, BERTH_DATA: data }
  const child = spawn(process.execPath, ['scripts/dev.ts'], { cwd: root, env })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      said += chunk.toString('utf8')
    })
  }
  await until(
    'the example',
    () => {
      if (child.exitCode !== null) throw new Error(`it ended: ${said}`)
      return said.includes('Berth is running.') || undefined
    },
    START_MS,
  )
  return child
}

const ask = (port: number, host: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, headers: { host } }, (answer) => {
      answer.resume()
      resolve(answer.statusCode ?? 0)
    })
    sent.on('error', reject)
    sent.end()
  })

describe.skipIf(missing('caddy') || missing('git'))('npm start', () => {
  afterAll(() => {
    for (const pid of ours()) process.kill(pid, 'SIGKILL')
    removeAccounts(`berth-${digest.slice(0, 6)}-`)
    removeProxyAccount({ accountPrefix: `berth-${digest.slice(0, 6)}-e` })
    for (const folder of [data, folderOfSshd]) {
      rmSync(folder, { recursive: true, force: true })
    }
  })

  it(
    'shows an example, starts again after it was killed, and ends whole',
    async () => {
      const first = await start()
      const ports = JSON.parse(readFileSync(join(data, 'ports.json'), 'utf8')) as { proxy: number }
      expect(await ask(ports.proxy, 'main.hello.localhost')).toBe(200)
      const caddies = ours().filter(
        (pid) => listProcesses().find((p) => p.pid === pid)?.name === 'caddy',
      )
      if (process.getuid?.() === 0) {
        const { uid } = (await findAccount(`berth-${digest.slice(0, 6)}-caddy`)) ?? {}
        expect([uid === 0, caddies.map(readOwner)]).toEqual([false, [uid]])
      }
      // all that does not outlive an agent; Caddy, the edge and the example's process do
      const dying = ours().filter((pid) => isOfStart(pid, first.pid))
      for (const pid of dying) process.kill(pid, 'SIGKILL')
      await once(first, 'exit')
      expect(ours()).not.toEqual([])

      const second = await start()
      expect(await ask(ports.proxy, 'main.hello.localhost')).toBe(200)
      const ended = once(second, 'exit')
      const all = ours().length
      second.kill('SIGINT')
      await until('the end to begin', () => ours().length < all || undefined)
      second.kill('SIGINT') // people press twice
      expect(await ended).toEqual([0, null])
      expect(ours()).toEqual([])
    },
    4 * START_MS,
  )
})

/** The process itself and its children. */
function isOfStart(pid: number, start: number | undefined): boolean {
  return pid === start || listProcesses().find((p) => p.pid === pid)?.parent === start
}
