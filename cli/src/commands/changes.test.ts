// vars, env edit/delete/reset, project edit/delete, server set: what is sent, what is printed, and that no value is ever printed.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { berth, temporaryFolder } from '../testing/berth.ts'
import { startInstallation } from '../testing/installation.ts'
import { problem } from '../testing/peer.ts'
import { environment, failedTask, projectDetail, server, task } from '../testing/samples.ts'

const PATH = 'PATCH /api/environments/101/variables'
const VALUE = 'hunter2 "quoted" ünï'
const patched = (more: object = {}) => ({
  set: ['APP_KEY'],
  unset: [],
  unchanged: [],
  missing: [],
  keys: ['APP_KEY'],
  variables_changed: true,
  hint: 'Variables changed since the last deployment',
  ...more,
})

describe('vars', () => {
  const VARS = ['-p', 'shop', '-e', 'pr-42']

  it('list: keys, who and when', async () => {
    const { peer, env } = await startInstallation()
    const row = {
      key: 'APP_KEY',
      level: 'environment',
      shadows: ['project'],
      updated_at: '2026-11-15T09:20:00Z',
      updated_by: { id: 7, name: 'Ada Lovelace' },
      changed_since_deployment: true,
    }
    peer.script('GET /api/environments/101/variables', { json: [row] })
    const { code, stdout } = await berth(['vars', 'list', ...VARS], { env })
    expect([code, stdout]).toEqual([
      0,
      'APP_KEY\t2026-11-15T09:20:00Z\tAda Lovelace\tchanged\tenvironment\tproject\n',
    ])
  })

  it('set: from an argument, from stdin, from a file; prints the hint, never a value', async () => {
    const { peer, env } = await startInstallation()
    const file = join(temporaryFolder(), '.env')
    writeFileSync(file, `APP_KEY='${VALUE}'\n`)
    const ways: [string[], string | undefined][] = [
      [[`APP_KEY=${VALUE}`], undefined],
      [['APP_KEY=-'], `${VALUE}\n`],
      [['APP_KEY', '--stdin'], `${VALUE}\n`],
      [['--from-file', file], undefined],
      [['--from-file', '-'], `APP_KEY='${VALUE}'\n`],
    ]
    for (const [words, stdin] of ways) {
      peer.script(PATH, { json: patched() })
      const args = ['vars', 'set', ...VARS, ...words, '--verbose']
      const { code, stdout, stderr } = await berth(args, { env, ...(stdin ? { stdin } : {}) })
      expect(code, stderr).toBe(0)
      expect(stderr).toContain('Set APP_KEY on shop / pr-42')
      expect(stderr).toContain(
        'Variables changed since the last deployment. Apply with: berth deploy -p shop -e pr-42',
      )
      expect(stdout + stderr).not.toContain('hunter2')
      const asked = peer.asked(PATH).at(-1)
      expect(JSON.parse(asked?.body ?? '')).toEqual({ set: { APP_KEY: VALUE } })
    }
  })

  it('no hint when the flag is down; a dry run sends nothing', async () => {
    const { peer, env } = await startInstallation()
    peer.script(PATH, {
      json: patched({ set: [], unchanged: ['APP_KEY'], variables_changed: false, hint: null }),
    })
    const same = await berth(['vars', 'set', ...VARS, 'APP_KEY=x'], { env })
    expect(same.stderr).toContain('Unchanged APP_KEY')
    expect(same.stderr).not.toContain('Variables changed')
    const dry = await berth(['vars', 'set', ...VARS, `A=${VALUE}`, 'B=', '--dry-run'], { env })
    expect(dry.stdout).toBe('A\nB\n')
    expect(peer.asked(PATH).length).toBe(1)
  })

  it('unset: what was there and what was not', async () => {
    const { peer, env } = await startInstallation()
    peer.script(PATH, { json: patched({ set: [], unset: ['OLD'], missing: ['NOPE'] }) })
    const { stderr } = await berth(['vars', 'unset', ...VARS, 'OLD', 'NOPE'], { env })
    expect(stderr).toContain('Unset OLD on shop / pr-42')
    expect(stderr).toContain('NOPE was not set')
    expect(JSON.parse(peer.asked(PATH)[0]?.body ?? '')).toEqual({ unset: ['OLD', 'NOPE'] })
  })

  it.each([
    [['APP_KEY'], 'has no value'],
    [['A=-', 'B=-'], 'one value only'],
    [[], 'nothing to set'],
    [['A=1', 'A=2'], 'A is there twice'],
    [['--from-file', '/nonexistent'], 'cannot read /nonexistent'],
  ])('%j: 2', async (words, message) => {
    const { env } = await startInstallation()
    const { code, stderr } = await berth(['vars', 'set', ...VARS, ...words], { env })
    expect([code, stderr.includes(message)]).toEqual([2, true])
  })
})

