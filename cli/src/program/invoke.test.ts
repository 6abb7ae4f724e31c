import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { EXIT } from '../terminal/exit.ts'
import { berth, nowhere, temporaryFolder } from '../testing/berth.ts'
import { staging, startInstallation } from '../testing/installation.ts'
import { type TestIo, testIo } from '../testing/io.ts'
import { environment, me } from '../testing/samples.ts'
import { completionLevels } from './completion.ts'
import { run } from './invoke.ts'
import { COMMANDS } from './program.ts'
import { GROUPS } from './spec.ts'

const AT = '2026-11-15T10:00:00Z'

async function runHere(...argv: string[]): Promise<{ io: TestIo; code: number }> {
  const io = testIo({ env: { BERTH_CONFIG_DIR: nowhere() } })
  return { io, code: await run(argv, io) }
}

describe('help', () => {
  it.each(COMMANDS.map((spec) => spec.path))('%s has an example and every flag', async (path) => {
    const { io, code } = await runHere(...path.split(' '), '--help')
    const spec = COMMANDS.find((one) => one.path === path)
    expect(code).toBe(0)
    expect(io.stdout.text).toContain('Examples:')
    for (const example of spec?.examples ?? []) expect(io.stdout.text).toContain(example)
    for (const flag of spec?.flags ?? []) expect(io.stdout.text).toContain(flag.flags)
    const viaHelp = await runHere('help', ...path.split(' '))
    expect(viaHelp.io.stdout.text).toBe(io.stdout.text)
  })

  it('berth alone lists the commands', async () => {
    const { io, code } = await runHere()
    expect(code).toBe(0)
    for (const word of ['deploy', 'envs', 'tasks', 'login']) expect(io.stdout.text).toContain(word)
  })

  it('groups the commands by task, and tells log from logs', async () => {
    const { io } = await runHere('help')
    const titles = io.stdout.text.match(/^[A-Z][^\n]*:$/gm)
    expect(titles).toEqual(
      expect.arrayContaining(['Deploy:', 'See what happened:', 'This client:']),
    )
    expect(titles).not.toContain('More:')
    expect(io.stdout.text).toContain('berth log (tasks log) shows what a deployment did.')
  })

  it('prints errors as JSON with --json, beside the line for people', async () => {
    const { io, code } = await runHere('tasks', 'show', '--json')
    expect(code).toBe(2)
    expect(JSON.parse(io.stdout.text)).toEqual({
      error: {
        message: 'missing: <id>',
        hint: 'berth help tasks show shows what it takes',
        exit_code: 2,
        code: null,
        status: null,
        request_id: null,
      },
    })
    expect(io.stderr.text).toContain('error: missing: <id>')
    // words of another program are not ours
    expect((await runHere('tasks', 'show')).io.stdout.text).toBe('')
  })

  it('exit-codes lists every code', async () => {
    const { io } = await runHere('help', 'exit-codes')
    const listed = io.stdout.text.match(/^ *\d+/gm)?.map(Number)
    expect(listed).toEqual(Object.values(EXIT))
  })
})

describe('words that are no command: 2', () => {
  it.each([
    [['deplyo'], "unknown command 'deplyo'", 'did you mean deploy?'],
    [['tasks', 'lgo'], "unknown command 'tasks lgo'", 'did you mean log?'],
    [['help', 'qqqqq'], "unknown command 'qqqqq'", 'commands: '],
    [['--bogus'], "unknown option '--bogus'", 'berth --help'],
    [['deploy', '--wiat'], "unknown option '--wiat'", 'did you mean --wait?'],
    [['tasks', 'show'], 'missing: <id>', 'berth help'],
    [['completion', 'tcsh'], "completion takes bash, zsh, fish, powershell, got 'tcsh'", ''],
  ])('%j', async (argv, message, hint) => {
    const { io, code } = await runHere(...argv)
    expect(code).toBe(2)
    expect(io.stdout.text).toBe('')
    expect(io.stderr.text).toContain(`error: ${message}\n`)
    expect(io.stderr.text).toContain(hint)
  })
})

