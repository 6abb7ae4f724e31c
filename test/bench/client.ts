// Start-up time of the client: the bundled file with --version, as a ratio to `node -e 0` of the same run. Every
// command pays this before its first request.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { percentile } from './figures.ts'
import { goalAtMost } from './goals.ts'

/** 150 ms, which a person does not notice, on a machine whose `node -e 0` takes 45 ms. */
const BUDGET_RATIO = 3.3

const root = fileURLToPath(new URL('../..', import.meta.url))

function time(args: string[], env: Record<string, string>): number {
  const startedAt = performance.now()
  const { status, stderr } = spawnSync(process.execPath, args, { env, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${args.join(' ')} ended with ${status}: ${stderr}`)
  return performance.now() - startedAt
}

export async function benchClient(rounds: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'berth-bench-client-'))
  try {
    const env = { PATH: process.env.PATH ?? '', HOME: folder, BERTH_CONFIG_DIR: folder }
    const bundle = join(folder, 'berth.cjs')
    const program = fileURLToPath(new URL('../../scripts/bundle.ts', import.meta.url))
    execFileSync(process.execPath, [program, 'client'], {
      cwd: root,
      env: { ...process.env, BERTH_DIST: folder },
    })
    const nothing: number[] = []
    const started: number[] = []
    for (let round = 0; round < rounds; round++) {
      nothing.push(time(['-e', '0'], env)) // alternating, so both see the same noise
      started.push(time([bundle, '--version'], env))
    }
    const [floor, version] = [percentile(nothing, 50), percentile(started, 50)]
    const ratio = version / floor
    const size = Math.round(statSync(bundle).size / 1_000)
    console.log(`bundle ${size} kB`)
    console.log(`node -e 0          ${floor.toFixed(0)} ms`)
    console.log(`berth --version    ${version.toFixed(0)} ms, ${ratio.toFixed(2)} × node -e 0`)
    goalAtMost('start of the client', ratio, BUDGET_RATIO, '× node -e 0')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
