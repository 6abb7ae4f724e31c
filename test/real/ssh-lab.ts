// A server with an sshd of its own, and the two authorities in the test's hands: every certificate can be made, also
// those that the product never issues. The agent's SSH side runs in the test's process, sessions in processes of their
// own, environments are deployed by real runners. Nothing of the machine's sshd is touched.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { createPublicKey, type KeyObject, randomBytes, sign } from 'node:crypto'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { GRANT_EXTENSION, sshHostAlias } from '@berth/shared'
import {
  ed25519PublicKey,
  encodePublicKey,
  encodeString,
  encodeStrings,
  encodeU32,
  encodeU64,
  formatPublicKey,
  parsePublicKey,
  type SshPublicKey,
  signCertificate,
} from '@berth/shared/ssh-codec'
import type { Event } from '@berth/shared/wire'
import { build } from 'rolldown'
import { systemClock } from '../../agent/src/clock.ts'
import { readBootId } from '../../agent/src/exec/processes.ts'
import { Journal } from '../../agent/src/journal/journal.ts'
import { decodeEvent } from '../../agent/src/journal/outbox.ts'
import { installTrust, readTrust, writeIdentity } from '../../agent/src/link/identity.ts'
import { silentLog } from '../../agent/src/log.ts'
import type { AgentSettings } from '../../agent/src/settings.ts'
import { relayAccount, sshPlaces } from '../../agent/src/ssh/places.ts'
import { removeFromServer, SshSide, type SshState } from '../../agent/src/ssh/side.ts'
import { awaitGreeting } from '../../agent/src/ssh/sshd-control.ts'
import {
  type Crafted,
  craft,
  makeEd25519,
  signerOf,
  tailOf,
} from '../../control-plane/src/ca/ssh-craft.testing.ts'
import { freePort } from '../lab-docker.ts'
import { AgentHost } from './agent-host.ts'
import { eventually } from './deployment.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
export const SERVER = 7
const LOGIN_MS = 120_000 // a bound, not a measure

export { freePort }

/** The forced command as it is shipped: one file, in a folder that every account can enter. */
export async function bundleForcedCommand(folder: string): Promise<string> {
  const file = join(folder, 'ssh-session.cjs')
  await build({
    cwd: root,
    platform: 'node',
    input: 'agent/src/ssh/session-main.ts',
    output: { file, format: 'cjs', codeSplitting: false },
  })
  return file
}

export interface Person {
  file: string
  key: SshPublicKey
}

export interface Attempt {
  certificate?: string
  words?: string[]
  /** The role; its name on this server is looked up. */
  account?: 'berth-ssh' | 'berth-shell'
  /** Instead of an account of ours. */
  user?: string
  flags?: string[]
  person?: Person
  alias?: string
  hostAuthorities?: string[]
  input?: 'ends' | 'open'
  /** Sent at once. */
  typed?: string
}

export interface Ended {
  code: number | null
  out: string
  err: string
}

export const lineOf = (key: KeyObject): string => formatPublicKey(ed25519PublicKey(key))

export class SshLab {
  readonly host: AgentHost
  readonly settings: AgentSettings
  readonly ca = makeEd25519()
  readonly otherCa = makeEd25519()
  readonly hostCa = makeEd25519()
  readonly person: Person
  readonly keys: string
  #journal: Journal | undefined
  #side: SshSide | undefined
  #generation = 1
  #serial = 9_000n
  state: SshState | undefined

  private constructor(host: AgentHost, settings: AgentSettings) {
    this.host = host
    this.settings = settings
    this.keys = mkdtempSync(join(tmpdir(), 'berth-ssh-keys-'))
    this.person = this.makePerson('ada')
  }

  static async open(over: Partial<AgentSettings['ssh']> = {}, folder?: string): Promise<SshLab> {
    const host = new AgentHost(folder)
    const command = await bundleForcedCommand(host.folder)
    const own = { address: '127.0.0.1', port: await freePort() }
    // every folder above must be root's alone, or sshd does not believe what lies there: not /tmp
    const dir = mkdtempSync('/var/lib/berth-ssh-test-')
    chmodSync(dir, 0o755)
    const launcher = join(dir, 'ssh-session')
    const basis = { ...host.settings.ssh, mode: 'dedicated' as const, own, command }
    const ssh = { ...basis, dir: join(dir, 'ssh'), launcher, ...over }
    const lab = new SshLab(host, { ...host.settings, ssh })
    writeIdentity(lab.settings, {
      agentId: 'agent-1',
      serverId: SERVER,
      baseUrl: 'http://127.0.0.1:1',
      endpoints: [],
      generation: 1,
      renewAt: new Date(0).toISOString(),
      sshUserCaKeys: [lineOf(lab.ca)],
      key: '',
      certificate: '',
      ca: [],
    })
    await lab.start()
    return lab
  }

