// berth logs, berth ssh and berth ssh cert with the real client, a real control plane and a real sshd: no host-key
// prompt, an empty temporary folder afterwards, the exit codes of the forced command, and connections that break.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Artifact } from '@berth/shared/api'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createApi } from '../../cli/src/client/api.ts'
import { fetchArtifacts } from '../../cli/src/client/artifacts/source.ts'
import { openSshSource } from '../../cli/src/client/artifacts/ssh.ts'
import { CLIENT } from '../../cli/src/limits/client.ts'
import { run } from '../../cli/src/program/invoke.ts'
import { berth, startBerth, startInTerminal } from '../../cli/src/testing/berth.ts'
import { testIo } from '../../cli/src/testing/io.ts'
import { missing } from '../fixtures/platform/components.ts'
import { until } from '../fixtures/server/installation.ts'
import { ClientSshd } from '../fixtures/sshd/client-sshd.ts'

const skipped = missing('sshd')
let fixture: ClientSshd
const WHERE = ['-p', 'shop', '-e', 'main']

/** A minute of yesterday, more than 24 hours ago. */
const MINUTE = new Date(Date.now() - 25 * 3_600_000).toISOString().slice(0, 16)
const at = (second: number, fraction = '') =>
  `${MINUTE}:${String(second).padStart(2, '0')}${fraction}Z`
const record = (second: number, service: string, text: string, fraction = '.000') => ({
  t: at(second, fraction),
  s: 'out',
  service,
  task: 7,
  text,
})

/** Runs the client in this process, with its own time and collected streams. */
async function here(args: string[], env: Record<string, string> = {}) {
  const io = testIo({ env: fixture.env(env), now: Date.now })
  const code = await run(args, io)
  return { code, stdout: io.stdout.text, stderr: io.stderr.text }
}

beforeAll(async () => {
  if (!skipped) fixture = await ClientSshd.start()
})
afterAll(() => fixture?.close())

