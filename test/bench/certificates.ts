// SSH certificates per second on one core, as a ratio to a spawned `ssh-keygen -s` for each, in the same run: the codec
// alone (key parsed, signed, read back), and whole HTTP requests with row, audit and two synced commits. Rounds
// alternate, so that a busy machine slows both; the median round counts.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { GRANT_EXTENSION } from '@berth/shared'
import {
  acceptPublicKey,
  ed25519PublicKey,
  formatPublicKey,
  signCertificate,
} from '@berth/shared/ssh'
import { makeEd25519, signerOf } from '../../control-plane/src/keys/ssh-craft.testing.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'
import { percentile, round, thousands } from './figures.ts'
import { goalAtLeast } from './goals.ts'

const ROUNDS = 5
const ROUND_MS = 2_000
const KEYS = 2_000 // each request sends a new key, as the client does
const IN_FLIGHT = 4

/** Calls per second in one round. */
async function measure(work: (n: number) => unknown): Promise<number> {
  const started = performance.now()
  let done = 0
  while (performance.now() - started < ROUND_MS) {
    await work(done)
    done += 1
  }
  return done / ((performance.now() - started) / 1_000)
}

async function openControlPlane() {
  const cp = await TestControlPlane.start('sqlite')
  await cp.setUp()
  const server = await cp.server()
  const { id } = await cp.environment((await cp.project('shop', server.id)).id)
  ;(await WireAgent.join(cp, server.id)).close()
  const ask = (public_key: string) => {
    cp.clock.offsetMs += 1_100 // keeps the limit of 60 a minute out of the measurement
    const asked = { public_key, purpose: 'logs', environment_id: id }
    return cp.make(`/api/servers/${server.id}/ssh`, asked)
  }
  return { ask, close: () => cp.close() }
}

export async function benchCertificates(): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'berth-bench-'))
  const f = (name: string): string => join(dir, name)
  for (const name of ['ca', 'user']) {
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', f(name)])
  }
  const grant = JSON.stringify({ v: 1, server: 7, user: 17, environment: 42, can: ['logs'] })
  const lines = Array.from({ length: KEYS }, () => formatPublicKey(ed25519PublicKey(makeEd25519())))
  const line = (n: number): string => lines[n % KEYS] as string
  const signer = signerOf(makeEd25519())
  const control = await openControlPlane()
  let serial = 0n
  const ways: Record<string, (n: number) => unknown> = {
    'ssh-keygen -s': () => {
      const named = ['-I', 'user=17', '-n', 'berth:server:7', '-V', '-1m:+5m', '-z', '5']
      const options = ['-O', 'clear', '-O', `extension:${GRANT_EXTENSION}=${grant}`]
      execFileSync('ssh-keygen', ['-q', '-s', f('ca'), ...named, ...options, f('user.pub')])
    },
    codec: (n) => {
      const now = Math.floor(Date.now() / 1_000)
      serial += 1n
      return signCertificate(
        acceptPublicKey(line(n)),
        {
          kind: 'user',
          serial,
          keyId: 'user=17',
          principals: ['berth:server:7'],
          validAfter: now - 60,
          validBefore: now + 300,
          criticalOptions: new Map(),
          extensions: new Map([[GRANT_EXTENSION, grant]]),
        },
        signer,
      )
    },
    'whole request': (n) =>
      Promise.all(
        Array.from({ length: IN_FLIGHT }, (_, k) => control.ask(line(n * IN_FLIGHT + k))),
      ),
  }
  const perCall: Record<string, number> = { 'whole request': IN_FLIGHT }
  const rates = new Map<string, number[]>()
  try {
    for (let n = 0; n < ROUNDS; n++) {
      for (const [name, work] of Object.entries(ways)) {
        const rate = (await measure(work)) * (perCall[name] ?? 1)
        rates.set(name, [...(rates.get(name) ?? []), rate])
      }
    }
    if (!readFileSync(f('user-cert.pub'), 'utf8').includes('cert-v01')) throw new Error('no floor')
  } finally {
    await control.close()
    rmSync(dir, { recursive: true, force: true })
  }
  const median = (name: string): number => percentile(rates.get(name) ?? [], 50)
  const floor = median('ssh-keygen -s')
  for (const name of rates.keys()) {
    const rate = median(name)
    const ratio = `${round(rate / floor, 1)} × ssh-keygen -s`
    console.log(`${name.padEnd(16)} ${thousands(rate).padStart(7)} certificates/s   ${ratio}`)
  }
  goalAtLeast('codec', median('codec') / floor, 50, '× ssh-keygen -s')
  goalAtLeast('whole request', median('whole request') / floor, 2, '× ssh-keygen -s')
}
