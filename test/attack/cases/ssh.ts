// Users who misuse a certificate: words that are no verb, files, forwarding, other environments.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SshCertificate } from '@berth/shared/api'
import { type Case, found, must } from '../case.ts'
import { type AttackedInstallation, CANARY, type Target } from '../target.ts'

interface Login {
  purpose?: 'logs' | 'shell' | 'forward' | 'copy'
  target?: (w: AttackedInstallation) => Target
  /** After ssh's own options and the destination. */
  words?: string[]
  flags?: string[]
  user?: (reply: SshCertificate) => string
  /** A program other than ssh, with ssh's options. */
  program?: 'sftp' | 'scp'
  withoutCertificate?: boolean
}

async function login(
  w: AttackedInstallation,
  o: Login = {},
): Promise<{ code: number | null; out: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'berth-login-'))
  try {
    const key = join(folder, 'key')
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key])
    const reply = await w.fixture.post<SshCertificate>(`/api/servers/${w.fixture.serverId}/ssh`, {
      public_key: readFileSync(`${key}.pub`, 'utf8').trim(),
      purpose: o.purpose ?? 'logs',
      environment_id: (o.target?.(w) ?? w.mallory).environment.id,
    })
    writeFileSync(`${key}-cert.pub`, `${reply.certificate}\n`)
    const known = [reply.host_ca].flat().map((ca) => `@cert-authority ${reply.host_alias} ${ca}`)
    writeFileSync(join(folder, 'known'), `${known.join('\n')}\n`)
    if (o.withoutCertificate) rmSync(`${key}-cert.pub`)
    const port = o.program ? '-P' : '-p'
    const options = [
      '-F',
      'none',
      '-i',
      key,
      '-o',
      'IdentitiesOnly=yes',
      '-o',
      'BatchMode=yes',
      '-o',
      `UserKnownHostsFile=${join(folder, 'known')}`,
      '-o',
      `HostKeyAlias=${reply.host_alias}`,
      '-o',
      'StrictHostKeyChecking=yes',
      '-o',
      'ConnectTimeout=10',
      '-o',
      'LogLevel=ERROR',
      port,
      String(reply.port),
    ]
    const destination = `${o.user?.(reply) ?? reply.user}@127.0.0.1`
    const argv =
      o.program === 'scp'
        ? [...options, `${destination}:/etc/passwd`, join(folder, 'stolen')]
        : o.program === 'sftp'
          ? [...options, '-b', '/dev/null', destination]
          : [...options, ...(o.flags ?? []), destination, ...(o.words ?? [])]
    const done = spawnSync(o.program ?? 'ssh', argv, {
      encoding: 'utf8',
      timeout: 30_000,
      input: o.program ? '' : undefined,
    })
    return { code: done.status, out: `${done.stdout}${done.stderr}` }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const argvOf = (...argv: string[]): string =>
  Buffer.from(JSON.stringify(argv)).toString('base64url')

const logsWork = async (w: AttackedInstallation): Promise<void> => {
  const { code, out } = await login(w, { words: ['logs', '-', '--tail=5'] })
  must(code === 0, `logs end with ${code}: ${out}`)
}
const execWorks = async (w: AttackedInstallation): Promise<void> => {
  const { out } = await login(w, {
    purpose: 'shell',
    words: ['exec', 'web', argvOf('echo', 'in it')],
  })
  must(out.includes('in it'), out)
}

/** The port that Berth gave the environment's service; a wrong one is answered with it. */
async function portOf(w: AttackedInstallation, target: Target): Promise<number> {
  const asked = { purpose: 'forward', target: () => target, words: ['forward', 'web:1'] } as const
  const { out } = await login(w, { ...asked, words: [...asked.words] })
  const port = Number(/The port of web is (\d+)/.exec(out)?.[1])
  must(port > 0, `no port in: ${out}`)
  return port
}
const forwardWorks = async (w: AttackedInstallation): Promise<void> => {
  const port = await portOf(w, w.mallory)
  const { out } = await login(w, { purpose: 'forward', words: ['forward', `web:${port}`] })
  must(out.includes('ready'), out)
}
const copyWorks = async (w: AttackedInstallation): Promise<void> => {
  const { code, out } = await login(w, {
    purpose: 'copy',
    words: ['copy', 'web', 'from', argvOf('.')],
  })
  must(code === 0 && out.includes('ustar'), `the copy ended with ${code}: ${out.slice(0, 200)}`)
}