describe.skipIf(skipped)('over certificates', () => {
  beforeEach(() => fixture.behave({ records: [] }))
  const left = () => readdirSync(fixture.file('run'))

  test('logs: formatted, by service, older than a day, filtered, as NDJSON; nothing stays', async () => {
    fixture.behave({
      records: [
        { kind: 'gone', service: 'web', days: '2026-11-01' },
        record(2, 'web', 'GET /cart 200 12ms', '.123456789'),
        record(3, 'api', '\u001b[31mboom\u001b[0m \u001b]0;title\u0007'),
        record(4, 'web', 'GET /healthz 200'),
      ],
    })
    const all = await here(['logs', ...WHERE, '--since', '26h'])
    expect(all.code, all.stderr).toBe(0)
    expect(all.stdout).toBe(
      `${at(2)} web  GET /cart 200 12ms\n${at(3)} api  boom \n${at(4)} web  GET /healthz 200\n`,
    )
    expect(all.stderr).toBe('warning: web: its logs of 2026-11-01 are gone\n')
    expect(fixture.asked()[0]).toMatch(/^logs - --since=2\d{3}-\S+Z --timestamps$/)
    const some = await here(['logs', ...WHERE, '-s', 'web', '-n', '5', '--grep', 'cart$|ms$', '-t'])
    expect(some.stdout).toBe(`${at(2, '.123456789')} web  GET /cart 200 12ms\n`)
    expect(fixture.asked().at(-1)).toBe('logs web --tail=5 --timestamps')
    const json = await here(['logs', ...WHERE, '--json'])
    const lines = json.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(lines.map((one) => one.text ?? one.kind)).toEqual([
      'gone',
      'GET /cart 200 12ms',
      '\u001b[31mboom\u001b[0m \u001b]0;title\u0007',
      'GET /healthz 200',
    ])
    expect(json.stdout).not.toContain('\u001b')
    expect(left()).toEqual([])
  })

  test('several services are merged by time', async () => {
    fixture.behave({
      records: [1, 2, 3, 4].map((n) => record(n, n % 2 ? 'web' : 'api', `line ${n}`)),
    })
    const { stdout } = await here(['logs', ...WHERE, '-s', 'web', '-s', 'api', '-n', '9'])
    expect(stdout.match(/line \d/g)).toEqual(['line 1', 'line 2', 'line 3', 'line 4'])
    expect(fixture.asked()).toHaveLength(2)
  })

  test('a connection that breaks is taken up again: nothing lost, nothing doubled', async () => {
    const records = [1, 2, 2, 2, 3, 4].map((n, i) => record(n, 'web', `line ${i}`))
    fixture.behave({ records: [...records, record(4, 'web', 'line 5')], cutAfter: 3 })
    const io = testIo({ env: fixture.env(), now: Date.now })
    const reading = run(['logs', ...WHERE, '--since', '2d'], io)
    await until('three lines', async () => (/line 2/.test(io.stdout.text) ? true : undefined))
    writeFileSync(fixture.file('state/cut-now'), '')
    expect(await reading, io.stderr.text).toBe(0)
    expect(io.stdout.text.match(/line \d/g)).toEqual([
      'line 0',
      'line 1',
      'line 2',
      'line 3',
      'line 4',
      'line 5',
      'line 5',
    ])
    const [first, second] = fixture.asked()
    expect(first).not.toBe(second)
    expect(second).toContain(`--since=${at(1, '.000')}`)
  })

  test('logs -f ends on Ctrl-C, on both sides: 130', async () => {
    fixture.behave({ records: [record(1, 'web', 'one')] })
    const running = startBerth(['logs', ...WHERE, '-f'], { env: fixture.env() })
    await running.shows(/one/)
    running.interrupt()
    const { code, stderr } = await running.ended
    expect([code, stderr]).toEqual([130, expect.stringContaining('the services keep running')])
    await until('the far end', async () => (fixture.read('state/ended') ? true : undefined))
    expect(left()).toEqual([])
  })

  test.each([
    [77, 6, 'this environment is being removed'],
    [44, 1, 'nothing is kept of that time'],
    [69, 1, 'the agent is not running'],
  ])('the forced command ends with %i: exit %i, its sentence', async (far, own, sentence) => {
    fixture.behave({ refuse: [far, sentence] })
    const { code, stdout, stderr } = await here(['logs', ...WHERE])
    expect([code, stdout]).toEqual([own, ''])
    expect(stderr).toContain(`error: ${sentence}\n`)
  })

  test('nothing there: the other log is named', async () => {
    const { code, stderr } = await here(['logs', ...WHERE])
    expect(code).toBe(0)
    expect(stderr).toBe(
      'no service runs yet in shop / main; it was never deployed: berth deploy -p shop -e main\n',
    )
  })

  test('no route to the port: logs are asked of the control plane, and both reasons are named', async () => {
    await fixture.stopSshd()
    try {
      const { code, stderr } = await here(['logs', ...WHERE])
      expect(code).toBe(1)
      const first = `fra-1:${fixture.port} is not reachable from here (connection refused)`
      expect(stderr).toContain(
        `No SSH to the server (${first}); reading through ${fixture.cp.url}\n`,
      )
      // the agent of this fixture answers no requests
      expect(stderr).toContain(`(over SSH: ${first})`)
      expect(stderr).toContain('deployment logs are still there: berth tasks log -p shop -e main')
      const forwarded = await here(['forward', '0:80', ...WHERE])
      expect([forwarded.code, forwarded.stderr]).toEqual([1, `error: ${first}\n`])
    } finally {
      await fixture.startSshd()
    }
  })

  test('forward: connections go through, a lost session is opened again, a revoked one ends it', async () => {
    for (const name of ['cut-now', 'revoke-now'])
      rmSync(fixture.file(`state/${name}`), { force: true })
    const service = createServer((_, response) => response.end('from the service')).listen(
      0,
      '127.0.0.1',
    )
    await once(service, 'listening')
    const { port } = service.address() as AddressInfo
    try {
      const args = ['forward', `0:web:${port}`, '0:9', '-s', 'db', ...WHERE]
      const io = testIo({ env: fixture.env(), now: Date.now })
      const running = run(args, io)
      await until('both ports', async () => (/db\t9\n/.test(io.stdout.text) ? true : undefined))
      const shown = /127\.0\.0\.1:(\d+)\tweb/.exec(io.stdout.text)?.[1]
      const closed = /127\.0\.0\.1:(\d+)\tdb/.exec(io.stdout.text)?.[1]
      const get = async (at = shown) => (await fetch(`http://127.0.0.1:${at}/`)).text()
      expect(await get()).toBe('from the service')
      await expect(get(closed)).rejects.toThrow()
      expect(fixture.asked().at(-1)).toBe(`forward web:${port} db:9`)
      writeFileSync(fixture.file('state/cut-now'), '')
      const isSaid = /the next connection opens a new session/
      await until('the loss', async () => (isSaid.test(io.stderr.text) ? true : undefined))
      rmSync(fixture.file('state/cut-now'))
      expect(await get()).toBe('from the service')
      expect(fixture.asked().filter((one) => one.startsWith('forward'))).toHaveLength(2)
      writeFileSync(fixture.file('state/revoke-now'), '')
      expect([await running, io.stderr.text]).toEqual([
        6,
        expect.stringContaining('Your access was ended.'),
      ])
      expect(io.stderr.text).toContain('db:9 cannot be reached.')
    } finally {
      rmSync(fixture.file('state/revoke-now'), { force: true })
      service.close()
    }
    expect(left()).toEqual([])
  })

  test('copy: both ways, whole or not at all, nothing replaced unasked', async () => {
    const dir = fixture.file('laptop')
    mkdirSync(join(dir, 'site/css'), { recursive: true })
    writeFileSync(join(dir, 'site/index.html'), 'hello')
    writeFileSync(join(dir, 'site/css/a.css'), 'x'.repeat(100_000))
    const up = await here(['copy', join(dir, 'site'), 'web:/www', ...WHERE])
    expect([up.code, up.stdout], up.stderr).toEqual([0, '2\t100005\tweb:/www\n'])
    expect(readFileSync(fixture.file('state/copied/css/a.css'), 'utf8')).toHaveLength(100_000)
    const down = await here(['copy', 'web:copied', join(dir, 'back'), ...WHERE])
    expect(down.code, down.stderr).toBe(0)
    expect(readFileSync(join(dir, 'back/index.html'), 'utf8')).toBe('hello')
    // into the folder that exists by now, under its own name
    const inside = await here(['copy', 'web:copied', join(dir, 'back'), ...WHERE])
    expect([inside.code, readdirSync(join(dir, 'back/copied'))]).toEqual([0, ['css', 'index.html']])
    const again = await here(['copy', 'web:copied', join(dir, 'back'), ...WHERE])
    expect([again.code, again.stderr]).toEqual([6, expect.stringContaining('add --force')])
    fixture.behave({ records: [] })
    const absent = await here(['copy', 'web:nothing', join(dir, 'nothing'), ...WHERE])
    expect(absent.code).toBe(1)
    expect(readdirSync(dir).toSorted()).toEqual(['back', 'site'])
    expect(left()).toEqual([])
  })

  test('the host certificate of another server is refused', async () => {
    const other = await fixture.cp.server('fra-2')
    await fixture.cp.call('PATCH', `/api/servers/${other.id}`, { ssh_port: fixture.port })
    const project = await fixture.cp.project('other', other.id)
    await fixture.cp.environment(project.id, 'main')
    const { WireAgent } = await import('../fixtures/platform/wire-agent.ts')
    ;(await WireAgent.join(fixture.cp, other.id)).close()
    const { code, stderr } = await here(['logs', '-p', 'other', '-e', 'main'])
    expect(code).toBe(1)
    expect(stderr).toContain('its host certificate is not the one of this server')
    expect(fixture.asked()).toEqual([])
  })

  test('ssh -- COMMAND: its words as they are, its exit code; a shell gets a terminal', async () => {
    const line = await berth(['ssh', ...WHERE, '--', 'echo one; echo two | tr a-z A-Z; exit 7'], {
      env: fixture.env(),
    })
    expect([line.stdout, line.code]).toEqual(['one\nTWO\n', 7])
    const words = ['sh', '-c', 'printf "%s|" "$@"; exit 44', '--', "it's", '$HOME', '-v', '--json']
    const ran = await berth(['ssh', ...WHERE, '--', ...words], { env: fixture.env() })
    expect([ran.code, ran.stdout]).toEqual([44, "it's|$HOME|-v|--json|"])
    const service = await berth(['ssh', ...WHERE, '-s', 'web', '--', 'true'], {
      env: fixture.env(),
    })
    expect(service.code).toBe(0)
    expect(fixture.asked().at(-1)).toMatch(/^exec web \S+$/)
    const piped = await berth(['ssh', ...WHERE, '--', 'cat'], { env: fixture.env(), stdin: 'in\n' })
    expect(piped.stdout).toBe('in\n')
    const shell = startInTerminal(['ssh', ...WHERE, '-s', 'web'], { env: fixture.env() })
    const { code, stdout } = await shell.ended
    expect(code, stdout).toBe(0)
    expect(stdout).toMatch(
      /Connecting to shop \/ main on fra-1 \(certificate \d+, valid \d min\)[\s\S]*shell web tty/,
    )
    fixture.behave({ refuse: [77, 'not yours'] })
    expect((await berth(['ssh', ...WHERE], { env: fixture.env() })).code).toBe(6)
    expect(left()).toEqual([])
  })

  test('ssh of a whole server needs what the server says', async () => {
    const closed = await here(['ssh', '--server', 'fra-1'])
    expect(closed.code).toBe(6)
    await fixture.cp.call('PATCH', `/api/servers/${fixture.server.id}`, { shell_enabled: true })
    const open = await berth(['ssh', '--server', 'fra-1'], { env: fixture.env() })
    expect([open.code, open.stdout]).toEqual([0, 'server  pipe\n'])
  })

  test('ssh cert signs a key of one’s own', async () => {
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', fixture.file('mine')])
    const args = ['ssh', 'cert', '--server', 'fra-1', ...WHERE, '--public-key']
    const { code, stdout, stderr } = await here([...args, fixture.file('mine.pub')])
    expect(code, stderr).toBe(0)
    writeFileSync(fixture.file('mine-cert.pub'), stdout)
    const listed = execFileSync('ssh-keygen', [
      '-L',
      '-f',
      fixture.file('mine-cert.pub'),
    ]).toString()
    expect(listed).toContain(`berth:server:${fixture.server.id}:shell`)
    expect(stderr).toContain(
      `@cert-authority server-${fixture.server.id}.berth.internal ssh-ed25519`,
    )
    const secret = await here([...args, fixture.file('mine')])
    expect([secret.code, secret.stdout]).toEqual([2, ''])
    const json = await here([...args, fixture.file('mine.pub'), '--json'])
    expect(JSON.parse(json.stdout).user).toBe('berth-shell')
  })

  test('artifacts: whole and right or not there, resumed, refused, or the other way', async () => {
    const bytes = Buffer.from('order,total\n1,9.90\n')
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    const file_id = '0b6f2c1e-5d7a-4e0b-9c51-7f3a2d8e6b40'
    const artifact = { file_id, path: 'exports/orders.csv', size_bytes: bytes.length, sha256 }
    const io = testIo({ env: fixture.env(), now: Date.now })
    const { url: baseUrl, token } = fixture.cp
    const api = createApi({ baseUrl, token, organizationId: null, io, debug: false })
    const place = { server: fixture.server, environmentId: fixture.environment.id }
    const noted: string[] = []
    const note = async (text: string) => void noted.push(text)
    const fetch = async (how: object, direct = false) => {
      rmSync(fixture.file('out'), { recursive: true, force: true })
      fixture.behave({
        artifact: { size: bytes.length, sha256, bytes: bytes.toString('base64'), ...how },
      })
      const source = openSshSource({ api, io }, place, { direct, note })
      const one = { ...artifact, id: 1 } as Artifact
      const options = { dir: fixture.file('out'), force: false, sleep: io.sleep }
      const paths: string[] = []
      await fetchArtifacts(source, [one], options, async (fetched) => {
        paths.push(...fetched.map(({ path }) => path))
      })
      return paths[0] ?? ''
    }
    const nothing = () => readdirSync(fixture.file('out/exports'))
    expect(readFileSync(await fetch({})).equals(bytes)).toBe(true)
    expect(fixture.asked()).toEqual([`artifact ${file_id}`])
    await expect(fetch({ bytes: Buffer.from('x'.repeat(19)).toString('base64') })).rejects.toThrow(
      'is not the file that was collected',
    )
    expect(nothing()).toEqual([])
    await expect(fetch({ sha256: 'f'.repeat(64) })).rejects.toThrow('another file than it listed')
    await expect(fetch({ bytes: '' })).rejects.toThrow('0 of 19 bytes came')
    const more = Buffer.concat([bytes, bytes]).toString('base64')
    await expect(fetch({ bytes: more })).rejects.toThrow('more came than the file has')
    await expect(fetch({ code: 44 }), 'what is there after an end that was none').rejects.toThrow()
    expect(nothing()).toEqual([])
    const resumed = await fetch({ cutAfter: 8, cutWhen: fixture.file('out/exports') })
    expect(readFileSync(resumed).equals(bytes)).toBe(true)
    expect(fixture.asked()).toEqual([`artifact ${file_id}`, `artifact ${file_id} 8`])
    fixture.behave({ refuse: [44, 'exports/orders.csv is gone'] })
    const gone = openSshSource({ api, io }, place, { direct: false, note })
    await expect(gone.open({ ...artifact, id: 1 } as Artifact, 0)).rejects.toMatchObject({
      exitCode: 1,
      message: 'exports/orders.csv is gone',
    })
    expect(noted).toEqual([])
    await fixture.stopSshd()
    try {
      await expect(fetch({}, true)).rejects.toThrow('is not reachable over SSH from here')
      await expect(fetch({})).rejects.toMatchObject({ status: 404 }) // requested through the control plane
      expect(noted).toEqual([expect.stringContaining(`fetching through ${baseUrl}`)])
    } finally {
      await fixture.startSshd()
    }
    expect(left()).toEqual([])
  })

  test('several artifacts: in one session, gone on with after a break; the first that fails ends it', async () => {
    const bytes = Buffer.from('order,total\n1,9.90\n')
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    const io = testIo({ env: fixture.env(), now: Date.now })
    const { url: baseUrl, token } = fixture.cp
    const api = createApi({ baseUrl, token, organizationId: null, io, debug: false })
    const place = { server: fixture.server, environmentId: fixture.environment.id }
    const note = async () => {}
    const files = ['a', 'b', 'c'].map((name) => {
      const common = { id: 1, sha256, size_bytes: bytes.length, name }
      return { ...common, file_id: `id-${name}`, path: `exports/${name}` } as Artifact
    })
    const folder = fixture.file('several')
    const fetch = async (how: object, more: object = {}) => {
      rmSync(folder, { recursive: true, force: true })
      const artifact = { size: 19, sha256, bytes: bytes.toString('base64'), ...how }
      fixture.behave({ artifact, ...more })
      const source = openSshSource({ api, io }, place, { direct: true, note })
      const reported: string[] = []
      const options = { dir: folder, force: false, sleep: io.sleep }
      const end = await fetchArtifacts(source, files, options, async (fetched) => {
        reported.push(...fetched.map(({ artifact }) => artifact.name))
      }).then(
        () => 'done',
        (error: Error) => error.message,
      )
      return { end, reported, there: readdirSync(join(folder, 'exports')) }
    }
    const all = ['a', 'b', 'c']
    expect(await fetch({})).toEqual({ end: 'done', reported: all, there: all })
    expect(fixture.asked()).toEqual(['artifacts id-a id-b id-c'])
    const line = `size=19 sha256=${sha256}\n`.length
    // cut in the middle of a line: that file and the rest are fetched again
    const cutWhen = join(folder, 'exports/a')
    expect(await fetch({ cutAfter: line + 19 + 10, cutWhen })).toEqual({
      end: 'done',
      reported: all,
      there: all,
    })
    expect(fixture.asked().slice(1)).toEqual(['artifacts id-b id-c'])
    const short = await fetch({ bytes: bytes.subarray(1).toString('base64') })
    expect(short).toMatchObject({ reported: [], there: [] })
    const failed = await fetch({ code: 44 })
    expect(failed).toMatchObject({ reported: ['a', 'b'], there: ['a', 'b'] })
    expect(await fetch({}, { ignorant: true }), 'an agent of before').toMatchObject({ there: all })
    expect(fixture.asked()).toEqual(['artifacts -', ...all.map((name) => `artifact id-${name}`)])
    const [, b, c] = files as [Artifact, Artifact, Artifact]
    files.splice(1, 2, c, { ...b, size_bytes: CLIENT.ownSessionBytes })
    expect(await fetch({}), 'a large one has a session of its own').toMatchObject({
      reported: ['a', 'c'],
      end: expect.stringContaining('another file than it listed'),
    })
    expect(fixture.asked()).toEqual(['artifacts id-a id-c', 'artifact id-b'])
    expect(left()).toEqual([])
  })

  test('folders of clients that were killed are swept, those of living ones are not', async () => {
    const old = new Date(Date.now() - 2 * 3_600_000)
    const names = [`berth-ssh-999999999-abcdef`, `berth-ssh-${process.pid}-abcdef`]
    for (const name of names) {
      mkdirSync(fixture.file(`run/${name}`))
      writeFileSync(fixture.file(`run/${name}/id`), '')
      utimesSync(fixture.file(`run/${name}`), old, old)
    }
    expect((await here(['logs', ...WHERE])).code).toBe(0)
    expect(left()).toEqual([names[1]])
  })
})
