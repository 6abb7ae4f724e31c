// `npm run berth` is the client of this checkout, in the folder where it is typed.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

test("works in the caller's folder, with its spaces and its words", () => {
  const parent = mkdtempSync(join(tmpdir(), 'berth-caller-'))
  const cwd = join(parent, 'my folder')
  mkdirSync(cwd)
  writeFileSync(join(cwd, 'my file.yml'), 'manual: { deploy: ["true"] }\n')
  try {
    const words = ['--prefix', root, 'run', '--silent', 'berth', '--', 'config', 'validate']
    const out = execFileSync('npm', [...words, 'my file.yml'], {
      cwd,
      encoding: 'utf8',
      env: { PATH: process.env.PATH ?? '', HOME: parent },
    })
    expect(out).toContain('my file.yml is valid')
  } finally {
    rmSync(parent, { recursive: true, force: true })
  }
})
