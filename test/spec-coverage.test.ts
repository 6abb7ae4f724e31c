// Every sentence of the specification has a test, and that test exists.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { PROMISES } from './spec-coverage.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const plain = (text: string): string => text.replaceAll('\\', '')

test.each(PROMISES)('$sentence', ({ proofs }) => {
  expect(proofs.length).toBeGreaterThan(0)
  for (const [file, title] of proofs) {
    expect(existsSync(join(root, file)), file).toBe(true)
    expect(plain(readFileSync(join(root, file), 'utf8'))).toContain(title)
  }
})