describe('vars of a level', () => {
  const LEVEL = 'PATCH /api/projects/12/variables'
  const SHOP = ['-p', 'shop', '--for', 'previews']
  const TASKS = 'POST /api/environments/101/tasks'
  const both = [
    { id: 101, identifier: 'pr-42', keys: ['APP_KEY'] },
    { id: 7, identifier: 'staging', keys: ['APP_KEY'] },
  ]
  const level = (more: object = {}) => ({
    ...patched(),
    level: 'previews',
    forks: [],
    environments: both,
    ...more,
  })

  it('set, unset, generate, forks: one request to the project, and the hint names the environments', async () => {
    const { peer, env } = await startInstallation()
    const ways: [string[], object][] = [
      [['set', `APP_KEY=${VALUE}`], { set: { APP_KEY: VALUE } }],
      [['set', 'A=1', '--forks'], { set: { A: '1' }, forks: { A: true } }],
      [['set', 'A=1', '--no-forks'], { set: { A: '1' }, forks: { A: false } }],
      [['unset', 'OLD'], { unset: ['OLD'] }],
      [['generate', 'A', 'B'], { generate: { A: {}, B: {} } }],
      [
        ['generate', 'A', '--length', '40', '--replace'],
        { generate: { A: { length: 40, replace: true } } },
      ],
      [['forks', 'A'], { forks: { A: true } }],
      [['forks', 'A', '--off'], { forks: { A: false } }],
    ]
    for (const [words, body] of ways) {
      peer.script(LEVEL, { json: level() })
      const { code, stdout, stderr } = await berth(['vars', ...words, ...SHOP], { env })
      expect(code, stderr).toBe(0)
      expect(stderr).toContain(
        'Variables changed since the last deployment in pr-42, staging. Apply with: berth deploy -p shop -e pr-42',
      )
      expect(stdout + stderr).not.toContain('hunter2')
      const asked = peer.asked(LEVEL).at(-1)
      expect(JSON.parse(asked?.body ?? '')).toEqual({ level: 'previews', ...body })
    }
  })

  it('--deploy deploys what changed, also if one environment refuses', async () => {
    const { peer, env } = await startInstallation()
    peer.script(LEVEL, { json: level() })
    peer.script(TASKS, { status: 201, json: task('queued') })
    peer.script('POST /api/environments/7/tasks', problem('environment_protected', 'No.'))
    const args = ['vars', 'set', ...SHOP, 'A=1', '--deploy']
    const { code, stdout, stderr } = await berth(args, { env })
    expect(code).toBe(6)
    expect(stderr).toContain('shop / staging: staging is protected')
    expect(stdout).toMatch(/^813\tqueued\tshop\tpr-42\t/)
    peer.script(LEVEL, { json: level({ environments: [], variables_changed: false, hint: null }) })
    const none = await berth(args, { env })
    expect([none.code, none.stdout]).toEqual([0, ''])
    expect(none.stderr).toContain('Nothing to deploy')
    expect(peer.asked(TASKS)).toHaveLength(1)
  })

  it('--deploy --wait of one environment ends as the deployment ends', async () => {
    const { peer, env } = await startInstallation({ BERTH_POLL_MS: '1' })
    peer.script(PATH, { json: patched() })
    peer.script(TASKS, { status: 201, json: task('queued') })
    peer.script('GET /api/tasks/813', { json: failedTask({ id: 813 }) })
    const args = ['vars', 'set', '-p', 'shop', '-e', 'pr-42', 'A=1', '--deploy', '--wait']
    expect((await berth(args, { env })).code).toBe(3)
  })

  it('import leaves out keys without a value; a template changes nothing', async () => {
    const { peer, env } = await startInstallation()
    const args = ['vars', 'import', '-', '-p', 'shop', '-e', 'pr-42']
    peer.script(PATH, { json: patched() })
    const some = await berth(args, { env, stdin: `# project\nEMPTY=\nAPP_KEY='${VALUE}'\n` })
    expect([
      some.code,
      some.stderr.includes('Left out, because they have no value: EMPTY'),
    ]).toEqual([0, true])
    expect(JSON.parse(peer.asked(PATH)[0]?.body ?? '')).toEqual({ set: { APP_KEY: VALUE } })
    const none = await berth(args, { env, stdin: 'EMPTY=\n' })
    expect([none.code, none.stderr.includes('nothing to set')]).toEqual([2, true])
  })

  it.each([
    [['set', '-e', 'pr-42', 'A=1'], 'is about all previews'],
    [['set', 'A=1', '--wait'], '--wait needs --deploy'],
    [['set', '--from-file', '-', 'A=-'], 'one use only'],
    [['generate', 'A', '--length', '4'], 'a number from 16 to 256'],
    [['history', '--limit', 'many'], 'a number from 1 to 1000'],
  ])('%j: 2', async (words, message) => {
    const { env } = await startInstallation()
    const { code, stderr } = await berth(['vars', ...words, ...SHOP], { env })
    expect([code, stderr.includes(message)], stderr).toEqual([2, true])
  })
})

