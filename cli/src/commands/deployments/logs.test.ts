// berth logs with a script in place of ssh: ends that only one side notices, and sessions that the server ends.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { run } from '../../program/invoke.ts'
import { type Installation, startInstallation } from '../../testing/installation.ts'
import { testIo } from '../../testing/io.ts'
import { environment } from '../../testing/samples.ts'
import { certificate } from '../../testing/samples-people.ts'

const FOLLOW = ['logs', '-p', 'shop', '-e', 'pr-42', '-f']
const record = (service: string, text: string) =>
  JSON.stringify({ t: '2026-11-15T09:00:00.000Z', s: 'out', service, task: 7, text })

describe('berth logs', () => {
  let it_: Installation
  let bin: string
  const wishes = new Set<() => void>()
  beforeEach(async () => {
    it_ = await startInstallation()
    bin = mkdtempSync(join(tmpdir(), 'berth-logs-'))
    Object.assign(it_.env, { PATH: `${bin}:${process.env.PATH}`, XDG_RUNTIME_DIR: bin })
    it_.peer.script('POST /api/servers/2/ssh', { status: 201, json: certificate() })
    const [web] = environment().services
    const services = [web, { ...web, name: 'db', url: null }]
    const both = environment({ services })
    it_.peer.script('GET /api/projects/12/environments', { json: [both] })
  })
  afterEach(() => {
    for (const clean of wishes) clean()
    wishes.clear()
    rmSync(bin, { recursive: true, force: true })
  })

  /** The server's answer to each request, as lines of a script. */
  const answer = (...cases: [request: string, ...lines: string[]][]): void => {
    const arms = cases.map(([request, ...lines]) => `*"${request}"*) ${lines.join('; ')} ;;`)
    const text = `#!/bin/sh\ncase "$*" in\n${arms.join('\n')}\nesac\n`
    writeFileSync(join(bin, 'ssh'), text, { mode: 0o755 })
  }
  const say = (service: string, text: string): string => `echo '${record(service, text)}'`
  const quiet = 'exec cat >/dev/null'
  const open = (more: Parameters<typeof testIo>[0] = {}) =>
    testIo({
      env: it_.env,
      atExit: (clean) => {
        wishes.add(clean)
        return () => wishes.delete(clean)
      },
      ...more,
    })

  it('ends with its reader, though the services say nothing more', async () => {
    answer(['logs web', say('web', 'one'), quiet], ['logs db', say('db', 'two'), quiet])
    const io = open()
    const { write } = io.stdout
    io.stdout.write = (data) => {
      Object.assign(io.stdout, { closed: true }) // | head -1
      return write.call(io.stdout, data)
    }
    expect(await run([...FOLLOW, '-s', 'web', '-s', 'db'], io), io.stderr.text).toBe(0)
    expect(io.stdout.text.split('\n')).toHaveLength(2)
  })

  it('an unknown service is an error that lists the names, before a connection is made', async () => {
    const io = open()
    expect(await run([...FOLLOW, '-s', 'wbe'], io)).toBe(5)
    expect(io.stderr.text).toBe(
      "error: no service 'wbe' in shop / pr-42\nhint:  services: web, db\n",
    )
    expect(it_.peer.asked('POST /api/servers/2/ssh')).toEqual([])
  })

  it('says what is wrong with one service while the others are quiet', async () => {
    answer(['logs web', quiet], ['logs db', "echo 'berth: There is no db here.' >&2", 'exit 44'])
    const io = open()
    expect(await run([...FOLLOW, '-s', 'web', '-s', 'db'], io)).toBe(1)
    expect(io.stderr.text).toContain('There is no db here.')
  })

  it('goes on in a new session when the server ended one at its time', async () => {
    const over = "echo 'berth: The time granted for this session is over.' >&2"
    answer(['--since=', say('web', 'two'), quiet], ['logs web', say('web', 'one'), over, 'exit 44'])
    const HOURS = 12 * 3_600_000
    const start = Date.now()
    const io = open({ now: () => start + (/one/.test(io.stdout.text) ? HOURS : 0) })
    const { write } = io.stdout
    io.stdout.write = async (data) => {
      await write.call(io.stdout, data)
      if (/two/.test(io.stdout.text)) io.interrupt()
    }
    expect(await run([...FOLLOW, '-s', 'web'], io), io.stderr.text).toBe(130)
    expect(io.stdout.text.match(/one|two/g)).toEqual(['one', 'two'])
  })

  it('takes the flag that people know from elsewhere', async () => {
    answer(['--tail=5 ', say('web', 'five')])
    const io = open()
    expect(await run(['logs', '-p', 'shop', '-e', 'pr-42', '--tail', '5'], io)).toBe(0)
    expect(io.stdout.text).toContain('five')
  })
})
