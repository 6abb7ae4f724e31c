// The important attacks of `npm run attack`, run the same way: in their own namespace, each after its control.
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { missing } from '../fixtures/platform/components.ts'
import { isRunLate } from '../fixtures/platform/run-time.ts'

const isRoot = process.getuid?.() === 0
const needed = ['docker', 'caddy', 'sshd'] as const

/** Everything it prints; awaited to its end, so that no process is left behind. */
function attack(): Promise<{ code: number | null; out: string }> {
  const argv = [join(import.meta.dirname, 'main.ts'), '--important']
  const child = spawn(process.execPath, argv, { stdio: ['ignore', 'pipe', 'pipe'] })
  let out = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (piece) => {
      out += piece
    })
  }
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, out })))
}

test.skipIf(isRunLate() || !isRoot || needed.some((one) => missing(one)))(
  'every important attack is held',
  { timeout: 900_000 },
  async () => {
    const { code, out } = await attack()
    expect(out, out).not.toContain('BROKEN  ')
    expect(out).toMatch(/^(\d{2,}) attacks: \1 held, 0 BROKEN$/m)
    expect(code).toBe(0)
  },
)
