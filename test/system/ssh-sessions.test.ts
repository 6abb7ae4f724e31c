// Sessions on a server with a real sshd: what each verb does, and how sessions end: by the user, by revocation of the
// certificate, by the death of the client, also across a restart of the agent.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { AttemptState, Recipe } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PROCESSES } from '../../agent/src/limits/machine.ts'
import { inspectContainer, listOwnedContainers } from '../../agent/src/machine/docker/containers.ts'
import { openEngine } from '../../agent/src/machine/docker/engine.ts'
import { environmentPaths } from '../../agent/src/machine/files.ts'
import { Cgroup, detectCgroups, listCgroups } from '../../agent/src/machine/process/cgroups.ts'
import {
  hasMarker,
  isSameProcess,
  listProcesses,
  readProcess,
} from '../../agent/src/machine/process/processes.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import { type Deployment, eventually, type Repository } from '../fixtures/server/deployment.ts'
import { isRoot } from '../fixtures/server/server.ts'
import { type Attempt, SshFixture } from '../fixtures/sshd/server.ts'

const SECRET = 'tr0ub4dor-and-3'
/** The control plane's memory limit for its commands. */
const MEMORY = 768n * 1_024n ** 2n
const MANUAL = `
manual:
  deploy: [{ run: 'true' }]
  services:
    web: { run: 'echo "the token is $TOKEN"; while read -r line; do echo "$line"; done <> $BERTH_SHARED_DIR/say' }
actions:
  export: { run: 'mkdir -p out; printf "a,b\\n1,2\\n" > out/orders.csv; head -c 12000000 /dev/zero > out/zeros.csv; yes 0123456 | head -c 24000000 > out/p-large.csv', artifacts: { paths: ['out/*.csv'] } }
`
const PREPARED = MANUAL.replace(
  "run: 'true'",
  "run: 'rm -f $BERTH_SHARED_DIR/say; mkfifo $BERTH_SHARED_DIR/say'",
)
const DOCKER = `
docker:
  services: { job: { image: berth-test/busybox, command: 'exec sleep 1000' } }
`
const argvOf = (...argv: string[]): string =>
  Buffer.from(JSON.stringify(argv)).toString('base64url')

let fixture: SshFixture

async function succeeded(deployment: Promise<Deployment>): Promise<Deployment> {
  const done = await deployment
  const verdict = await done.verdict()
  expect(verdict, done.log() + done.runnerLog()).toMatchObject({ state: AttemptState.SUCCEEDED })
  return done
}

const shell = async (over: Partial<Attempt> = {}, grant: object = {}): Promise<Attempt> => ({
  certificate: await fixture.shell(grant),
  account: 'berth-shell',
  ...over,
})
const exec = (argv: string[], over: Partial<Attempt> = {}, grant: object = {}) =>
  shell({ words: ['exec', '-', argvOf(...argv)], ...over }, grant)

/** Resolves when the output contains the text; the child continues. */
function follow(attempt: Attempt) {
  const { child, ended } = fixture.spawn(attempt)
  let seen = ''
  child.stdout?.on('data', (chunk: Buffer) => {
    seen += chunk.toString('latin1')
  })
  const shows = (what: RegExp) =>
    eventually(() => what.test(seen) || undefined, `${what} in ${seen}`)
  return { child, ended, shows }
}

/** The reports about sessions for the control plane. */
const reported = () =>
  fixture.facts().flatMap(({ body }) => (body.case === 'sshSession' ? [body.value] : []))

