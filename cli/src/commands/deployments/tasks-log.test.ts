import { execFile } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import {
  berth,
  berthInTerminal,
  startBerth,
  temporaryFolder,
  testEnvironment,
} from '../../testing/berth.ts'
import { startInstallation } from '../../testing/installation.ts'
import { problem } from '../../testing/peer.ts'
import { failedTask, logLine, task } from '../../testing/samples.ts'

const LOG = 'GET /api/tasks/813/log'
const ESC = '\u001b'
const ndjson = { 'content-type': 'application/x-ndjson' }
const plain = { 'content-type': 'text/plain; charset=utf-8', 'berth-log-complete': 'true' }
const RED = `${ESC}[31mred${ESC}[0m ${ESC}]52;c;eA==\u0007${ESC}[2Aend`

describe('which log', () => {
  it('of the last deployment, or the last that failed', async () => {
    const { peer, env } = await startInstallation()
    peer.script('GET /api/environments/101/tasks', { json: [task('succeeded')] })
    peer.script(LOG, { text: `${logLine(1, 'hello')}\n`, headers: ndjson })
    const args = ['-p', 'shop', '-e', 'pr-42']
    expect((await berth(['tasks', 'log', ...args], { env })).stdout).toBe('hello\n')
    expect((await berth(['log', ...args, '--failed'], { env })).stdout).toBe('hello\n')
    const queries = peer
      .asked('GET /api/environments/101/tasks')
      .map((one) => one.query.get('status'))
    expect(queries).toEqual([null, 'failed'])
  })

  it('nothing has failed: 5', async () => {
    const { peer, env } = await startInstallation()
    peer.script('GET /api/environments/101/tasks', { json: [] })
    const { code, stderr } = await berth(['log', '-p', 'shop', '-e', 'pr-42', '--failed'], { env })
    expect(code).toBe(5)
    expect(stderr).toBe(
      'error: no deployment of pr-42 has failed\n' +
        'hint:  what its containers wrote: berth logs -e pr-42\n',
    )
  })

  it('--phase and --from-line are asked of the server', async () => {
    const { peer, env } = await startInstallation()
    peer.script(LOG, { text: '', headers: ndjson })
    await berth(['tasks', 'log', '813', '--phase', 'build', '--from-line', '40'], { env })
    const query = peer.asked(LOG)[0]?.query
    expect([query?.get('phase'), query?.get('from_line')]).toEqual(['build', '40'])
  })

  it.each([
    [['log', '813', '--failed'], '--failed goes without a task ID'],
    [['log', '813', '-f', '-O', 'x'], '-O saves the raw log once'],
    [['log', '813', '--json', '-O', 'x'], '-O saves the raw log once'],
    [['log', 'abc'], 'ID takes a whole number'],
    [['log', '813', '--from-line', '0'], '--from-line takes a whole number'],
  ])('%j: 2', async (args, message) => {
    const { env } = await startInstallation()
    const { code, stderr } = await berth(args, { env })
    expect(code).toBe(2)
    expect(stderr).toContain(message)
  })

  it('past its retention: 1', async () => {
    const { peer, env } = await startInstallation()
    peer.script(LOG, problem('log_expired', 'The log of task 813 is past its retention.'))
    const { code, stderr } = await berth(['log', '813'], { env })
    expect([code, stderr]).toEqual([1, 'error: The log of task 813 is past its retention.\n'])
  })
})

describe('what is shown', () => {
  it('a terminal gets colours and nothing else, a pipe not even those', async () => {
    const { peer, env } = await startInstallation()
    peer.script(LOG, { text: `${logLine(1, RED)}\n`, headers: ndjson })
    const shown = await berthInTerminal(['log', '813'], { env })
    expect(shown.stdout).toBe(`${ESC}[31mred${ESC}[0m end${ESC}[0m\r\n`)
    expect((await berth(['log', '813'], { env })).stdout).toBe('red end\n')
    const quiet = await berthInTerminal(['log', '813'], { env: { ...env, NO_COLOR: '1' } })
    expect(quiet.stdout).toBe('red end\r\n')
  })

  it('--json: an array; with -f a line each', async () => {
    const { peer, env } = await startInstallation()
    const text = `${logLine(1, 'a')}\n${logLine(2, RED)}\n`
    peer.script('GET /api/tasks/813', { json: task('succeeded') })
    peer.script(LOG, { text, headers: ndjson })
    const { stdout } = await berth(['log', '813', '--json'], { env })
    expect(JSON.parse(stdout)).toEqual([JSON.parse(logLine(1, 'a')), JSON.parse(logLine(2, RED))])
    const followed = await berth(['log', '813', '--json', '-f'], { env })
    expect(
      followed.stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).n),
    ).toEqual([1, 2])
    peer.script(LOG, { text: '', headers: ndjson })
    expect((await berth(['log', '813', '--json'], { env })).stdout).toBe('[]\n')
  })

  it('a reader that goes away is no error', async () => {
    const { peer, env } = await startInstallation()
    const many = Array.from({ length: 20_000 }, (_, i) => logLine(i + 1, 'x'.repeat(100))).join(
      '\n',
    )
    peer.script(LOG, { text: many, headers: ndjson })
    const main = new URL('../../main.ts', import.meta.url).pathname
    const script = 'set -o pipefail; "$1" "$2" log 813 | head -n 1; echo $?'
    const stdout = await new Promise<string>((resolve, reject) => {
      execFile(
        'bash',
        ['-c', script, 'bash', process.execPath, main],
        { env: testEnvironment(env) },
        (error, out) => (error ? reject(error) : resolve(out)),
      )
    })
    expect(stdout).toBe(`${'x'.repeat(100)}\n0\n`)
  })
})

