// The misuse matrix: which logins must be accepted and which refused, against a real sshd with the agent's own
// configuration. The positive controls come first: a matrix of refusals alone would also pass with a locked account.
import { spawnSync } from 'node:child_process'
import { chmodSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { GRANT_EXTENSION } from '@berth/shared'
import {
  acceptPublicKey,
  encodeString,
  encodeStrings,
  encodeU32,
  encodeU64,
} from '@berth/shared/ssh'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runProgram } from '../../agent/src/machine/process/programs.ts'
import { relayAccount, sshPaths } from '../../agent/src/ssh/paths.ts'
import { reload } from '../../agent/src/ssh/sshd/control.ts'
import { blobOf, tailOf } from '../../control-plane/src/keys/ssh-craft.testing.ts'
import { missing } from '../fixtures/platform/components.ts'
import { isRoot } from '../fixtures/server/server.ts'
import { type Attempt, type Ended, lineOf, SERVER, SshFixture } from '../fixtures/sshd/server.ts'

const MANUAL = `
manual:
  deploy: [{ run: 'true' }]
  services: { web: { run: 'echo one line; exec sleep 1000' } }
`
const argvOf = (...argv: string[]): string =>
  Buffer.from(JSON.stringify(argv)).toString('base64url')
const words = (...list: string[]) => list
const now = (): bigint => BigInt(Math.floor(Date.now() / 1_000))

let fixture: SshFixture
const logsLine = /"service":"web".*"text":"one line"/
const own = (role: 'berth-ssh' | 'berth-shell') => relayAccount(fixture.settings, role)

type Make = () => Attempt | Promise<Attempt>
type Case = [name: string, make: Make, also?: RegExp]

async function run(make: Make): Promise<Ended> {
  return fixture.login(await make())
}

const ACCEPTED: Case[] = [
  ['the honest certificate', async () => ({ certificate: await fixture.honest() }), logsLine],
  [
    'exec with spaces and quotes in its arguments',
    async () => ({
      certificate: await fixture.shell(),
      account: 'berth-shell',
      words: words('exec', 'web', argvOf('printf', '%s|', 'a  b', `"it's"`, '$HOME;id', '')),
    }),
    /^a {2}b\|"it's"\|\$HOME;id\|\|$/,
  ],
  [
    'a shell with a terminal',
    async () => ({
      certificate: await fixture.shell(),
      account: 'berth-shell',
      words: words('shell'),
      flags: ['-tt'],
      typed: 'tty; echo $((40 + 2)); exit\n',
    }),
    /\/dev\/pts\/\d+[\s\S]*42/,
  ],
  [
    'an unknown extension beside the grant',
    () => ({
      certificate: fixture.forged({
        extensions: [
          ['a@b', 'x'],
          [GRANT_EXTENSION, fixture.grant()],
        ],
      }),
    }),
    logsLine,
  ],
  [
    'the right source address',
    () => ({ certificate: fixture.forged({ critical: [['source-address', '127.0.0.1/32']] }) }),
    logsLine,
  ],
]

const principals = (...list: string[]): Make => {
  return () => ({ certificate: fixture.forged({ principals: list }) })
}