it('global flags stand before or after the command; the nearer one wins', async () => {
  const { peer, env } = await startInstallation()
  const io = () => testIo({ env })
  for (const argv of [
    ['-p', 'shop', 'envs', '--json'],
    ['--json', 'envs', '-p', 'shop'],
    ['envs', '--json', 'list', '-p', 'shop'],
    ['-p', 'other', 'envs', '-p', 'shop', '--json'],
  ]) {
    const one = io()
    expect(await run(argv, one), argv.join(' ')).toBe(0)
    expect(JSON.parse(one.stdout.text)).toHaveLength(2)
  }
  expect(peer.asked('GET /api/projects/12/environments')).toHaveLength(4)
})

describe('--version', () => {
  it('the client’s, and the server’s when there is one', async () => {
    const { peer, env } = await startInstallation()
    const health = { status: 'ok', version: '1.14.2', setup_required: false, time: AT }
    peer.script('GET /api/health', { json: health })
    const { code, stdout, stderr } = await berth(['--version'], { env })
    expect(code).toBe(0)
    expect(stdout).toMatch(/^berth \d+\.\d+\.\d+\n$/)
    expect(stderr).toBe(`server 1.14.2 at ${peer.url}\n`)
    expect(peer.requests[0]?.headers.authorization).toBeUndefined()
    await peer.stop()
    const offline = await berth(['--version'], { env })
    expect([offline.code, offline.stdout]).toEqual([0, stdout])
  })

  it('needs no server and no login', async () => {
    const { code, stderr } = await berth(['--version'])
    expect([code, stderr]).toEqual([0, ''])
  })
})

describe('faults', () => {
  it('no contact: 1, with the address and the reason', async () => {
    const { peer, env } = await startInstallation()
    await peer.stop()
    const { code, stderr } = await berth(['projects'], { env })
    expect([code, stderr]).toEqual([1, `error: no contact with ${peer.url} (connection refused)\n`])
  })

  it('stack traces only with BERTH_DEBUG=1, requests with BERTH_DEBUG=api or -v', async () => {
    const { env } = await startInstallation()
    const plain = await berth(['tasks', 'show', '9'], { env })
    expect(plain.stderr.split('\n')).toHaveLength(2)
    const traced = await berth(['tasks', 'show', '9'], { env: { ...env, BERTH_DEBUG: '1' } })
    expect(traced.stderr).toMatch(/\n {4}at /)
    for (const [args, more] of [
      [['projects', '-v'], {}],
      [['projects'], { BERTH_DEBUG: 'api' }],
    ] as const) {
      const { stderr } = await berth([...args], { env: { ...env, ...more } })
      expect(stderr).toMatch(/^api: GET \/api\/projects 200 \d+ ms req_TEST01\n$/)
      expect(stderr).not.toContain('berth_pat_test')
    }
  })
})

