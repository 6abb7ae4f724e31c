// Every command of the table: in a pipe, on a terminal, as JSON, and each exit code it can return. Fails for a command
// without a row.
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { run } from '../program/invoke.ts'
import { COMMANDS } from '../program/program.ts'
import { CLIENT_MAIN, temporaryFolder, testEnvironment } from '../testing/berth.ts'
import { ROWS } from '../testing/every-command.ts'
import { type Everything, startEverything } from '../testing/everything.ts'
import { type TestIo, testIo, testSink } from '../testing/io.ts'
import { problem } from '../testing/peer.ts'
import { me } from '../testing/samples.ts'

interface Ran {
  io: TestIo
  code: number
}

async function call(
  path: string,
  args: readonly string[],
  { env, folder }: Pick<Everything, 'env' | 'folder'>,
  how: { terminal?: boolean; interrupted?: boolean } = {},
): Promise<Ran> {
  const sink = () => testSink(how.terminal ? { isTTY: true, columns: 100 } : {})
  const stdin = {
    isTTY: path === 'mcp serve',
    read: async () => 'berth_pat_test\n',
    readLine: async () => null,
    readSecret: async () => null,
  }
  const io = testIo({ env, cwd: folder, stdin, stdout: sink(), stderr: sink() })
  if (how.interrupted) io.interrupt()
  const words = args.map((word) => word.replace('{folder}', folder))
  const own = path === 'ssh shell' ? ['ssh'] : path.split(' ')
  return { io, code: await run([...own, ...words], io) }
}