describe('-f', () => {
  it('follows to the end over a broken connection; exit 0 also when the task failed', async () => {
    const { peer, env } = await startInstallation()
    peer.script(
      LOG,
      (_, res) => {
        res.writeHead(200, ndjson)
        res.write(`${logLine(1, 'one')}\n`, () => res.destroy())
      },
      { text: `${logLine(1, 'one')}\n${logLine(2, 'two')}\n`, headers: ndjson },
    )
    peer.script('GET /api/tasks/813', { json: failedTask({ log_lines: 2 }) })
    const { code, stdout } = await berth(['tasks', 'log', '813', '-f'], { env })
    expect([code, stdout]).toEqual([0, 'one\ntwo\n'])
    expect(peer.asked(LOG)).toHaveLength(2)
  })

  it('Ctrl-C: 130', async () => {
    const { peer, env } = await startInstallation()
    peer.script(LOG, (_, res) => {
      res.writeHead(200, ndjson)
      res.write(`${logLine(1, 'one')}\n`)
    })
    const running = startBerth(['tasks', 'log', '813', '-f'], { env })
    await running.shows(/one/)
    running.interrupt()
    expect((await running.ended).code).toBe(130)
  })
})

describe('-O', () => {
  const raw = `a\n${RED}\nhalf`

  it('saves every byte', async () => {
    const { peer, env } = await startInstallation()
    peer.script(LOG, { text: raw, headers: plain })
    const cwd = temporaryFolder()
    const { code, stdout, stderr } = await berth(['log', '813', '-O', 'build.log'], { env, cwd })
    expect([code, stdout, stderr]).toEqual([0, '', 'Saved 3 lines to build.log\n'])
    expect(readFileSync(join(cwd, 'build.log'), 'utf8')).toBe(raw)
    expect((await berth(['log', '813', '-O', '-'], { env, cwd })).stdout).toBe(raw)
  })

  it('says when the log is still growing', async () => {
    const { peer, env } = await startInstallation()
    peer.script(LOG, { text: 'a\n', headers: { ...plain, 'berth-log-complete': 'false' } })
    const cwd = temporaryFolder()
    const { stderr } = await berth(['log', '813', '-O', 'x'], { env, cwd })
    expect(stderr).toContain('Saved 1 lines to x so far')
  })

  it('cut in the middle: 1, and the old file is untouched', async () => {
    const { peer, env } = await startInstallation()
    peer.script(LOG, (_, res) => {
      res.writeHead(200, { ...plain, 'content-length': '1000' })
      res.write('half a log', () => res.destroy())
    })
    const cwd = temporaryFolder()
    writeFileSync(join(cwd, 'build.log'), 'old')
    const { code } = await berth(['log', '813', '-O', 'build.log'], { env, cwd })
    expect(code).toBe(1)
    expect(readdirSync(cwd)).toEqual(['build.log'])
    expect(readFileSync(join(cwd, 'build.log'), 'utf8')).toBe('old')
  })

  it('follows a link to its file, writes to devices as they are, refuses folders', async () => {
    const { peer, env } = await startInstallation()
    peer.script(LOG, { text: 'new\n', headers: plain })
    const cwd = temporaryFolder()
    writeFileSync(join(cwd, 'real'), 'old')
    symlinkSync(join(cwd, 'real'), join(cwd, 'link'))
    expect((await berth(['log', '813', '-O', 'link'], { env, cwd })).code).toBe(0)
    expect(readFileSync(join(cwd, 'real'), 'utf8')).toBe('new\n')
    expect((await berth(['log', '813', '-O', '/dev/null'], { env, cwd })).code).toBe(0)
    expect(existsSync('/dev/null')).toBe(true)
    mkdirSync(join(cwd, 'folder'))
    expect((await berth(['log', '813', '-O', 'folder'], { env, cwd })).code).toBe(2)
    const missing = await berth(['log', '813', '-O', 'no/such/folder'], { env, cwd })
    expect(missing.code).toBe(1)
    expect(missing.stderr).toContain('cannot be written (ENOENT)')
  })
})
