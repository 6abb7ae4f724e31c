// A private real sshd for the client's own side: certificates and host certificate of a real control plane, and behind
// its ForceCommand a small program that speaks the verbs of a server. The accounts of a server are not made here: a
// wrapper named `ssh` gives the name of whoever runs the tests instead, and changes nothing else.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Environment, Server } from '@berth/shared/rest'
import { nowhere } from '../cli/src/testing/berth.ts'
import { publishSshAuthorities } from '../control-plane/src/app/ssh-authorities.ts'
import { signSshHostKey } from '../control-plane/src/app/ssh-host-keys.ts'
import { locate } from './components.ts'
import { TestControlPlane } from './control-plane.ts'
import { until } from './lab.ts'
import { freePort } from './lab-docker.ts'
import { WireAgent } from './wire-agent.ts'

const VERBS = fileURLToPath(new URL('./fixtures/ssh-verbs.mjs', import.meta.url))

const WRAPPER = (user: string, ssh: string) => `#!/bin/sh
n=$#
while [ $n -gt 0 ]; do
  word=$1
  shift
  case $word in berth-ssh@*|berth-shell@*) word="${user}@\${word#*@}" ;; esac
  set -- "$@" "$word"
  n=$((n - 1))
done
exec ${ssh} "$@"
`

export class ClientSshd {
  readonly dir = mkdtempSync(join(tmpdir(), 'berth-client-sshd-'))
  readonly cp: TestControlPlane
  #agent: WireAgent | undefined
  #sshd: ChildProcess | undefined
  server = {} as Server
  environment = {} as Environment
  port = 0

  private constructor(cp: TestControlPlane) {
    this.cp = cp
  }

  file(name: string): string {
    return join(this.dir, name)
  }

  read(name: string): string {
    return readFileSync(this.file(name), 'utf8')
  }

  static async start(): Promise<ClientSshd> {
    const cp = await TestControlPlane.start('sqlite')
    const lab = new ClientSshd(cp)
    await cp.setUp()
    lab.server = await cp.server('fra-1')
    const project = await cp.project('shop', lab.server.id)
    lab.environment = await cp.environment(project.id, 'main')
    lab.#agent = await WireAgent.join(cp, lab.server.id)
    lab.port = await freePort()
    await cp.call('PATCH', `/api/servers/${lab.server.id}`, { ssh_port: lab.port })
    for (const name of ['bin', 'run', 'state']) mkdirSync(lab.file(name), { mode: 0o700 })
    const ssh = execFileSync('sh', ['-c', 'command -v ssh'], { encoding: 'utf8' }).trim()
    writeFileSync(lab.file('bin/ssh'), WRAPPER(userInfo().username, ssh))
    chmodSync(lab.file('bin/ssh'), 0o755)
    await lab.#makeFiles()
    await lab.startSshd()
    return lab
  }

  async #makeFiles(): Promise<void> {
    const { ctx } = this.cp.running
    const agentId = this.#agent?.identity.agentId ?? ''
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', this.file('host')])
    const host = await signSshHostKey(ctx, agentId, this.read('host.pub'))
    writeFileSync(this.file('host-cert.pub'), `${host.certificate}\n`)
    const keys = await publishSshAuthorities(ctx, 'user')
    writeFileSync(this.file('user_ca_keys'), keys.map((a) => `${a.publicKey}\n`).join(''))
    const principal = `berth:server:${this.server.id}`
    writeFileSync(this.file('principals'), `${principal}\n${principal}:shell\n`)
    writeFileSync(
      this.file('sshd_config'),
      `ListenAddress 127.0.0.1
Port ${this.port}
HostKey ${this.file('host')}
HostCertificate ${this.file('host-cert.pub')}
PidFile none
TrustedUserCAKeys ${this.file('user_ca_keys')}
AuthorizedPrincipalsFile ${this.file('principals')}
AuthorizedKeysFile none
AuthenticationMethods publickey
PubkeyAcceptedAlgorithms *-cert-v01@openssh.com
ForceCommand ${process.execPath} ${VERBS} ${this.file('state')}
DisableForwarding yes
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
LogLevel VERBOSE
`,
    )
  }

  async startSshd(): Promise<void> {
    if (process.getuid?.() === 0) mkdirSync('/run/sshd', { recursive: true, mode: 0o755 })
    writeFileSync(this.file('sshd.log'), '')
    const argv = ['-D', '-E', this.file('sshd.log'), '-f', this.file('sshd_config')]
    this.#sshd = spawn(locate('sshd') as string, argv)
    const isListening = async () => (this.read('sshd.log').includes('listening') ? true : undefined)
    await until('sshd', isListening)
  }

  async stopSshd(): Promise<void> {
    if (!this.#sshd || this.#sshd.exitCode !== null) return
    this.#sshd.kill('SIGTERM')
    await once(this.#sshd, 'exit')
  }

  /** What the program behind the ForceCommand does next. */
  behave(how: object): void {
    writeFileSync(this.file('state/how.json'), JSON.stringify(how))
    writeFileSync(this.file('state/asked'), '')
  }

  /** Requests that reached it, in order. */
  asked(): string[] {
    return this.read('state/asked').split('\n').filter(Boolean)
  }

  /** Of somebody who is logged in, with the wrapper first. */
  env(more: Record<string, string> = {}): Record<string, string> {
    return {
      BERTH_URL: this.cp.url,
      BERTH_TOKEN: this.cp.token,
      BERTH_CONFIG_DIR: nowhere(),
      BERTH_POLL_MS: '20',
      PATH: `${this.file('bin')}:${process.env.PATH}`,
      XDG_RUNTIME_DIR: this.file('run'),
      HOME: this.dir,
      TZ: 'UTC',
      ...more,
    }
  }

  async close(): Promise<void> {
    await this.stopSshd()
    this.#agent?.close()
    await this.cp.close()
    rmSync(this.dir, { recursive: true, force: true })
  }
}
