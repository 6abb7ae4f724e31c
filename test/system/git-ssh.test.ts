// Fetching over ssh from a private sshd on loopback: the deploy key, the known hosts, and the messages when one of them
// is wrong.
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { AttemptState, FailureCode } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { dial } from '../../agent/src/machine/process/probes.ts'
import { locateProgram } from '../../agent/src/machine/process/programs.ts'
import { eventually, type Repository } from '../fixtures/server/deployment.ts'
import { AgentHost } from '../fixtures/server/server.ts'

const sshd = locateProgram('sshd')
if (!sshd && process.env.CI === 'true') throw new Error('sshd is missing')

let host: AgentHost
let repository: Repository
let server: ChildProcess | undefined
let port: number

const key = (name: string): string => join(host.folder, 'ssh', name)
const makeKey = (name: string): void => {
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', name, '-f', key(name)])
}
const privateKey = (name: string): string => readFileSync(key(name), 'utf8')
const publicKey = (name: string): string =>
  readFileSync(`${key(name)}.pub`, 'utf8')
    .split(' ')
    .slice(0, 2)
    .join(' ')

async function startServer(hostKey: string): Promise<void> {
  const config = key('sshd_config')
  writeFileSync(
    config,
    `ListenAddress 127.0.0.1
Port ${port}
HostKey ${key(hostKey)}
PidFile none
AuthorizedKeysFile ${key('allowed.pub')}
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AcceptEnv GIT_PROTOCOL
`,
  )
  server = spawn(sshd as string, ['-D', '-e', '-f', config], { stdio: 'ignore' })
  await eventually(async () => (await dial('127.0.0.1', port, 500)) === undefined, 'sshd')
}

async function stopServer(): Promise<void> {
  if (!server) return
  server.kill('SIGTERM')
  await once(server, 'exit')
  server = undefined
}

beforeAll(async () => {
  host = new AgentHost()
  repository = host.repository()
  // the key is deleted when the fetch ends, not only at the end of the attempt
  const scratch = `${host.settings.runDir}/attempts/$BERTH_ATTEMPT_ID`
  const look = `test -d ${scratch}; test ! -e ${scratch}/git; echo fetched`
  repository.commit({ '.service.yml': `manual: { deploy: [${JSON.stringify(look)}] }\n` })
  if (!sshd) return
  mkdirSync(join(host.folder, 'ssh'))
  if (process.getuid?.() === 0) mkdirSync('/run/sshd', { recursive: true, mode: 0o755 })
  for (const name of ['allowed', 'stranger', 'host-one', 'host-two']) makeKey(name)
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  port = (probe.address() as { port: number }).port
  probe.close()
  await startServer('host-one')
})
afterAll(async () => {
  await stopServer()
  await host.close()
})

const url = (): string => `ssh://${userInfo().username}@127.0.0.1:${port}${repository.folder}`
const known = (name: string): string[] => [`[127.0.0.1]:${port} ${publicKey(name)}`]
const deploy = async (request: object) => {
  const deployment = await host.deploy(repository, { url: url(), ...request })
  return { deployment, verdict: await deployment.verdict() }
}

describe.skipIf(!sshd)('over ssh', () => {
  it('fetches with the project’s key from a known host, and leaves the key nowhere', async () => {
    const { deployment, verdict } = await deploy({
      deployKey: privateKey('allowed'),
      knownHosts: known('host-one'),
    })
    expect(verdict.message).toBe('')
    expect(verdict.state).toBe(AttemptState.SUCCEEDED)
    expect(deployment.log()).toContain('fetched')
    const search = ['-rl', 'OPENSSH PRIVATE KEY', host.settings.stateDir, host.settings.runDir]
    const found = spawnSync('grep', search, { encoding: 'utf8' }).stdout
    expect(found).toBe('')
  })

  it('says that the key is refused', async () => {
    const { verdict } = await deploy({
      deployKey: privateKey('stranger'),
      knownHosts: known('host-one'),
    })
    expect(verdict).toMatchObject({ code: FailureCode.CLONE_FAILED, failedStepId: 'fetch' })
    expect(verdict.message).toMatch(/^127\.0\.0\.1 refused the project's key\./)
  })

  it('says that a repository is not there', async () => {
    const request = { deployKey: privateKey('allowed'), knownHosts: known('host-one') }
    const { verdict } = await deploy({ ...request, url: `${url()}-none` })
    expect(verdict.message).toMatch(/^The repository was not found on 127\.0\.0\.1/)
  })

  it('never takes another host key than the known one', async () => {
    const { verdict } = await deploy({
      deployKey: privateKey('allowed'),
      knownHosts: known('host-two'),
    })
    expect(verdict.message).toMatch(/^The host key of 127\.0\.0\.1 is not the expected one\./)
  })

  it('keeps the first host key it sees for the project when none is known, and holds to it', async () => {
    const first = await deploy({ deployKey: privateKey('allowed'), environmentId: 2 })
    expect(first.verdict.state).toBe(AttemptState.SUCCEEDED)
    const file = join(host.settings.stateDir, 'known-hosts', 'p7')
    expect(existsSync(file) && readFileSync(file, 'utf8')).toContain(publicKey('host-one'))
    await stopServer()
    await startServer('host-two')
    const second = await deploy({ deployKey: privateKey('allowed'), environmentId: 3 })
    expect(second.verdict.message).toMatch(
      /^The host key of 127\.0\.0\.1 is not the expected one\./,
    )
  })
})
