// The agents' gateway: only a certificate of our authority gives an identity, and a join works once.

import { execFileSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import { type Case, must } from '../case.ts'
import type { AttackedInstallation } from '../target.ts'

const identity = (w: AttackedInstallation) => {
  const folder = join(w.fixture.stateDir, 'identity', 'current')
  return (name: string): string => readFileSync(join(folder, name), 'utf8')
}

/** Whether the gateway accepts HTTP/2 from this client at all. */
function handshake(w: AttackedInstallation, options: ConnectionOptions): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connectTls({
      host: '127.0.0.1',
      port: w.fixture.agentPort,
      rejectUnauthorized: false,
      ALPNProtocols: ['h2'],
      ...options,
    })
    const timer = setTimeout(() => socket.destroy(), 5_000)
    // an HTTP/2 preface and empty settings; a refused client is cut before the server sends its settings
    socket.on('secureConnect', () =>
      socket.write(
        Buffer.from('505249202a20485454502f322e300d0a0d0a534d0d0a0d0a000000040000000000', 'hex'),
      ),
    )
    let isLetIn = false
    socket.on('data', () => {
      isLetIn = true
      socket.destroy()
    })
    socket.on('error', () => undefined)
    socket.on('close', () => {
      clearTimeout(timer)
      resolve(isLetIn)
    })
  })
}

const honest = async (w: AttackedInstallation): Promise<void> => {
  const read = identity(w)
  must(
    await handshake(w, { key: read('key.pem'), cert: read('certificate.pem') }),
    'the agent itself is not let in',
  )
}

/** A certificate that names the real agent, signed by the attacker. */
function forged(w: AttackedInstallation): { key: string; cert: string } {
  const folder = mkdtempSync(join(tmpdir(), 'berth-forged-'))
  try {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const key = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
    execFileSync('sh', ['-c', 'cat >key.pem'], { cwd: folder, input: key })
    const real = execFileSync('openssl', ['x509', '-noout', '-ext', 'subjectAltName'], {
      input: identity(w)('certificate.pem'),
      encoding: 'utf8',
    })
    const [uri = ''] = /URI:\S+/.exec(real) ?? []
    execFileSync(
      'openssl',
      [
        'req',
        '-x509',
        '-new',
        '-key',
        'key.pem',
        '-subj',
        '/CN=agent',
        '-days',
        '2',
        '-addext',
        `subjectAltName=${uri}`,
        '-out',
        'cert.pem',
      ],
      { cwd: folder, stdio: 'pipe' },
    )
    return { key, cert: readFileSync(join(folder, 'cert.pem'), 'utf8') }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

export const AGENTS: Case[] = [
  {
    subject: 'agents',
    title: 'without a certificate nobody speaks to the agents’ gateway',
    control: honest,
    attack: async (w) => ((await handshake(w, {})) ? 'let in' : undefined),
  },
  {
    subject: 'agents',
    title: 'a certificate of another authority with the agent’s name is refused',
    isImportant: true,
    control: honest,
    attack: async (w) => ((await handshake(w, forged(w))) ? 'let in' : undefined),
  },
  {
    subject: 'agents',
    title: 'a join token works once, and a made-up one never',
    async control(w) {
      const server = await w.fixture.post<{ id: number }>('/api/servers', {
        name: 'spare',
        hostname: 'spare',
      })
      const { token } = await w.fixture.post<{ token: string }>(
        `/api/servers/${server.id}/join_token`,
      )
      must(token.startsWith('berth_join_'), 'no token')
    },
    async attack(w) {
      const bodies = ['', 'berth_join_aaaaaaaaaaaa.bbbb.cccc', w.fixture.token].map((token) => ({
        token,
        csr: 'x',
        install_id: 'x',
        host: { hostname: 'x', os: 'x', arch: 'x', agent_version: '1' },
      }))
      for (const body of bodies) {
        const { status } = await w.api(undefined, 'POST', '/api/agent/enroll', body)
        if (status < 400) return `${JSON.stringify(body.token)} was believed`
      }
      return undefined
    },
  },
  {
    subject: 'agents',
    title:
      'a machine’s token opens nothing of people’s API, and a person’s token nothing of agents’',
    control: async (w) =>
      must(
        (await w.api(w.fixture.token, 'GET', '/api/me')).status === 200,
        'the token does not work',
      ),
    async attack(w) {
      const server = await w.fixture.post<{ id: number }>('/api/servers', {
        name: 'other',
        hostname: 'other',
      })
      const { token } = await w.fixture.post<{ token: string }>(
        `/api/servers/${server.id}/join_token`,
      )
      for (const path of ['/api/me', '/api/projects', '/api/servers']) {
        const { status } = await w.api(token, 'GET', path)
        if (status !== 401) return `${path} answered ${status} to a join token`
      }
      const renew = await w.api(w.fixture.token, 'POST', '/api/agent/renew/challenge', {
        certificate: 'x',
      })
      return renew.status < 400 ? 'a person renewed a certificate' : undefined
    },
  },
]