const denied = (
  title: string,
  make: Login,
  sign: RegExp,
  control = logsWork,
  isImportant = false,
): Case => ({
  subject: 'ssh',
  title,
  control,
  isImportant,
  async attack(w) {
    const { code, out } = await login(w, make)
    return found(out, sign) ?? (code === 0 ? `ended with 0: ${out.slice(0, 100)}` : undefined)
  },
})

export const SSH: Case[] = [
  denied('a word that is no verb runs nothing', { words: ['id'] }, /uid=/, logsWork, true),
  denied('shell text runs nothing', { words: ['logs', ';', 'id'] }, /uid=/),
  denied('a substitution runs nothing', { words: ['logs', '$(id)'] }, /uid=/),
  denied(
    'a certificate for logs runs no command',
    { words: ['exec', 'web', argvOf('id')] },
    /uid=/,
  ),
  denied('a certificate for logs opens no shell', { words: ['shell'], flags: ['-tt'] }, /\$ $/),
  denied('sftp is refused', { program: 'sftp' }, /sftp>/),
  denied('scp is refused', { program: 'scp' }, /root:x/),
  denied('a port is not forwarded', { flags: ['-W', '127.0.0.1:22'] }, /SSH-2/),
  denied('root is not opened by a certificate', { user: () => 'root', words: ['id'] }, /uid=/),
  denied(
    'a forwarded port is no other port of the server',
    { purpose: 'forward', words: ['forward', 'web:22'] },
    /ready/,
    forwardWorks,
    true,
  ),
  denied(
    'a certificate for a forwarded port runs no command',
    { purpose: 'forward', words: ['exec', 'web', argvOf('id')] },
    /uid=/,
    forwardWorks,
  ),
  denied(
    'a certificate to copy forwards no port, and one for logs copies nothing',
    { words: ['copy', 'web', 'from', argvOf('/etc/passwd')] },
    /root:x/,
    copyWorks,
  ),
  {
    subject: 'ssh',
    title: 'a forwarded port is not the one of a neighbour',
    isImportant: true,
    control: forwardWorks,
    async attack(w) {
      const port = await portOf(w, w.victim)
      const { out } = await login(w, { purpose: 'forward', words: ['forward', `web:${port}`] })
      return found(out, /ready/)
    },
  },
  {
    subject: 'ssh',
    title: 'a copy through a planted link reads no values of a neighbour',
    isImportant: true,
    control: copyWorks,
    async attack(w) {
      const plant = `d=$BERTH_SHARED_DIR; ln -sfn "$d/../../e${w.victim.environment.id}/variables" "$d/peek"; echo "at=$d/peek"`
      const planted = await login(w, {
        purpose: 'shell',
        words: ['exec', 'web', argvOf('sh', '-c', plant)],
      })
      const path = /at=(\S+)/.exec(planted.out)?.[1] ?? ''
      must(path !== '', `nothing was planted: ${planted.out}`)
      const { out } = await login(w, {
        purpose: 'copy',
        words: ['copy', 'web', 'from', argvOf(path)],
      })
      return found(out, CANARY)
    },
  },
  denied(
    'a key without its certificate opens nothing',
    { withoutCertificate: true, words: ['logs', '-'] },
    /"text"/,
  ),
  denied(
    'a command runs in its own environment only',
    {
      purpose: 'shell',
      words: [
        'exec',
        'web',
        argvOf('sh', '-c', 'cat ../../../e*/variables/* 2>/dev/null | grep canary- || exit 1'),
      ],
    },
    new RegExp(CANARY),
    execWorks,
    true,
  ),
  {
    subject: 'ssh',
    title: 'what a person prints of the variables is masked',
    control: execWorks,
    async attack(w) {
      const { out } = await login(w, {
        purpose: 'shell',
        target: (installation) => installation.victim,
        words: ['exec', 'web', argvOf('sh', '-c', 'echo "$SECRET"; echo "$SECRET" | base64')],
      })
      return (
        found(out, CANARY) ?? found(out, Buffer.from(`${CANARY}\n`).toString('base64').slice(0, 30))
      )
    },
  },
  {
    subject: 'ssh',
    title: 'a command over SSH is bound like the environment’s own',
    isImportant: true,
    control: execWorks,
    async attack(w) {
      const { out } = await login(w, {
        purpose: 'shell',
        words: ['exec', 'web', argvOf('cat', '/proc/self/cgroup')],
      })
      return new RegExp(`e${w.mallory.environment.id}\\b`).test(out)
        ? undefined
        : `its groups: ${out.slice(0, 300)}`
    },
  },
]