/** Colours may stay on a terminal, but no other sequence that a terminal obeys. */
const withoutColours = (text: string) =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  text.replace(/\u001b\[[0-9;]*[mAJ]/g, '')
const CONTROL = /[^\P{Cc}\n\t\r]/u

it('every command has a row', () => {
  expect(Object.keys(ROWS).sort()).toEqual(COMMANDS.map((spec) => spec.path).sort())
})

/** Commands whose usual exit code here is not 0. */
const USUAL: Record<string, number> = {
  forward: 6,
  'mcp serve': 2,
  'orgs use': 2,
  'projects check': 6,
  'context use': 5,
  'context remove': 5,
}

describe.each(Object.entries(ROWS))('berth %s', (path, row) => {
  const args = row.args ?? []
  const usual = USUAL[path] ?? 0

  it('in a pipe, on a terminal, as JSON', async () => {
    const all = await startEverything()
    const piped = await call(path, args, all)
    expect(piped.code, piped.io.stderr.text).toBe(usual)
    expect(piped.io.stdout.text).toMatch(row.pipe)
    expect(piped.io.stdout.text + piped.io.stderr.text).not.toMatch(CONTROL)
    const shown = await call(path, args, all, { terminal: true })
    const both = withoutColours(shown.io.stdout.text + shown.io.stderr.text)
    expect(shown.code, both).toBe(usual)
    expect(both).toMatch(row.shown)
    expect(both).not.toMatch(CONTROL)
    if (row.json === 'none') return
    const { io, code } = await call(path, [...args, '--json'], all)
    expect(code, io.stderr.text).toBe(usual)
    const documents = row.json === 'lines' ? io.stdout.text.trim().split('\n') : [io.stdout.text]
    for (const text of documents) expect(() => JSON.parse(text), text).not.toThrow()
  })

  it('each exit code', async () => {
    const all = await startEverything()
    const end = async (words: readonly string[], env = all.env, interrupted = false) =>
      (await call(path, words, { ...all, env }, { interrupted })).code
    expect(await end([...args, '--bogus'])).toBe(2)
    if (!row.offline && usual === 0) {
      const nowhere = { ...all.env, BERTH_URL: 'http://127.0.0.1:9' }
      const token = path === 'login' ? 1 : 4
      const { BERTH_TOKEN: _, ...anonymous } = all.env
      expect(await end(args, nowhere), 'no contact').toBe(1)
      if (path !== 'login') expect(await end(args, anonymous), 'not logged in').toBe(token)
      expect(await end(args, all.env, true), 'Ctrl-C').toBe(130)
    }
    if (row.changes) {
      all.peer.script(row.changes, problem('permission_denied', 'You may not.'))
      const words = path === 'projects webhook' ? [...args, '--rotate-secret', '--yes'] : args
      expect(await end(words), 'refused').toBe(6)
    }
    for (const [code, words, prepare] of row.exits ?? []) {
      const fresh = await startEverything()
      prepare?.(fresh.peer, fresh)
      const ran = await call(path, words, fresh)
      expect(ran.code, `${words.join(' ')}: ${ran.io.stderr.text}`).toBe(code)
    }
  })
})

it('what is not there: 5', async () => {
  const all = await startEverything()
  for (const [path, words] of [
    ['deploy', ['-p', 'shop', '-e', 'nope']],
    ['envs show', ['-p', 'nope', '-e', 'pr-42']],
    ['server show', ['nope']],
    ['tasks show', ['99']],
    ['logs', ['-p', 'shop', '-e', 'nope']],
    ['ssh shell', ['--server', 'nope']],
    ['api', ['nothing/here']],
  ] as const) {
    const { code, io } = await call(path, words, { ...all, folder: temporaryFolder() })
    expect(code, `${path}: ${io.stderr.text}`).toBe(5)
  }
})

const root = fileURLToPath(new URL('../../..', import.meta.url))
/** The oldest supported Node.js, a package of the tests. */
const OLDEST = join(root, `test/node_modules/node18-linux-${process.arch}/bin/node`)

const isBundled = CLIENT_MAIN.endsWith('.cjs')

describe.skipIf(!isBundled || !existsSync(OLDEST))(
  'the bundled client under the oldest Node',
  () => {
    async function old(args: string[], all: Everything, input: string, flags: string[] = []) {
      const child = spawn(OLDEST, [...flags, CLIENT_MAIN, ...args], {
        cwd: all.folder,
        env: testEnvironment(all.env),
      })
      const said = { out: '', err: '', code: -1 }
      child.stdout.on('data', (chunk) => {
        said.out += chunk
      })
      child.stderr.on('data', (chunk) => {
        said.err += chunk
      })
      child.stdin.on('error', () => {}) // most read nothing
      child.stdin.end(input)
      said.code = await new Promise((resolve) => child.once('close', (code) => resolve(code ?? -1)))
      return said
    }

    it.each(Object.entries(ROWS))('berth %s', async (path, row) => {
      const all = await startEverything()
      const words = (row.args ?? []).map((word) => word.replace('{folder}', all.folder))
      const own = path === 'ssh shell' ? ['ssh'] : path.split(' ')
      if (path === 'mcp serve') {
        const client = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: NAMED }
        const asked = { jsonrpc: '2.0', id: 1, method: 'initialize', params: client }
        const { out, code, err } = await old(own, all, `${JSON.stringify(asked)}\n`)
        expect([code, err, JSON.parse(out)]).toMatchObject([0, '', { result: SERVED }])
        return
      }
      const { out, err, code } = await old([...own, ...words], all, 'berth_pat_test\n')
      expect(code, err).toBe(USUAL[path] ?? 0)
      expect(out).toMatch(row.pipe)
    })
    const NAMED = { name: 'test', version: '1' }
    const SERVED = { serverInfo: { name: 'berth' } }

    it('colours are its own', async () => {
      const all = await startEverything()
      Object.assign(all.env, { FORCE_COLOR: '1' })
      const { err } = await old(['server', 'show', 'nope'], all, '')
      expect(err).toContain('\u001b[31m')
    })

    it('an authority is trusted with --cacert', async () => {
      const all = await startEverything()
      const [key, cert] = [join(all.folder, 'key.pem'), join(all.folder, 'cert.pem')]
      const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost']
      const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
      const files = ['-keyout', key, '-out', cert]
      execFileSync('openssl', ['req', '-x509', ...newKey, ...files, ...subject], { stdio: 'pipe' })
      const server = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (_, res) =>
        res.setHeader('content-type', 'application/json').end(JSON.stringify(me())),
      )
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      const { port } = server.address() as AddressInfo
      Object.assign(all.env, { BERTH_URL: `https://localhost:${port}` })
      expect((await old(['whoami'], all, '')).err).toContain('is not trusted')
      expect(await old(['whoami', '--cacert', cert], all, '')).toMatchObject({ code: 0, err: '' })
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    })

    it('one that is too old is told which it needs', async () => {
      const all = await startEverything()
      const older = join(all.folder, 'older.cjs')
      writeFileSync(
        older,
        "Object.defineProperty(process.versions, 'node', { value: '16.20.2' })\n",
      )
      const { code, out, err } = await old(['--version'], all, '', ['--require', older])
      const sentence = 'berth: Node.js 18 or newer is needed; this is 16.20.2.\n'
      expect([code, out, err]).toEqual([1, '', sentence])
    })
  },
)
