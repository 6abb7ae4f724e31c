// The control plane as a process, with its settings in a file: it uses them, and refuses wrong ones with all reasons.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { CONTROL_PLANE_FILES, CONTROL_PLANE_MAIN } from '../fixtures/server/programs.ts'

const folder = mkdtempSync(join(tmpdir(), 'berth-settings-'))
const started: ChildProcess[] = []
afterAll(async () => {
  for (const child of started) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    child.kill('SIGTERM')
    await once(child, 'exit')
  }
  rmSync(folder, { recursive: true, force: true })
})

/** Collects what it says until it listens or ends. */
async function run(toml: string, mode = 0o640): Promise<{ child: ChildProcess; said: string }> {
  const file = join(folder, `server-${started.length}.toml`)
  writeFileSync(file, toml, { mode })
  const env = { PATH: process.env.PATH ?? '', ...CONTROL_PLANE_FILES, BERTH_CONFIG_FILE: file }
  const child = spawn(process.execPath, [CONTROL_PLANE_MAIN], { env, stdio: 'pipe' })
  started.push(child)
  let said = ''
  const listening = new Promise<void>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        said += chunk
        if (said.includes('One-time set-up link')) resolve()
      })
    }
  })
  await Promise.race([listening, once(child, 'close')])
  return { child, said }
}

test('a control plane starts with the settings of its file', async () => {
  const data = join(folder, 'data')
  const { child, said } = await run(
    `data_dir = "${data}"
port = 0
log = "error"

[agents]
port = 0

[mail]
smtp_url = "smtp://berth:hunter2@127.0.0.1:1"
from = "Berth <berth@example.com>"

[limits]
enrolments_per_minute = 1
`,
    0o644,
  )
  const url = /Berth listens at (\S+), for agents/.exec(said)?.[1]
  expect((await fetch(`${url}/api/health`)).status).toBe(200)
  expect(said).toContain('warning: ')
  expect(said).toContain('mail.smtp_url, and every account of this machine can read it.')
  expect(said).not.toContain('hunter2')
  expect(said).not.toContain('"level":') // it logs errors only
  const renew = () =>
    fetch(`${url}/api/agent/renew/challenge`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ certificate: 'x' }),
    })
  expect((await renew()).status).not.toBe(429)
  expect((await renew()).status).toBe(429)
  child.kill('SIGTERM')
  expect(await once(child, 'exit')).toEqual([0, null])
})

test('one with wrong settings ends and says all of them', async () => {
  const { child, said } = await run('data_dri = "/nowhere"\nport = 99999\n[mail]\nfrom = "x"\n')
  expect(child.exitCode).toBe(1)
  expect(said).toMatch(/^error: \S+:2: port must be a port from 0 to 65535, got "99999"\.$/m)
  expect(said).toMatch(/^\S+:4: mail\.from must be an address such as .*, got "x"\.$/m)
  expect(said).toMatch(/^\S+:1: there is no setting data_dri; did you mean data_dir\?$/m)
})
