import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { berth, berthInTerminal, controlCharacters, temporaryFolder } from '../testing/berth.ts'
import { staging, startInstallation } from '../testing/installation.ts'
import { problem } from '../testing/peer.ts'
import {
  environment,
  failedTask,
  project,
  projectDetail,
  SHA,
  server,
  task,
} from '../testing/samples.ts'

const TASKS = 'GET /api/environments/101/tasks'

describe('a pipe: tab-separated, ids first, full values', () => {
  it('projects', async () => {
    const { env } = await startInstallation()
    for (const words of [['projects'], ['project'], ['projects', 'list']]) {
      const { code, stdout } = await berth(words, { env })
      expect(code).toBe(0)
      expect(stdout).toBe('12\tshop\tshop.example.com\t2\tfra-1\tgit@github.com:acme/shop.git\n')
    }
  })

  it('envs', async () => {
    const { env } = await startInstallation()
    const { stdout, stderr } = await berth(['envs', '-p', 'shop'], { env })
    expect(stdout.split('\n')[1]).toBe(
      `101\tpr-42\tpull_request\trunning\tcheckout-v2\t${SHA}\t2026-11-15T09:14:06Z` +
        '\thttps://pr-42.shop.example.com',
    )
    expect(stderr).toBe('')
  })

  it('tasks, in the order of the API, filtered there', async () => {
    const { peer, env } = await startInstallation()
    peer.script(TASKS, { json: [task('succeeded'), failedTask({ id: 809, trigger: 'webhook' })] })
    const args = ['tasks', '-p', 'shop', '-e', '42', '--status', 'failed', '--status', 'succeeded']
    const { stdout } = await berth([...args, '--type', 'all', '-n', '5'], { env })
    expect(stdout).toBe(
      `813\tsucceeded\t${SHA}\tcli\t2026-11-15T09:12:30Z\t78000\t-\n` +
        `809\tfailed\t${SHA}\twebhook\t2026-11-15T09:12:30Z\t78000\tbuild / Build image web\n`,
    )
    const query = peer.asked(TASKS)[0]?.query
    expect(query?.getAll('status')).toEqual(['failed', 'succeeded'])
    expect([query?.get('type'), query?.get('per_page')]).toEqual(['all', '5'])
  })

  it('servers', async () => {
    const { env } = await startInstallation()
    const { stdout } = await berth(['server', 'list'], { env })
    expect(stdout).toBe(
      '2\tfra-1\tonline\tfra-1.example.com\t1.15.0\t3\t2026-11-15T09:12:30Z\tcurrent\t-\n',
    )
    expect((await berth(['servers'], { env })).stdout).toBe(stdout)
  })
})