describe('env', () => {
  it('edit sends what was given and nothing else', async () => {
    const { peer, env } = await startInstallation()
    const path = 'PATCH /api/environments/101'
    peer.script(path, { json: environment() })
    const flags = ['--title', 'New', '--recipe', 'inherit', '--no-sticky', '--server', 'fra-1']
    const { code } = await berth(['env', 'edit', '-p', 'shop', '-e', 'pr-42', ...flags], { env })
    expect(code).toBe(0)
    expect(JSON.parse(peer.asked(path)[0]?.body ?? '')).toEqual({
      title: 'New',
      recipe: null,
      sticky: false,
      server_id: 2,
    })
    expect((await berth(['env', 'edit', '-p', 'shop', '-e', 'pr-42'], { env })).code).toBe(2)
  })

  it('delete and reset do nothing without a word of confirmation', async () => {
    const { peer, env } = await startInstallation()
    const at = ['-p', 'shop', '-e', 'pr-42']
    for (const verb of ['delete', 'reset']) {
      const refused = await berth(['env', verb, ...at], { env })
      expect([refused.code, refused.stderr.includes('--confirm pr-42')]).toEqual([2, true])
    }
    peer.script('DELETE /api/environments/101', {
      status: 202,
      json: task('queued', { type: 'destroy' }),
    })
    const gone = await berth(['env', 'delete', ...at, '--yes', '--force'], { env })
    expect([gone.code, gone.stdout]).toEqual([0, '813\tqueued\n'])
    expect(peer.asked('DELETE /api/environments/101')[0]?.query.get('force')).toBe('true')
    peer.script('POST /api/environments/101/reset', { status: 201, json: task('queued') })
    expect((await berth(['env', 'reset', ...at, '--confirm', 'pr-42'], { env })).code).toBe(0)
    const asked = peer.asked('POST /api/environments/101/reset')[0]
    expect(JSON.parse(asked?.body ?? '')).toEqual({ confirm: 'pr-42' })
  })
})

describe('project', () => {
  it('edit and delete', async () => {
    const { peer, env } = await startInstallation()
    peer.script('PATCH /api/projects/12', { json: projectDetail({ name: 'store' }) })
    const edited = await berth(['project', 'edit', 'shop', '--name', 'store'], { env })
    expect([edited.code, edited.stderr.includes('Saved store')]).toEqual([0, true])
    expect((await berth(['project', 'delete', 'shop'], { env })).code).toBe(2)
    peer.script('DELETE /api/projects/12', {
      status: 202,
      json: projectDetail({ status: 'deleting' }),
    })
    const flags = ['--confirm', 'shop', '--confirm-protected', 'staging']
    expect((await berth(['project', 'delete', 'shop', ...flags], { env })).code).toBe(0)
    const query = peer.asked('DELETE /api/projects/12')[0]?.query
    expect([query?.get('confirm'), query?.get('confirm_protected')]).toEqual(['shop', '7'])
  })
})

describe('server set', () => {
  it('sends what was given, in bytes and milliseconds; default gives a setting back', async () => {
    const { peer, env } = await startInstallation()
    const saved = server({ settings: { ...server().settings, build_memory_bytes: 8 * 1_024 ** 3 } })
    peer.script('PATCH /api/servers/2', { json: saved })
    const words = ['--build-memory', '1.5g', '--build-timeout', '1h30m', '--build-slots', 'default']
    const { code, stderr } = await berth(['server', 'set', 'fra-1', ...words], { env })
    expect([code, stderr]).toEqual([0, expect.stringContaining('Saved fra-1')])
    expect(JSON.parse(peer.asked('PATCH /api/servers/2').at(-1)?.body ?? '')).toEqual({
      settings: {
        build_memory_bytes: 1.5 * 1_024 ** 3,
        build_timeout_ms: 5_400_000,
        build_slots: null,
      },
    })
  })

  it('shows what builds may use', async () => {
    const { peer, env } = await startInstallation()
    const own = { build_memory_bytes: 8 * 1_024 ** 3, build_timeout_ms: 2_700_000 }
    const usual = { build_memory_bytes: 1, build_cpus: 4, build_timeout_ms: 1 }
    const shown = server({
      settings: { ...server().settings, ...own },
      default_settings: { ...usual, build_slots: 2, task_slots: 4 },
    })
    peer.script('GET /api/servers/2', { json: shown })
    const { stdout } = await berth(['server', 'show', 'fra-1'], { env })
    expect(stdout).toMatch(/^builds\t8\.\d GB memory, 4 CPU, 45m0?0?s?, 2 at a time$/m)
    expect(stdout).toMatch(/^task slots\t4$/m)
  })
})
