// The control plane checks a repository over ssh, from a private sshd on loopback: the deploy key, the host key that
// was seen first, and what is left on disk.
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { Sensitive } from '@berth/shared'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { dial } from '../../agent/src/machine/process/probes.ts'
import { createGuard } from '../../control-plane/src/forges/addresses.ts'
import { Git } from '../../control-plane/src/forges/git.ts'
import { createDeployKey } from '../../control-plane/src/keys/deploy-key.ts'
import { locate, missing } from '../fixtures/platform/components.ts'
import { eventually, Repository } from '../fixtures/server/deployment.ts'

const folder = mkdtempSync(join(tmpdir(), 'berth-look-ssh-'))
const at = (name: string): string => join(folder, name)
const key = createDeployKey('shop')
const stranger = createDeployKey('stranger')
let repository: Repository
let server: ChildProcess | undefined
let port = 0

async function startServer(hostKey: string): Promise<void> {
  const lines = [
    'ListenAddress 127.0.0.1',
    `Port ${port}`,
    `HostKey ${at(hostKey)}`,
    'PidFile none',
    `AuthorizedKeysFile ${at('allowed')}`,
    'StrictModes no',
    'UsePAM no',
    'PasswordAuthentication no',
    'KbdInteractiveAuthentication no',
    'PermitRootLogin prohibit-password',
    'AcceptEnv GIT_PROTOCOL',
  ]
  writeFileSync(at('sshd_config'), `${lines.join('\n')}\n`)
  const program = locate('sshd') as string
  server = spawn(program, ['-D', '-e', '-f', at('sshd_config')], { stdio: 'ignore' })
  await eventually(async () => (await dial('127.0.0.1', port, 500)) === undefined, 'sshd')
}

async function stopServer(): Promise<void> {
  if (!server) return
  server.kill('SIGTERM')
  await once(server, 'exit')
  server = undefined
}

const isMissing = missing('sshd')

beforeAll(async () => {
  if (isMissing) return
  repository = new Repository(at('shop.git'))
  repository.commit({ '.service.yml': 'manual: { deploy: [ "true" ] }\n' })
  if (process.getuid?.() === 0) mkdirSync('/run/sshd', { recursive: true, mode: 0o755 })
  for (const name of ['host-one', 'host-two']) {
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', at(name)])
  }
  writeFileSync(at('allowed'), `${key.publicLine}\n`)
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  port = (probe.address() as { port: number }).port
  probe.close()
  await startServer('host-one')
})
afterAll(async () => {
  await stopServer()
  rmSync(folder, { recursive: true, force: true })
})

describe.skipIf(isMissing)('a look over ssh', () => {
  // a folder with a space, because ssh splits unquoted paths
  const dataDir = at('data folder')
  // the name cannot be resolved: only the checked address leads to it
  const guard = createGuard({
    privateHosts: ['git.corp.example'],
    allowLoopback: false,
    resolve: async () => [{ address: '127.0.0.1', family: 4 }],
  })
  const open = (): Git => {
    mkdirSync(dataDir, { recursive: true })
    return new Git({ dataDir, guard, rules: { allowFile: false, allowLoopbackHttp: false } })
  }
  const request = (over: object = {}) => ({
    projectId: 3,
    url: `ssh://${userInfo().username}@git.corp.example:${port}${repository.folder}`,
    publicKey: key.publicLine,
    deployKey: new Sensitive<Uint8Array>(Buffer.from(key.privateKey)),
    trusted: null,
    ...over,
  })

  test('goes to the checked address with the project’s key, and leaves the key nowhere', async () => {
    const look = await open().lookAtRepository(request())
    expect(look).toMatchObject({ ok: true })
    if (look.ok) expect(look.refs.get('refs/heads/main')).toBe(repository.git('rev-parse', 'HEAD'))
    const found = spawnSync('grep', ['-rl', 'OPENSSH PRIVATE KEY', dataDir], { encoding: 'utf8' })
    expect(found.stdout).toBe('')
  })

  test('keeps the first host key under the name of the host, and refuses another one', async () => {
    const known = readFileSync(join(dataDir, 'known-hosts', 'p3'), 'utf8')
    expect(known).toMatch(new RegExp(`^\\[git\\.corp\\.example\\]:${port} ssh-ed25519 `))
    await stopServer()
    await startServer('host-two')
    const look = await open().lookAtRepository(request())
    expect(look).toMatchObject({ ok: false, code: 'host_key_changed' })
    expect(readFileSync(join(dataDir, 'known-hosts', 'p3'), 'utf8')).toBe(known)
    // another project has not seen it yet
    expect(await open().lookAtRepository(request({ projectId: 4 }))).toMatchObject({ ok: true })
    await stopServer()
    await startServer('host-one')
  })

  test('shows which key to add when it is refused', async () => {
    const deployKey = new Sensitive<Uint8Array>(Buffer.from(stranger.privateKey))
    const look = await open().lookAtRepository(
      request({ deployKey, publicKey: stranger.publicLine }),
    )
    expect(look).toMatchObject({ ok: false, code: 'auth_failed' })
    expect(JSON.stringify(look)).toContain(stranger.publicLine.split(' ')[1])
  })

  test('says that a repository is not there', async () => {
    const look = await open().lookAtRepository(request({ url: `${request().url}-none` }))
    expect(look).toMatchObject({ ok: false, code: 'not_found' })
  })

  test('reads the service file as well', async () => {
    const sha = repository.git('rev-parse', 'HEAD')
    const read = await open().readServiceFile({ ...request(), sha })
    expect(read).toEqual({ ok: true, content: Buffer.from('manual: { deploy: [ "true" ] }\n') })
  })
})