describe('completion', () => {
  it('knows every command under every name', () => {
    const paths = new Set(completionLevels(COMMANDS).map((level) => level.path))
    for (const spec of COMMANDS.filter((one) => !one.hidden)) {
      expect(paths).toContain(spec.path)
      const [group = '', verb] = spec.path.split(' ')
      for (const alias of verb ? (GROUPS[group]?.aliases ?? []) : []) {
        expect(paths).toContain(`${alias} ${verb}`)
      }
    }
  })

  const complete = async (...words: string[]) => {
    const { io } = await runHere('completion', 'bash')
    const script = `${io.stdout.text}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _berth; printf '%s\\n' "\${COMPREPLY[@]}"`
    const out = execFileSync('bash', ['-c', script, 'bash', 'berth', ...words], {
      encoding: 'utf8',
    })
    return out.split('\n').filter(Boolean)
  }

  it('bash completes commands, subcommands, flags and choices', async () => {
    expect(await complete('dep')).toEqual(['deploy'])
    expect(await complete('-p', 'shop', 'env', '')).toEqual([
      'list',
      'show',
      'create',
      'edit',
      'set',
      'delete',
      'reset',
      'watch',
    ])
    expect(await complete('action', '')).toEqual(['list', 'history', 'run'])
    expect(await complete('actions', 'run', '--me')).toEqual(['--message'])
    expect(await complete('config', 'i')).toEqual(['init'])
    expect(await complete('deploy', '-e', 'pr-42', '--at')).toEqual(['--attach'])
    expect(await complete('completion', '')).toEqual(['bash', 'zsh', 'fish', 'powershell'])
    expect(await complete('deploy', '-p', '')).toEqual([])
    expect(await complete('ssh', '--se')).toEqual(['--server', '--service'])
  })

  const offer = async (env: Record<string, string>, ...words: string[]) => {
    const io = testIo({ env, now: Date.now })
    expect(await run(['__complete', ...words], io)).toBe(0)
    expect(io.stderr.text).toBe('')
    return io.stdout.text.split('\n').filter(Boolean)
  }

  it('values of the server: asked once in 30 s, harmless words only, silent on errors', async () => {
    const { peer, env: login } = await startInstallation()
    const env = { ...login, XDG_CACHE_HOME: temporaryFolder() }
    const hostile = environment({ id: 9, identifier: '$(reboot)' })
    peer.script('GET /api/projects/12/environments', { json: [staging, environment(), hostile] })
    expect(await offer(env, 'deploy', '-p', 'shop', '-e', '')).toEqual(['staging', 'pr-42'])
    expect(await offer(env, 'deploy', '-p', 'shop', '-e', 'p')).toEqual(['pr-42'])
    expect(peer.asked('GET /api/projects/12/environments')).toHaveLength(1)
    expect(await offer(env, 'logs', '-e', 'pr-42', '-p', 'shop', '-s', '')).toEqual(['web'])
    expect(await offer(env, 'server', 'show', 'f')).toEqual(['fra-1'])
    expect(await offer(env, 'project', 'show', '')).toEqual(['shop'])
    expect(await offer(env, 'envs', 'create', 'x', '--recipe', 'd')).toEqual(['docker'])
    expect(await offer(env, '--all', 'tasks', 'c')).toEqual(['cancel'])
    await peer.stop()
    expect(await offer({ ...env, BERTH_TOKEN: 'other' }, 'project', 'show', '')).toEqual([])
    expect(await offer({}, 'deploy', '-p', '')).toEqual([])
  })

  it.each(['zsh', 'fish'])('%s gets a script that names every command', async (shell) => {
    const { io, code } = await runHere('completion', shell)
    expect(code).toBe(0)
    for (const spec of COMMANDS.filter((one) => !one.hidden)) {
      expect(io.stdout.text).toContain(spec.summary.replaceAll("'", `'\\''`))
    }
  })
})

it('a private authority is trusted by --cacert, and there is no way around it', async () => {
  const folder = temporaryFolder()
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost']
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const files = ['-keyout', key, '-out', cert]
  execFileSync('openssl', ['req', '-x509', ...newKey, ...files, ...subject], { stdio: 'pipe' })
  const server = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (_, res) =>
    res.setHeader('content-type', 'application/json').end(JSON.stringify(me())),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const env = { BERTH_URL: `https://localhost:${port}`, BERTH_TOKEN: 'x' }
  const refused = await berth(['whoami'], { env })
  expect(refused.code).toBe(1)
  expect(refused.stderr).toContain('is not trusted')
  expect(refused.stderr).toContain('--cacert FILE')
  expect((await berth(['whoami', '--cacert', cert], { env })).code).toBe(0)
  expect((await berth(['whoami'], { env: { ...env, BERTH_CACERT: cert } })).code).toBe(0)
  const noFile = join(folder, 'empty.pem')
  writeFileSync(noFile, '')
  expect((await berth(['whoami', '--cacert', noFile], { env })).code).toBe(2)
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})
