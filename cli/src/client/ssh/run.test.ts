// An ssh session ends when it is closed, even if its output was only partly read.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { testIo } from '../../testing/io.ts'
import { openSession } from './run.ts'

test('a session whose output somebody stopped reading ends when it is closed', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'berth-ssh-run-'))
  try {
    const ssh = join(folder, 'ssh')
    writeFileSync(ssh, '#!/bin/sh\necho one\nread -r word\necho two\n')
    chmodSync(ssh, 0o755)
    const io = testIo({ env: { PATH: `${folder}:${process.env.PATH}` } })
    const session = openSession(io, [])
    const chunks = session.stdout[Symbol.asyncIterator]()
    expect(String((await chunks.next()).value)).toBe('one\n')
    session.send('go\n')
    expect((await session.close()).code).toBe(0)
  } finally {
    rmSync(folder, { recursive: true })
  }
})