describe.skipIf(missing('sshd') || !isRoot)('a session', () => {
  let repository: Repository
  let export1: Deployment

  beforeAll(async () => {
    fixture = await SshFixture.open()
    repository = fixture.host.repository()
    repository.commit({ '.service.yml': PREPARED, 'hello.txt': 'hello\n' })
    const limits = { memoryBytes: MEMORY }
    await succeeded(fixture.host.deploy(repository, { variables: { TOKEN: SECRET }, limits }))
    export1 = await succeeded(fixture.host.deploy(repository, { action: 'export' }))
  })
  afterAll(() => fixture.close())

  test('runs a command as the environment, in its release, with its values masked', async () => {
    const script = 'id -un; cat hello.txt; echo "$TOKEN" | rev | rev; echo oops >&2; exit 7'
    const { code, out, err } = await fixture.login(await exec(['sh', '-c', script]))
    const account = `${fixture.settings.accountPrefix}1`
    expect({ code, out, err }).toEqual({ code: 7, out: `${account}\nhello\n***\n`, err: 'oops\n' })
  })

  test('has nothing but its three descriptors, in a command and in a shell', async () => {
    const list = 'ls -m /proc/$$/fd; echo listed'
    const command = await fixture.login(await exec(['sh', '-c', list]))
    expect(command).toMatchObject({ code: 0, out: '0, 1, 2\nlisted\n' })
    const typed = `sh -c '${list}'; exit\n`
    const { out } = await fixture.login(await shell({ words: ['shell'], flags: ['-tt'], typed }))
    expect(out).toMatch(/^0, 1, 2\r\nlisted\r$/m)
  })

  test('is bound like a step of its environment, and everything in it ends with it', async () => {
    const { accountPrefix } = fixture.settings
    const groups = (): string[] => listCgroups(detectCgroups(), `${accountPrefix}1-ssh-`)
    expect(groups()).toEqual([])
    // leaves the session and the process group, and drops the mark
    const leaving =
      'setsid env -i sh -c "echo \\$$ >$BERTH_SHARED_DIR/escaped; sleep 300" >/dev/null 2>&1 &'
    const script = `${leaving} cat /proc/self/cgroup; echo ready; read -r word`
    const { child, ended, shows } = follow(await exec(['sh', '-c', script]))
    await shows(/ready/)
    const [group = ''] = await eventually(() => groups().length > 0 && groups(), 'its group')
    const { shared } = environmentPaths(fixture.settings, 1)
    const escaped = await eventually(() => {
      const file = join(shared, 'escaped')
      return existsSync(file) && Number(readFileSync(file, 'utf8'))
    }, 'the process that escapes')
    expect(Cgroup.create(detectCgroups(), group)?.members()).toContain(escaped)
    const { pids, unified, memory } = detectCgroups()
    const bound = (folder: string | undefined, file: string): number | undefined => {
      const path = join(folder ?? '', group, file)
      return folder && existsSync(path) ? Number(readFileSync(path, 'utf8')) : undefined
    }
    const most = bound(pids, 'pids.max') ?? bound(unified, 'pids.max')
    expect([PROCESSES.pids, undefined]).toContain(most)
    const bytes = bound(memory, 'memory.limit_in_bytes') ?? bound(unified, 'memory.max')
    expect([Number(MEMORY), undefined]).toContain(bytes)
    child.stdin?.end('go\n')
    expect(await ended).toMatchObject({ code: 0 })
    await eventually(() => groups().length === 0, 'the end of its group')
    expect(readProcess(escaped)).toBeUndefined()
  })

  test('hands input to a command, and its end too', async () => {
    const done = await fixture.login(await exec(['cat'], { typed: 'one\ntwo\n', input: 'ends' }))
    expect(done).toMatchObject({ code: 0, out: 'one\ntwo\n', err: '' })
  })

  test('shows the log of services, then what comes, until the input ends', async () => {
    const attempt = { certificate: await fixture.honest(), words: ['logs', 'web', '--follow'] }
    const { child, ended, shows } = follow(attempt)
    await shows(/"text":"the token is \*\*\*"/)
    const say = `echo second > "$BERTH_SHARED_DIR/say"`
    expect(await fixture.login(await exec(['sh', '-c', say]))).toMatchObject({ code: 0 })
    await shows(/"service":"web".*"text":"second"/)
    child.stdin?.end()
    expect(await ended).toMatchObject({ code: 0, err: '' })
  })

  test('sends a stored file with its size and hash, from an offset too', async () => {
    const [artifact] = export1.bodies('artifacts').flatMap(({ artifacts }) => artifacts)
    const id = artifact?.artifactId ?? ''
    const get = async (words: string[], grant: object = {}) => {
      const certificate = await fixture.honest({ can: ['artifact'], ...grant })
      return fixture.login({ certificate, words: ['artifact', ...words] })
    }
    const bytes = 'a,b\n1,2\n'
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    const whole = { code: 0, out: bytes, err: `size=8 sha256=${sha256}\n` }
    expect(await get([id])).toEqual(whole)
    expect(await get([id, '4'])).toMatchObject({ code: 0, out: '1,2\n' })
    const gone = { code: 44, out: '', err: expect.stringMatching(/^berth: /) }
    expect(await get([id], { environment: 2 }), 'of another environment').toEqual(gone)
    const NOWHERE = '00000000-0000-0000-0000-000000000000'
    expect(await get([NOWHERE])).toEqual(gone)
    const several = async (ids: string[]) => {
      const certificate = await fixture.honest({ can: ['artifact'] })
      return fixture.login({ certificate, words: ['artifacts', ...ids] })
    }
    const one = `size=8 sha256=${sha256}\n${bytes}`
    expect(await several([id, id])).toEqual({ code: 0, out: one + one, err: '' })
    expect(await several([id, NOWHERE, id])).toEqual({ ...gone, out: one })
    expect(reported().at(-1)).toMatchObject({ verb: 'artifacts', endReason: 'done' })
    const behind = async (typed: string) => {
      const certificate = await fixture.honest({ can: ['artifact'] })
      return fixture.login({ certificate, words: ['artifacts', '-'], typed, input: 'open' })
    }
    expect(await behind(`${id} ${id}\n`), 'ids on the input').toMatchObject({ out: one + one })
    const refused = { code: 77, out: '', err: expect.stringMatching(/^berth: /) }
    expect(await behind(`${id} ../x\n`)).toEqual(refused)
    expect(await behind(`${id}\n${id}\n`)).toEqual(refused)
    const copy = join(fixture.settings.stateDir, 'artifacts', 'e1', String(export1.taskId), id)
    renameSync(copy, `${copy}.aside`)
    symlinkSync('/etc/passwd', copy)
    expect(await get([id]), 'a link in its place').toEqual(gone)
  })

  test('is refused where nothing runs', async () => {
    const done = await fixture.login(await exec(['true'], {}, { environment: 99 }))
    expect(done).toMatchObject({ code: 44, out: '' })
    expect(done.err).toMatch(/^berth: Nothing of this environment runs here/)
  })

  test('ends with its client, and what it ran ends too', async () => {
    const attempt = await exec(['sh', '-c', 'echo $$; exec sleep 1000'], { input: 'ends' })
    const { child, shows } = follow(attempt)
    await shows(/^\d+\n/)
    const row = await eventually(() => fixture.sessions[0], 'the session in the book')
    child.kill('SIGKILL')
    await eventually(() => fixture.sessions.length === 0, 'the end of the session')
    expect(withMarker(row.id)).toEqual([])
    expect(reported().at(-1)).toMatchObject({ verb: 'exec', endReason: 'disconnected' })
  })

  const withMarker = (id: string) =>
    listProcesses().filter(({ pid }) => hasMarker(pid, `BERTH_SSH_SESSION=${id}`))

  test('ends when its certificate is revoked, whatever it does', async () => {
    const [one, two] = [fixture.nextSerial(), fixture.nextSerial()]
    const logs = follow({
      certificate: await fixture.honest({}, { serial: one }),
      words: ['logs', '-', '--follow'],
    })
    const person = follow({
      certificate: await fixture.honest({ can: ['shell'] }, { serial: two, shell: true }),
      account: 'berth-shell',
      words: ['shell'],
      flags: ['-tt'],
      typed: "trap '' HUP TERM; echo in-$((40 + 2))\n",
    })
    await Promise.all([logs.shows(/the token/), person.shows(/in-42/)])
    const ids = fixture.sessions.map(({ id }) => id)
    expect(ids).toHaveLength(2)
    await fixture.trust([fixture.ca], [one, two])
    const [first, second] = await Promise.all([logs.ended, person.ended])
    expect([first.code, second.code]).not.toContain(0)
    expect(ids.flatMap(withMarker)).toEqual([])
    const ended = reported().filter(({ serial, endedAt }) => endedAt && [one, two].includes(serial))
    expect(ended.map(({ endReason }) => endReason)).toEqual(['revoked', 'revoked'])
    expect(ended.map(({ verb }) => verb).toSorted()).toEqual(['logs', 'shell'])
  })

  test('of files that the daemon sends itself ends with its certificate, too, read or not', async () => {
    const files = export1.bodies('artifacts').flatMap(({ artifacts }) => artifacts)
    const serial = fixture.nextSerial()
    const certificate = await fixture.honest({ can: ['artifact'] }, { serial })
    const words = ['artifacts', files.at(-1)?.artifactId ?? '']
    const { child, ended } = fixture.spawn({ certificate, words, input: 'open' })
    child.stdout?.pause()
    const row = await eventually(() => fixture.sessions[0], 'the session in the book')
    expect(row).toMatchObject({ verb: 'artifacts', work: null })
    await fixture.trust([fixture.ca], [serial])
    expect(fixture.sessions).toEqual([])
    expect(reported().at(-1)).toMatchObject({ serial, endReason: 'revoked' })
    child.stdout?.resume()
    const { code, out } = await ended
    expect(code).not.toBe(0)
    expect(out.length).toBeLessThan(12_000_000)
  })

  describe('of a large file, whose bytes a program of the system copies', () => {
    const LINE = '0123456\n'
    const find = (name: string) =>
      export1
        .bodies('artifacts')
        .flatMap(({ artifacts }) => artifacts)
        .find(({ relativePath }) => relativePath === `out/${name}.csv`)?.artifactId ?? ''
    const headed = /^size=24000000 sha256=[0-9a-f]{64}\n/

    test('gives all of it, and what comes behind it', async () => {
      const certificate = await fixture.honest({ can: ['artifact'] })
      const words = ['artifacts', find('p-large'), find('zeros'), find('p-large')]
      const { code, out, err } = await fixture.login({ certificate, words })
      expect([code, err]).toEqual([0, ''])
      const whole = LINE.repeat(3_000_000)
      const head = headed.exec(out)?.[0] ?? ''
      const rest = out.slice(head.length + whole.length)
      expect(head !== '' && out.startsWith(whole, head.length)).toBe(true)
      expect(rest.slice(0, 100)).toMatch(/^size=12000000 sha256=[0-9a-f]{64}\n\0/)
      expect(rest.endsWith(`\0${head}${whole}`)).toBe(true)
      await eventually(() => fixture.sessions.length === 0, 'the end of the session')
      const sent = BigInt(out.length)
      expect(reported().at(-1)).toMatchObject({ endReason: 'done', bytesSent: sent })
    })

    test('gives one by itself, with its header beside it, from an offset too', async () => {
      const get = async (...offset: string[]) => {
        const certificate = await fixture.honest({ can: ['artifact'] })
        return fixture.login({ certificate, words: ['artifact', find('p-large'), ...offset] })
      }
      const whole = LINE.repeat(3_000_000)
      const first = await get()
      expect([first.code, first.out === whole]).toEqual([0, true])
      expect(first.err).toMatch(headed)
      const rest = await get('23999988')
      expect(rest).toEqual({ code: 0, out: whole.slice(-12), err: first.err })
      expect(await get('24000000')).toEqual({ code: 0, out: '', err: first.err })
      expect(await get('24000001')).toEqual({
        code: 44,
        out: '',
        err: 'berth: out/p-large.csv has 24000000 bytes.\n',
      })
    })

    test('ends with its certificate in the middle of it, and puts nothing else among its bytes', async () => {
      const serial = fixture.nextSerial()
      const certificate = await fixture.honest({ can: ['artifact'] }, { serial })
      const words = ['artifacts', find('p-large')]
      const { child, ended } = fixture.spawn({ certificate, words, input: 'open' })
      const first = once(child.stdout as Readable, 'data')
      const row = await eventually(() => fixture.sessions.find(({ work }) => work), 'the session')
      await first
      child.stdout?.pause()
      await fixture.trust([fixture.ca], [serial])
      await eventually(() => fixture.sessions.length === 0, 'the end of the session')
      expect(withMarker(row.id)).toEqual([])
      child.stdout?.resume()
      const { code, out } = await ended
      expect(code).not.toBe(0)
      const came = out.replace(headed, '')
      expect(came.length).toBeLessThan(24_000_000)
      expect(LINE.repeat(3_000_000).startsWith(came)).toBe(true)
    })
  })

  test('of files whose ids came on the input ends with that input', async () => {
    const files = export1.bodies('artifacts').flatMap(({ artifacts }) => artifacts)
    const certificate = await fixture.honest({ can: ['artifact'] })
    const typed = `${files.at(-1)?.artifactId}\n`
    const { child, ended } = fixture.spawn({ certificate, words: ['artifacts', '-'], typed })
    child.stdout?.pause()
    await eventually(() => fixture.sessions[0], 'the session in the book')
    child.stdin?.end()
    await eventually(() => fixture.sessions.length === 0, 'the end of the session')
    expect(reported().at(-1)).toMatchObject({ verb: 'artifacts', endReason: 'input_ended' })
    child.stdout?.resume()
    const { code, out } = await ended
    // in the middle of a file's bytes the client can only report a lost connection
    expect([44, 69]).toContain(code)
    expect(out.length).toBeLessThan(12_000_000)
  })

  test('outlives the agent, is found again, and can still be ended', async () => {
    const serial = fixture.nextSerial()
    const certificate = await fixture.honest({}, { serial })
    const { ended, shows } = follow({ certificate, words: ['logs', '-', '--follow'] })
    await shows(/the token/)
    fixture.kill()
    const silent = await fixture.login({ certificate: await fixture.honest() })
    expect(silent).toMatchObject({ code: 69, err: expect.stringMatching(/not running/) })
    await fixture.start()
    const [found] = fixture.sessions
    expect(found).toMatchObject({ serial: String(serial), verb: 'logs', endedAt: null })
    expect(isSameProcess(found?.work?.pid ?? 0, found?.work?.startTicks ?? '')).toBe(true)
    await fixture.trust([fixture.ca], [serial])
    expect((await ended).code).not.toBe(0)
    expect(fixture.sessions).toEqual([])
    expect(reported().at(-1)).toMatchObject({ serial, endReason: 'revoked' })
  })

  test('of the whole server is an ordinary account, where the server itself allows it', async () => {
    const rules = join(fixture.settings.ssh.dir, '..', 'agent.json')
    writeFileSync(rules, JSON.stringify({ allow_server_shell: true }))
    const done = await fixture.login({
      certificate: await fixture.shell({ can: ['server'], environment: null }),
      account: 'berth-shell',
      words: ['server'],
      flags: ['-tt'],
      typed: 'id -un; exit 3\n',
    })
    expect(done.code, done.out).toBe(3)
    expect(done.out).toContain(`${fixture.settings.accountPrefix.replace(/e$/, 'host')}\r\n`)
    const passwd = readFileSync('/etc/passwd', 'utf8')
    expect(passwd).not.toMatch(/^\S*host:x:0:/m)
  })

  describe.skipIf(!dockerEngine())('in a container', () => {
    beforeAll(async () => {
      const docker = fixture.host.repository('docker')
      docker.commit({ '.service.yml': DOCKER })
      const request = { environmentId: 3, recipe: Recipe.DOCKER, variables: { TOKEN: SECRET } }
      await succeeded(fixture.host.deploy(docker, request))
    })
    afterAll(async () => {
      const docker = fixture.host.repository('docker')
      await fixture.host.deploy(docker, {
        environmentId: 3,
        recipe: Recipe.DOCKER,
        destroy: 'anyway',
      })
    })

    test('runs a command with the values of the service', async () => {
      const script = 'cat; hostname; echo "$TOKEN"; exit 5'
      const attempt = await exec(
        ['sh', '-c', script],
        { typed: 'given\n', input: 'ends' },
        { environment: 3 },
      )
      const done = await fixture.login(attempt)
      expect(done, done.err).toMatchObject({ code: 5 })
      expect(done.out).toMatch(/^given\n[\w-]+\n\*\*\*\n$/)
    })

    test('is in the container’s own group, whose bounds hold for it', async () => {
      const script = 'echo ready; read -r word'
      const attempt = await exec(['sh', '-c', script], {}, { environment: 3 })
      const { child, ended, shows } = follow(attempt)
      await shows(/ready/)
      const groupOf = (pid: number): string => readFileSync(`/proc/${pid}/cgroup`, 'utf8')
      const commandOf = (pid: number): string => readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      const marked = withMarker(fixture.sessions[0]?.id ?? '').map(({ pid }) => pid)
      const inside = marked.find((pid) => commandOf(pid).endsWith(`${script}\0`)) ?? 0
      expect(inside).toBeGreaterThan(0)
      expect(groupOf(inside)).not.toBe(groupOf(process.pid))
      const engine = openEngine(fixture.settings)
      const [container] = await listOwnedContainers(engine, fixture.settings, 3)
      const first = (await inspectContainer(engine, container?.id ?? ''))?.pid ?? 0
      expect(groupOf(inside)).toBe(groupOf(first))
      child.stdin?.end('go\n')
      expect(await ended).toMatchObject({ code: 0 })
    })

    test('gives a shell with a terminal, which ends when it must', async () => {
      const serial = fixture.nextSerial()
      const { ended, shows } = follow({
        certificate: await fixture.honest(
          { can: ['shell'], environment: 3 },
          { serial, shell: true },
        ),
        account: 'berth-shell',
        words: ['shell', 'job'],
        flags: ['-tt'],
        typed: 'tty; echo in-$((40 + 2)); sleep 1000\n',
      })
      await shows(/\/dev\/(pts\/\d+|console)[\s\S]*in-42/)
      const [session] = fixture.sessions
      await fixture.trust([fixture.ca], [serial])
      expect((await ended).code).not.toBe(0)
      expect(withMarker(session?.id ?? '')).toEqual([])
    })
  })
})
