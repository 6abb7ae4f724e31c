// The build context: which files are sent for which .dockerignore (expectations recorded from the docker CLI), and what
// their entries look like. Nothing outside the folder may get in.
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { extract, type Header } from 'tar-stream'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { packContext, resolveInside } from './context.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'berth-context-'))
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

function write(path: string, text = 'x'): void {
  mkdirSync(dirname(join(root, path)), { recursive: true })
  writeFileSync(join(root, path), text)
}

interface Entry {
  header: Header
  text: string
}

async function unpack(stream: Readable): Promise<Map<string, Entry>> {
  const entries = new Map<string, Entry>()
  const reader = extract()
  stream.once('error', (error) => reader.destroy(error))
  stream.pipe(reader)
  for await (const entry of reader) {
    const chunks: Buffer[] = []
    for await (const chunk of entry) chunks.push(chunk as Buffer)
    entries.set(entry.header.name, {
      header: entry.header,
      text: Buffer.concat(chunks).toString('utf8'),
    })
  }
  return entries
}

const listFiles = async (dockerfile?: string): Promise<string[]> => {
  const entries = await unpack(packContext(root, dockerfile ? { dockerfile } : {}))
  const files = [...entries].filter(([, { header }]) => header.type !== 'directory')
  return files.map(([name]) => name).toSorted()
}

describe('.dockerignore', () => {
  const cases = JSON.parse(
    readFileSync(new URL('./context-cases.testing.json', import.meta.url), 'utf8'),
  ) as { files: string[]; cases: { rules: string; sent: string[] }[] }

  beforeEach(() => {
    for (const file of cases.files) write(file)
  })

  test.each(cases.cases)('$rules', async ({ rules, sent }) => {
    write('.dockerignore', rules)
    const files = await listFiles()
    // the CLI of the recording always sent these two; ours come without the list itself when it is ignored
    expect(files.filter((f) => f !== 'Dockerfile' && f !== '.dockerignore')).toEqual(sent)
    expect(files).toContain('Dockerfile')
  })

  test('a packer that does not know negations fails these cases', async () => {
    let wrong = 0
    for (const { rules, sent } of cases.cases.filter((c) => c.rules.includes('!'))) {
      write('.dockerignore', rules.replaceAll(/^!.*$/gm, ''))
      const files = (await listFiles()).filter((f) => f !== 'Dockerfile' && f !== '.dockerignore')
      if (files.join() !== sent.join()) wrong += 1
    }
    expect(wrong).toBeGreaterThan(10)
  })

  test('one beside the Dockerfile goes before the common one', async () => {
    write('.dockerignore', 'a.js')
    write('docker/Production')
    write('docker/Production.dockerignore', '*\n!b.md')
    expect(await listFiles('docker/Production')).toEqual(['b.md', 'docker/Production'])
    expect(await listFiles()).not.toContain('a.js')
  })

  test('the Dockerfile comes also when it is ignored, the list itself does not', async () => {
    write('.dockerignore', '*\n')
    expect(await listFiles()).toEqual(['Dockerfile'])
  })
})

describe('entries', () => {
  test('keep mode and time, belong to root, and links stay links', async () => {
    write('run.sh', '#!/bin/sh\n')
    chmodSync(join(root, 'run.sh'), 0o755)
    utimesSync(join(root, 'run.sh'), 1_000_000, 1_000_000)
    mkdirSync(join(root, 'empty'), { mode: 0o750 })
    write('none', '')
    symlinkSync('/etc/passwd', join(root, 'link'))
    symlinkSync('empty', join(root, 'folder-link'))
    const entries = await unpack(packContext(root))
    expect([...entries.keys()]).toEqual(['empty/', 'folder-link', 'link', 'none', 'run.sh'])
    expect(entries.get('run.sh')).toMatchObject({
      text: '#!/bin/sh\n',
      header: { mode: 0o755, uid: 0, gid: 0, mtime: new Date(1_000_000_000) },
    })
    expect(entries.get('empty/')?.header).toMatchObject({ type: 'directory', mode: 0o750 })
    expect(entries.get('link')).toMatchObject({
      text: '',
      header: { type: 'symlink', linkname: '/etc/passwd' },
    })
    expect(entries.get('none')).toMatchObject({ text: '', header: { type: 'file', size: 0 } })
  })

  test('of sockets and FIFOs are left out', async () => {
    write('a')
    execFileSync('mkfifo', [join(root, 'fifo')])
    const server = createServer().listen(join(root, 'socket'))
    try {
      expect(await listFiles()).toEqual(['a'])
    } finally {
      server.close()
    }
  })

  test('with long names and large content arrive whole', async () => {
    const name = `${'long-folder-name/'.repeat(12)}${'n'.repeat(120)}`
    write(name, 'y'.repeat(3_000_000))
    const entries = await unpack(packContext(root))
    expect(entries.get(name)?.text.length).toBe(3_000_000)
  })
})

test('a folder that cannot be read fails the stream', async () => {
  await expect(unpack(packContext(join(root, 'nowhere')))).rejects.toThrow('ENOENT')
})

test('an aborted packing ends the stream', async () => {
  write('a')
  const stream = packContext(root, { signal: AbortSignal.abort() })
  await expect(unpack(stream)).rejects.toThrow(/abort/)
})

describe('resolveInside', () => {
  test('gives the real path of what lies in the checkout', () => {
    write('app/Dockerfile')
    symlinkSync('app', join(root, 'link'))
    expect(resolveInside(root, 'link/Dockerfile')).toBe(join(root, 'app/Dockerfile'))
    expect(resolveInside(root, '.')).toBe(root)
  })

  test('refuses what leads out of it, and what is not there', () => {
    symlinkSync('/etc', join(root, 'out'))
    mkdirSync(`${root}-beside`)
    symlinkSync(`${root}-beside`, join(root, 'beside'))
    for (const path of ['out', 'out/passwd', '..', 'beside']) {
      expect(() => resolveInside(root, path)).toThrow(`${path} leads out of the checkout.`)
    }
    expect(() => resolveInside(root, 'nope')).toThrow('nope is not in the checkout.')
    rmSync(`${root}-beside`, { recursive: true })
  })

  test('a .dockerignore that leads out of the checkout is not read', async () => {
    write('a')
    const outside = join(tmpdir(), `berth-rules-${process.pid}`)
    writeFileSync(outside, 'a\n')
    symlinkSync(outside, join(root, '.dockerignore'))
    try {
      expect(await listFiles()).toContain('a')
    } finally {
      rmSync(outside)
    }
  })
})