describe('a terminal: aligned tables', () => {
  it('envs, with the limit below', async () => {
    const { env } = await startInstallation({ NO_COLOR: '1' })
    const { stdout } = await berthInTerminal(['envs', '-p', 'shop'], { env })
    const lines = stdout.split('\r\n')
    expect(lines[0]).toMatch(/^ {4}ENV {7}TYPE {5}STATUS {6}BRANCH {8}COMMIT {4}DEPLOYED/)
    expect(lines[1]).toMatch(/^★ {3}staging {3}manual {3}● running {3}main/)
    expect(lines[2]).toMatch(/^ {4}pr-42 {5}PR #42 {3}● running {3}checkout-v2 {3}c136499/)
    for (const line of lines) expect([...line].length).toBeLessThanOrEqual(100)
    expect(stdout).toContain('2 of 20 environments used')
  })

  it('tasks', async () => {
    const { peer, env } = await startInstallation({ NO_COLOR: '1' })
    const superseded = {
      id: 807,
      cancel_reason: 'superseded',
      superseded_by: 809,
      duration_ms: null,
    }
    peer.script(TASKS, {
      json: [task('succeeded'), failedTask({ trigger: 'webhook' }), task('canceled', superseded)],
    })
    const { stdout } = await berthInTerminal(['tasks', '-p', 'shop', '-e', 'pr-42'], { env })
    expect(stdout).toMatch(/ID {4}STATUS {8}COMMIT {4}TRIGGER {3}STARTED/)
    expect(stdout).toMatch(/813 {3}✓ succeeded {3}c136499 {3}cli/)
    expect(stdout).toMatch(/✗ failed {6}c136499 {3}push .*1m18s {3}build \/ Build image web/)
    expect(stdout).toMatch(/– canceled .* - {7}superseded by task 809/)
  })

  it('nothing to list is said', async () => {
    const { peer, env } = await startInstallation()
    peer.script('GET /api/projects', { json: [] })
    const { code, stdout } = await berthInTerminal(['projects'], { env })
    expect(code).toBe(0)
    expect(stdout).toContain('No projects yet.')
  })

  it('show: a field a line, phases below', async () => {
    const { peer, env } = await startInstallation({ NO_COLOR: '1' })
    peer.script('GET /api/tasks/809', { json: failedTask({ id: 809 }) })
    const { stdout } = await berthInTerminal(['tasks', 'show', '809'], { env })
    expect(stdout).toMatch(/failed {6}in "Build image web" \(exit code 1\)/)
    expect(stdout).toMatch(
      /✗ Build {15}failed {6}29\.9s\r\n {2}✗ Build image web {3}failed {6}1\.8s {4}exit code 1/,
    )
  })
})

describe('--json: the answer unchanged, one document', () => {
  it.each([
    [['projects'], [project()]],
    [['projects', 'show', 'shop'], projectDetail()],
    [
      ['envs', '-p', 'shop'],
      [staging, environment()],
    ],
    [['envs', 'show', '-p', 'shop', '-e', 'pr-42'], environment()],
    [['server', 'list'], [server()]],
    [['server', 'show', 'fra-1'], server()],
  ])('%j', async (args, expected) => {
    const { env } = await startInstallation()
    const { code, stdout } = await berth([...args, '--json'], { env })
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toEqual(JSON.parse(JSON.stringify(expected)))
  })
})

it('pages are followed until there are enough rows', async () => {
  const { peer, env } = await startInstallation()
  const next = { link: `<${peer.url}${'/api/environments/101/tasks'}?cursor=a>; rel="next"` }
  peer.script(
    TASKS,
    { json: [task('succeeded', { id: 5 }), task('succeeded', { id: 4 })], headers: next },
    { json: [task('succeeded', { id: 3 }), task('succeeded', { id: 2 })], headers: next },
  )
  const { stdout } = await berth(['tasks', '-p', 'shop', '-e', 'pr-42', '-n', '3'], { env })
  expect(stdout.match(/^\d+/gm)).toEqual(['5', '4', '3'])
})

describe('which project', () => {
  it('BERTH_PROJECT and BERTH_ENV; flags win', async () => {
    const { peer, env } = await startInstallation({ BERTH_PROJECT: 'shop', BERTH_ENV: 'staging' })
    peer.script('GET /api/environments/7', { json: staging })
    const shown = await berth(['envs', 'show'], { env })
    expect(shown.stdout).toContain('environment\tshop / staging')
    const other = await berth(['envs', 'show', '-e', 'pr-42'], { env })
    expect(other.stdout).toContain('environment\tshop / pr-42')
  })

  it('.berth/project.json of a folder above', async () => {
    const { env } = await startInstallation()
    const root = temporaryFolder()
    mkdirSync(join(root, '.berth'))
    mkdirSync(join(root, 'src'))
    writeFileSync(join(root, '.berth/project.json'), '{"project":"shop","environment":"pr-42"}')
    const { stdout } = await berth(['envs', 'show'], { env, cwd: join(root, 'src') })
    expect(stdout).toContain('environment\tshop / pr-42')
    // its environment does not count for another project
    const other = await berth(['envs', 'show', '-p', 'shop'], { env, cwd: root })
    expect(other.code).toBe(2)
  })

  it('the remotes of the working directory', async () => {
    const { env } = await startInstallation()
    const cwd = temporaryFolder()
    execFileSync('git', ['init', '-q'], { cwd })
    execFileSync('git', ['remote', 'add', 'origin', 'https://github.com/acme/shop'], { cwd })
    expect((await berth(['envs'], { env, cwd })).stdout).toMatch(/^7\tstaging/)
  })

  it('none: 2', async () => {
    const { env } = await startInstallation()
    const { code, stderr } = await berth(['envs'], { env, cwd: temporaryFolder() })
    expect(code).toBe(2)
    expect(stderr).toContain('name it with -p PROJECT')
  })
})

describe('tasks cancel', () => {
  it('asks, and says when it is not over yet', async () => {
    const { peer, env } = await startInstallation()
    const asked = task('running', { cancel_requested_at: '2026-11-15T09:13:00Z' })
    peer.script('POST /api/tasks/813/cancel', { status: 202, json: asked })
    const { code, stdout, stderr } = await berth(['tasks', 'cancel', '813'], { env })
    expect([code, stdout]).toEqual([0, '813\trunning\n'])
    expect(stderr).toContain('is asked to stop')
  })

  it('a task that has ended: 6', async () => {
    const { peer, env } = await startInstallation()
    peer.script('POST /api/tasks/813/cancel', problem('task_finished', 'Task 813 has finished.'))
    const { code, stderr } = await berth(['tasks', 'cancel', '813'], { env })
    expect([code, stderr]).toEqual([6, 'error: Task 813 has finished.\n'])
  })

  it('unknown: 5; no number: 2', async () => {
    const { env } = await startInstallation()
    expect((await berth(['tasks', 'show', '1'], { env })).code).toBe(5)
    expect((await berth(['tasks', 'show', 'x'], { env })).code).toBe(2)
    expect((await berth(['tasks', 'list', '--status', 'odd'], { env })).code).toBe(2)
  })
})

it('hostile names in lists: no escape byte on a terminal', async () => {
  const { peer, env } = await startInstallation()
  const name = 'x\u001b]52;c;eA==\u0007\u001b[2J\u009b31my\nz'
  peer.script('GET /api/projects', { json: [project({ name, domain: name, repo_url: name })] })
  const { stdout } = await berthInTerminal(['projects', '--no-color'], { env })
  expect(stdout).toContain('xy z')
  expect(controlCharacters(stdout)).toEqual([])
  // without colour there is no spinner, which a slow machine would show
  const json = await berthInTerminal(['projects', '--json', '--no-color'], { env })
  expect(controlCharacters(json.stdout)).toEqual([])
})
