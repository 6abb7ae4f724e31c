// A control plane with ordinary limits, for attacks on the limits themselves; the attacked installation lifts them for
// the harness.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { until } from '../fixtures/server/installation.ts'
import { freePort } from '../fixtures/server/installation-docker.ts'

export interface Plain {
  url: string
  /** Signs up the first administrator and returns the cookie. */
  signUp: (password: string) => Promise<string>
  changePassword: (cookie: string, current: string) => Promise<number>
}

export async function withOrdinaryLimits<T>(work: (plain: Plain) => Promise<T>): Promise<T> {
  const dir = mkdtempSync(join(tmpdir(), 'berth-plain-'))
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const child = spawn(process.execPath, ['control-plane/src/main.ts'], {
    cwd: join(import.meta.dirname, '../..'),
    env: {
      ...process.env,
      BERTH_DEV: '1',
      BERTH_LOG: 'warn',
      BERTH_DATA_DIR: dir,
      BERTH_PORT: String(port),
      BERTH_AGENT_PORT: String(await freePort()),
      BERTH_URL: url,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let printed = ''
  child.stdout.on('data', (d) => {
    printed = (printed + d).slice(-10_000)
  })
  const gone = new Promise((resolve) => child.once('exit', resolve))
  try {
    const token = await until('a set-up token', () => /berth_setup_\w+/.exec(printed)?.[0])
    const post = (path: string, body: object, cookie = '') =>
      fetch(url + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json', origin: url, ...(cookie ? { cookie } : {}) },
        body: JSON.stringify(body),
      })
    return await work({
      url,
      async signUp(password) {
        const email = 'ada@example.com'
        await post('/api/setup', { token, name: 'Ada', email, organization: 'Acme', password })
        const answer = await post('/api/auth/sign-in/email', { email, password })
        return answer.headers
          .getSetCookie()
          .map((line) => line.split(';')[0])
          .join('; ')
      },
      async changePassword(cookie, currentPassword) {
        const body = { currentPassword, newPassword: 'another horse battery' }
        return (await post('/api/auth/change-password', body, cookie)).status
      },
    })
  } finally {
    child.kill('SIGTERM')
    await gone
    rmSync(dir, { recursive: true, force: true })
  }
}