/** Refused by sshd. */
const DENIED: Case[] = [
  ['another authority', () => ({ certificate: fixture.forged({}, fixture.otherCa) })],
  [
    'our authority named, signed by another',
    () => ({ certificate: fixture.forged({ authority: blobOf(fixture.ca) }, fixture.otherCa) }),
  ],
  [
    'a certificate in the place of the authority',
    async () => {
      const nested = Buffer.from((await fixture.honest()).split(' ')[1] ?? '', 'base64')
      return { certificate: fixture.forged({ authority: nested }, fixture.otherCa) }
    },
  ],
  [
    'expired',
    () => ({ certificate: fixture.forged({ after: now() - 600n, before: now() - 300n }) }),
  ],
  ['not yet valid', () => ({ certificate: fixture.forged({ after: now() + 120n }) })],
  ['a host certificate', () => ({ certificate: fixture.forged({ kind: 2, extensions: [] }) })],
  [
    'a grant that was changed after it was signed',
    async () => {
      const [type, text = ''] = (await fixture.honest()).split(' ')
      const blob = Buffer.from(text, 'base64')
      blob[blob.indexOf('"environment":1') + 14] = 0x32
      return { certificate: `${type} ${blob.toString('base64')}` }
    },
  ],
  ['the principal of another server', principals('berth:server:8')],
  ['a principal equal to the account', () => principals(own('berth-ssh'))() as Attempt],
  ['no principal', principals()],
  ['the principal *', principals('*')],
  ['a principal with a comma', principals(`x,berth:server:${SERVER}`)],
  ['a principal with a space behind', principals(`berth:server:${SERVER} `)],
  ['a principal with NUL', principals(`berth:server:${SERVER}\0z`)],
  ['a principal with a newline', principals(`x\nberth:server:${SERVER}`)],
  [
    'as root',
    () => ({
      certificate: fixture.forged({ principals: ['root', `berth:server:${SERVER}`] }),
      user: 'root',
    }),
  ],
  [
    'as somebody else',
    () => ({ certificate: fixture.forged({ principals: ['nobody'] }), user: 'nobody' }),
  ],
  [
    'the plain principal on the shell account',
    async () => ({ certificate: await fixture.honest(), account: 'berth-shell' }),
  ],
  ['the shell principal on the plain account', principals(`berth:server:${SERVER}:shell`)],
  [
    'an unknown critical option',
    () => ({ certificate: fixture.forged({ critical: [['x@y', 'z']] }) }),
  ],
  [
    'another source address',
    () => ({ certificate: fixture.forged({ critical: [['source-address', '192.0.2.1/32']] }) }),
  ],
  [
    'a source address with host bits',
    () => ({ certificate: fixture.forged({ critical: [['source-address', '127.0.0.1/8']] }) }),
  ],
  ['a plain key without certificate', () => ({})],
  ['a password', () => ({ flags: ['-o', 'PubkeyAuthentication=no'] })],
  [
    "somebody's certificate with another key",
    async () => ({ certificate: await fixture.honest(), person: fixture.makePerson('eve') }),
  ],
]

/** Refused by the forced command or the agent: exit 77 and a message. */
const REFUSED: Case[] = [
  ['no grant', () => ({ certificate: fixture.forged({ extensions: [] }) }), /has no grant/],
  [
    'the grant of another server',
    async () => ({ certificate: await fixture.honest({ server: 8 }) }),
    /another server/,
  ],
  ['a newer grant', async () => ({ certificate: await fixture.honest({ v: 2 }) }), /version/],
  [
    'a grant that is over',
    async () => ({ certificate: await fixture.honest({ until: 1 }) }),
    /over/,
  ],
  [
    'a grant that is no grant',
    () => ({ certificate: fixture.forged({ extensions: [[GRANT_EXTENSION, '{']] }) }),
    /cannot be read/,
  ],
  [
    'a verb that was not granted',
    async () => ({ certificate: await fixture.honest(), words: words('artifact', '5') }),
    /does not allow artifact/,
  ],
  [
    'a shell over the plain account',
    async () => ({ certificate: await fixture.honest({ can: ['shell'] }), words: words('shell') }),
    /needs the account berth-shell/,
  ],
  [
    'logs over the shell account',
    async () => ({ certificate: await fixture.shell({ can: ['logs'] }), account: 'berth-shell' }),
    /needs the account berth-ssh/,
  ],
  [
    'a shell without terminal',
    async () => ({
      certificate: await fixture.shell(),
      account: 'berth-shell',
      words: words('shell'),
      flags: ['-T'],
    }),
    /needs a terminal/,
  ],
  [
    'the whole server without the opt-in on the server',
    async () => ({
      certificate: await fixture.shell({ can: ['server'], environment: null }),
      account: 'berth-shell',
      words: words('server'),
      flags: ['-tt'],
    }),
    /not allowed on this server/,
  ],
  [
    "the agent's own verb",
    async () => ({ certificate: await fixture.honest({ can: ['probe'] }), words: words('probe') }),
    /does not allow/,
  ],
  [
    'no command',
    async () => ({ certificate: await fixture.honest(), words: [] }),
    /Unknown request/,
  ],
  ['id', async () => ({ certificate: await fixture.honest(), words: ['id'] }), /Unknown request/],
  [
    'metacharacters',
    async () => ({ certificate: await fixture.honest(), words: words('logs', 'web;id') }),
    /characters/,
  ],
  [
    'a newline',
    async () => ({ certificate: await fixture.honest(), words: ['logs web\nid'] }),
    /characters/,
  ],
  [
    "a path for an artifact's id",
    async () => ({
      certificate: await fixture.honest({ can: ['artifact'] }),
      words: words('artifact', '..'),
    }),
    /no id of an artifact/,
  ],
  [
    'a request of 65 KiB',
    async () => ({ certificate: await fixture.honest(), words: words('logs', 'a'.repeat(66_000)) }),
    /too long/,
  ],
  [
    'bad base64',
    async () => ({
      certificate: await fixture.shell(),
      account: 'berth-shell',
      words: words('exec', 'web', '=='),
    }),
    /base64url/,
  ],
  [
    'NUL in the arguments',
    async () => ({
      certificate: await fixture.shell(),
      account: 'berth-shell',
      words: words('exec', 'web', argvOf('echo', 'a\0b')),
    }),
    /without NUL/,
  ],
  [
    'force-command in the certificate',
    () => ({ certificate: fixture.forged({ critical: [['force-command', 'id']] }), words: ['id'] }),
    /Unknown request/,
  ],
  [
    'scp as it was',
    async () => ({ certificate: await fixture.honest(), words: words('scp', '-t', '/tmp') }),
    /characters|Unknown request/,
  ],
  [
    'sftp, and scp as it is (sshd hides the sentence of a subsystem)',
    async () => ({ certificate: await fixture.honest(), words: ['sftp'], flags: ['-s'] }),
  ],
]