  /** The daemon's side, as after a start of the agent. */
  async start(): Promise<void> {
    const { settings, host } = this
    const bootId = readBootId()
    const journal = Journal.open(settings.stateDir, {
      bootId,
      fatal: (error) => {
        throw error
      },
    })
    this.#journal = journal
    this.state = undefined
    const side = new SshSide({
      settings,
      program: [host.node, join(root, 'agent/src/main.ts')],
      journal,
      clock: systemClock,
      log: silentLog,
      bootId,
      onState: (state) => {
        this.state = state
      },
    })
    this.#side = side
    side.open()
    side.connected((line) => this.signHost(parsePublicKey(line)))
    await side.trust()
    await eventually(() => this.state !== undefined, 'the set-up of sshd')
    await side.settled()
  }

  /** As `kill -9` of the agent: no goodbye, sessions go on. */
  kill(): void {
    this.#side?.close()
    this.#journal?.close()
  }

  get side(): SshSide {
    if (!this.#side) throw new Error('the lab is closed')
    return this.#side
  }

  /** Facts for the audit log, oldest first. */
  facts(): Event[] {
    const rows = this.#journal?.outbox.read(0n, 10_000) ?? []
    return rows.map(decodeEvent)
  }

  get sessions() {
    return this.#journal?.sshSessions.listOpen() ?? []
  }

  makePerson(name: string): Person {
    const file = join(this.keys, name)
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', name, '-f', file])
    return { file, key: parsePublicKey(readFileSync(`${file}.pub`, 'utf8')) }
  }

  grant(over: object = {}): string {
    const until = Math.floor(Date.now() / 1_000) + 3_600
    const grant = { v: 1, server: SERVER, user: 17, organization: 3, environment: 1, can: ['logs'] }
    return JSON.stringify({ ...grant, until, ...over })
  }

  nextSerial(): bigint {
    this.#serial += 1n
    return this.#serial
  }

  /** As the control plane makes them. */
  honest(grant: object = {}, over: { serial?: bigint; shell?: boolean } = {}): Promise<string> {
    const now = Math.floor(Date.now() / 1_000)
    const serial = over.serial ?? this.nextSerial()
    const extensions: [string, string][] = [[GRANT_EXTENSION, this.grant(grant)]]
    if (over.shell) extensions.push(['permit-pty', ''])
    return signCertificate(
      this.person.key,
      {
        kind: 'user',
        serial,
        keyId: `user=17;env=1;server=${SERVER};jti=${serial}`,
        principals: [`berth:server:${SERVER}${over.shell ? ':shell' : ''}`],
        validAfter: now - 60,
        validBefore: now + 300,
        criticalOptions: new Map(),
        extensions: new Map(extensions),
      },
      signerOf(this.ca),
    )
  }

  shell(grant: object = {}): Promise<string> {
    return this.honest({ can: ['shell', 'exec'], ...grant }, { shell: true })
  }

  /** Every check left out. */
  forged(crafted: Crafted, by = this.ca): string {
    const blob = craft(
      tailOf(this.person.key),
      {
        serial: this.nextSerial(),
        principals: [`berth:server:${SERVER}`],
        extensions: [[GRANT_EXTENSION, this.grant()]],
        ...crafted,
      },
      by,
    )
    return `ssh-ed25519-cert-v01@openssh.com ${blob.toString('base64')}`
  }

  signHost(key: SshPublicKey): Promise<string> {
    const now = Math.floor(Date.now() / 1_000)
    return signCertificate(
      key,
      {
        kind: 'host',
        serial: this.nextSerial(),
        keyId: `server=${SERVER}`,
        principals: [sshHostAlias(SERVER)],
        validAfter: now - 60,
        validBefore: now + 3_600,
        criticalOptions: new Map(),
        extensions: new Map(),
      },
      signerOf(this.hostCa),
    )
  }

  /** By a signer that copies what was submitted in the place of the key, and adds its own fields behind it. */
  signedCarelessly(submitted: Buffer, [name, value]: [string, Buffer]): string {
    const added = Buffer.concat([
      encodeU64(this.nextSerial()),
      encodeU32(1),
      encodeString('ours'),
      encodeString(encodeStrings([`berth:server:${SERVER}`])),
      encodeU64(0n),
      encodeU64(1n),
      encodeString(''),
      encodeString(''),
    ])
    const before = Buffer.concat([
      encodeStrings([name, value, 'zz@theirs']),
      encodeU32(added.length),
    ])
    const signed = Buffer.concat([
      encodeString('ssh-ed25519-cert-v01@openssh.com'),
      encodeString(randomBytes(32)),
      submitted,
      encodeU32(before.length + added.length),
      before,
      added,
      encodeString(''),
      encodeString(encodePublicKey(ed25519PublicKey(this.ca))),
    ])
    const signature = encodeStrings(['ssh-ed25519', sign(null, signed, this.ca)])
    const blob = Buffer.concat([signed, encodeString(signature)])
    return `ssh-ed25519-cert-v01@openssh.com ${blob.toString('base64')}`
  }

  expiredHost(keyFile: string): string {
    const now = BigInt(Math.floor(Date.now() / 1_000))
    const times = { after: now - 600n, before: now - 300n }
    const content = { kind: 2, principals: [sshHostAlias(SERVER)], extensions: [], ...times }
    const key = parsePublicKey(readFileSync(keyFile, 'utf8'))
    const blob = craft(tailOf(key), content, this.hostCa)
    return `ssh-ed25519-cert-v01@openssh.com ${blob.toString('base64')}`
  }

  async greets(): Promise<void> {
    if (!(await awaitGreeting(this.settings.ssh.own))) throw new Error('sshd does not greet')
  }

  /** A new bundle of the control plane; resolves when the agent says that it is in force. */
  async trust(authorities: KeyObject[], revoked: (bigint | string)[] = []): Promise<void> {
    this.#generation = Math.max(this.#generation, readTrust(this.settings)?.generation ?? 0) + 1
    const error = installTrust(this.settings, {
      generation: this.#generation,
      tlsCaPem: [],
      sshUserCaKeys: authorities.map((key) => lineOf(createPublicKey(key))),
      revokedSshSerials: revoked.map(String),
    })
    if (error) throw new Error(error)
    await this.side.trust()
  }

  spawn(attempt: Attempt): { child: ChildProcess; ended: Promise<Ended> } {
    const dir = mkdtempSync(join(this.keys, 'login-'))
    const alias = attempt.alias ?? sshHostAlias(SERVER)
    const authorities = attempt.hostAuthorities ?? [lineOf(this.hostCa)]
    const known = authorities.map((line) => `@cert-authority ${alias} ${line}\n`).join('')
    writeFileSync(join(dir, 'known_hosts'), known)
    if (attempt.certificate) writeFileSync(join(dir, 'id-cert.pub'), `${attempt.certificate}\n`)
    const options = {
      IdentityFile: (attempt.person ?? this.person).file,
      ...(attempt.certificate ? { CertificateFile: join(dir, 'id-cert.pub') } : {}),
      IdentitiesOnly: 'yes',
      IdentityAgent: 'none',
      UserKnownHostsFile: join(dir, 'known_hosts'),
      GlobalKnownHostsFile: '/dev/null',
      StrictHostKeyChecking: 'yes',
      HostKeyAlias: alias,
      HostKeyAlgorithms: 'ssh-ed25519-cert-v01@openssh.com',
      PreferredAuthentications: 'publickey,password',
      NumberOfPasswordPrompts: '0',
      BatchMode: 'yes',
      ConnectTimeout: '20',
      LogLevel: 'ERROR',
    }
    const flags = Object.entries(options).flatMap(([key, value]) => ['-o', `${key}=${value}`])
    const user = attempt.user ?? relayAccount(this.settings, attempt.account ?? 'berth-ssh')
    const to = ['--', `${user}@127.0.0.1`, ...(attempt.words ?? ['logs', '-', '--tail=20'])]
    const port = String(this.state?.port ?? this.settings.ssh.own.port)
    const argv = ['-F', 'none', '-p', port, ...flags, ...(attempt.flags ?? []), ...to]
    const child = spawn('ssh', argv, { stdio: ['pipe', 'pipe', 'pipe'] })
    child.stdin.on('error', () => undefined)
    if (attempt.typed) child.stdin.write(attempt.typed)
    if (attempt.input === 'ends') child.stdin.end()
    let out = ''
    let err = ''
    child.stdout.on('data', (chunk: Buffer) => {
      out += chunk.toString('latin1')
    })
    child.stderr.on('data', (chunk: Buffer) => {
      err += chunk.toString('utf8')
    })
    const timer = setTimeout(() => child.kill('SIGKILL'), LOGIN_MS)
    const ended = new Promise<Ended>((resolve) => {
      child.once('close', (code) => {
        clearTimeout(timer)
        rmSync(dir, { recursive: true, force: true })
        resolve({ code, out, err })
      })
    })
    return { child, ended }
  }

  login(attempt: Attempt): Promise<Ended> {
    return this.spawn(attempt).ended
  }

  log(): string {
    return readFileSync(join(this.settings.stateDir, 'berth-sshd.log'), 'utf8')
  }

  async close(): Promise<void> {
    await this.#side?.remove().catch(() => undefined)
    await removeFromServer(this.settings)
    this.kill()
    rmSync(this.keys, { recursive: true, force: true })
    rmSync(dirname(this.settings.ssh.launcher), { recursive: true, force: true })
    rmSync(`/home/${sshPlaces(this.settings).hostAccount}`, { recursive: true, force: true })
    await this.host.close()
  }
}