const everything = (): string =>
  fixture.forged({
    extensions: [
      [GRANT_EXTENSION, fixture.grant()],
      ['permit-X11-forwarding', ''],
      ['permit-agent-forwarding', ''],
      ['permit-port-forwarding', ''],
      ['permit-pty', ''],
      ['permit-user-rc', ''],
    ],
  })

describe.skipIf(missing('sshd') || !isRoot)('misuse', () => {
  beforeAll(async () => {
    fixture = await SshFixture.open()
    const repository = fixture.host.repository()
    repository.commit({ '.service.yml': MANUAL })
    expect((await (await fixture.host.deploy(repository)).verdict()).message).toBe('')
  })
  afterAll(() => fixture.close())

  describe.concurrent('is told apart', () => {
    test.each(ACCEPTED)('accepted: %s', async (_, make, also) => {
      const done = await run(make)
      expect(done, `${done.err}${fixture.log().slice(-2_000)}`).toMatchObject({ code: 0, err: '' })
      expect(done.out).toMatch(also as RegExp)
    })

    test.each(DENIED)('sshd refuses: %s', async (_, make) => {
      const { code, out, err } = await run(make)
      expect({ code, out }).toEqual({ code: 255, out: '' })
      expect(err).toMatch(/Permission denied/)
    })

    test.each(REFUSED)('the command refuses: %s', async (_, make, also = /^/) => {
      const { code, out, err } = await run(make)
      // a terminal has one stream
      expect({ code, out: out.replace(/^berth: .*\r?\n$/, '') }).toEqual({ code: 77, out: '' })
      expect(`${err}${out}`).toMatch(also)
    })

    test('with every permission in the certificate there is no terminal', async () => {
      const flags = ['-tt']
      const done = await fixture.login({ certificate: everything(), words: ['shell'], flags })
      expect(done.code).not.toBe(0)
      expect(done.err).toMatch(/PTY allocation request failed/)
    })

    test.each([
      ['to others through the server', ['-W', '127.0.0.1:1'], []],
      ['back', ['-o', 'ExitOnForwardFailure=yes', '-R', '0:127.0.0.1:1'], ['logs']],
    ])('and no forwarding %s', async (_, flags, asked) => {
      const done = await fixture.login({ certificate: everything(), words: asked, flags })
      expect(done).toMatchObject({ code: 255, out: '' })
      expect(done.err).toMatch(/forward/i)
    })

    test.each([
      ['the alias of another server', () => ({ alias: 'server-8.berth.internal' })],
      ['another host authority', () => ({ hostAuthorities: [lineOf(fixture.otherCa)] })],
    ])('the client refuses %s', async (_, over: () => Partial<Attempt>) => {
      const done = await fixture.login({ certificate: await fixture.honest(), ...over() })
      expect(done).toMatchObject({ code: 255, out: '' })
      expect(done.err).toMatch(/verification failed|host key is known|not a listed principal/i)
    })

    test('a key that smuggles its own certificate in', async () => {
      // a signer that copies the submitted blob signs the attacker's fields; its own end up in a fake extension
      const theirs = Buffer.concat([
        tailOf(fixture.person.key),
        encodeU64(1n),
        encodeU32(1),
        encodeString('theirs'),
        encodeString(encodeStrings([`berth:server:${SERVER}:shell`])),
        encodeU64(0n),
        encodeU64(now() + 86_400n * 365n),
        encodeString(''),
      ])
      const grant = fixture.grant({ can: ['exec'] })
      const certificate = fixture.signedCarelessly(theirs, [GRANT_EXTENSION, encodeString(grant)])
      const asked = words('exec', 'web', argvOf('echo', 'in'))
      const done = await fixture.login({ certificate, account: 'berth-shell', words: asked })
      expect(done.err, 'the control: sshd is fooled').not.toMatch(/Permission denied/)
      expect(done).toMatchObject({ code: 77, out: '' }) // a strict reader is not fooled
      const blob = Buffer.concat([encodeString('ssh-ed25519'), theirs])
      const line = `ssh-ed25519 ${blob.toString('base64')}`
      expect(() => acceptPublicKey(line)).toThrow(/trailing bytes/)
    })
  })

  describe('is decided at every login', () => {
    const tryOnce = async (certificate: string) => (await fixture.login({ certificate })).code

    test('a revoked serial is refused at once, another one is not', async () => {
      const [one, two] = [fixture.nextSerial(), fixture.nextSerial()]
      const revoked = await fixture.honest({}, { serial: one })
      expect(await tryOnce(revoked)).toBe(0)
      await fixture.trust([fixture.ca], [one])
      expect(await tryOnce(revoked)).toBe(255)
      expect(await tryOnce(await fixture.honest({}, { serial: two }))).toBe(0)
    })

    test('two authorities during a rotation, and the old one no more', async () => {
      const old = await fixture.honest()
      await fixture.trust([fixture.ca, fixture.otherCa])
      expect(await tryOnce(old)).toBe(0)
      expect(await tryOnce(fixture.forged({}, fixture.otherCa))).toBe(0)
      await fixture.trust([fixture.otherCa])
      expect(await tryOnce(old)).toBe(255)
      await fixture.trust([fixture.ca])
    })

    test.each([
      ['a revocation list that is missing', () => rmSync(sshPaths(fixture.settings).revoked)],
      ['one that is garbage', () => writeFileSync(sshPaths(fixture.settings).revoked, 'garbage\n')],
      [
        'principals with carriage returns',
        () => writeFileSync(principalsFile(), 'berth:server:7\r\n'),
      ],
      ['principals that everybody can write', () => chmodSync(principalsFile(), 0o666)],
    ])('nobody comes in with %s', async (_, spoil) => {
      const certificate = await fixture.honest()
      spoil()
      expect(await tryOnce(certificate)).toBe(255)
      await fixture.trust([fixture.ca])
      chmodSync(principalsFile(), 0o644)
      expect(await tryOnce(certificate)).toBe(0)
    })
    const principalsFile = () => join(sshPaths(fixture.settings).principals, own('berth-ssh'))

    test('a host certificate that ran out is refused by the client', async () => {
      const { hostCertificate, ownHostKey, ownPidFile } = sshPaths(fixture.settings)
      const before = readFileSync(hostCertificate, 'utf8')
      writeFileSync(hostCertificate, `${fixture.expiredHost(`${ownHostKey}.pub`)}\n`)
      await reload({ pidFile: ownPidFile })
      await fixture.greets()
      const done = await fixture.login({ certificate: await fixture.honest() })
      expect(done).toMatchObject({ code: 255, out: '' })
      writeFileSync(hostCertificate, before)
      await reload({ pidFile: ownPidFile })
      await fixture.greets()
      expect(await tryOnce(await fixture.honest())).toBe(0)
    })
  })

  describe('beside sshd', () => {
    const as = async (account: string, ...argv: string[]) => {
      const id = (flag: string) => spawnSync('id', [flag, account], { encoding: 'utf8' }).stdout
      const rights = [`--reuid=${id('-u').trim()}`, `--regid=${id('-g').trim()}`, '--clear-groups']
      const done = await runProgram(['setpriv', ...rights, ...argv])
      return { ...done, stdout: done.stdout.toString() }
    }

    test('a process outside the relay group cannot even connect', async () => {
      const { socket } = sshPaths(fixture.settings)
      const script = `require('net').connect(${JSON.stringify(socket)}).on('error', (e) => console.log(e.code)).on('connect', () => process.exit(console.log('in')))`
      expect((await as('nobody', fixture.host.node, '-e', script)).stdout).toBe('EACCES\n')
      expect((await as(own('berth-ssh'), fixture.host.node, '-e', script)).stdout).toBe('in\n')
    })

    test('a relay account without a login gets nothing with a good certificate', async () => {
      const [, blob = ''] = (await fixture.honest()).split(' ')
      const file = join(fixture.host.folder, 'auth-info')
      writeFileSync(file, `publickey ssh-ed25519-cert-v01@openssh.com ${blob}\n`)
      const env = ['env', `SSH_USER_AUTH=${file}`, 'SSH_ORIGINAL_COMMAND=logs']
      const done = await as(own('berth-ssh'), ...env, fixture.settings.ssh.launcher, 'berth-ssh')
      expect(done).toMatchObject({ code: 77, stdout: '' })
      expect(done.stderr).toMatch(/does not come from a login/)
    })
  })
})
