// An installed tree is not touched again until a lock file changes, because an installation may be running from it. If
// an install is needed, one process does it, even if others ask or are killed meanwhile.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  copyFileSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../fixtures/server/installation.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
/** On the checkout's file system, so that a copy can use hard links. */
const scratch = (): string => {
  mkdirSync(join(root, '.data'), { recursive: true })
  return mkdtempSync(join(root, '.data/tree-'))
}

interface Said {
  code: number | null
  out: string
  err: string
}

function watch(child: ChildProcess): { said: Said; ended: Promise<Said> } {
  const said: Said = { code: null, out: '', err: '' }
  child.stdout?.on('data', (chunk) => {
    said.out += chunk
  })
  child.stderr?.on('data', (chunk) => {
    said.err += chunk
  })
  const ended = once(child, 'close').then(([code]) => Object.assign(said, { code }))
  return { said, ended }
}

/** Every file with the attributes that change when it is written, replaced or removed. */
function listFiles(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    const { ino, mtimeMs, ctimeMs, mode } = lstatSync(path)
    const own = `${path} ${ino} ${mtimeMs} ${ctimeMs} ${mode}`
    return entry.isDirectory() ? [own, ...listFiles(path)] : [own]
  })
}

describe('an installed tree', () => {
  let tree: string
  beforeAll(() => {
    tree = scratch()
    const not = new Set(['.git', '.data', '.pnpm-store', 'dist'])
    const parts = readdirSync(root).filter((name) => !not.has(name))
    execFileSync('cp', ['-al', ...parts, tree], { cwd: root })
  })
  afterAll(() => rmSync(tree, { recursive: true, force: true }))

  test('stays as it is, whatever HOME and umask its scripts are run with', async () => {
    const installed = () =>
      [
        ...['node_modules', 'scripts/toolchain', 'shared/node_modules', 'cli/node_modules'],
        ...['agent/node_modules', 'control-plane/node_modules'],
      ].flatMap((folder) => listFiles(join(tree, folder)))
    const before = installed()
    expect(before.length).toBeGreaterThan(5_000)
    // an installation that runs from it and loads a package lazily
    const late = "process.stdin.once('data', () => import('fastify').then(() => process.exit(7)))"
    const running = spawn(process.execPath, ['-e', late], { cwd: join(tree, 'control-plane') })
    const calls = ['000', '022', '077'].map((umask) => {
      const home = join(tree, `.data-home-${umask}`)
      mkdirSync(home)
      const command = `umask ${umask} && exec npm run --silent berth -- --version`
      const env = { ...process.env, HOME: home, XDG_DATA_HOME: '', PNPM_HOME: '' }
      return watch(spawn('sh', ['-c', command], { cwd: tree, env })).ended
    })
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    for (const { code, out, err } of await Promise.all(calls)) {
      expect([code, err, out]).toEqual([0, '', expect.stringContaining(version)])
    }
    expect(installed()).toEqual(before)
    running.stdin.write('go\n')
    expect(await once(running, 'exit')).toEqual([7, null])
  })
})

describe('what must be installed', () => {
  let tree: string
  const bootstrap = (env: NodeJS.ProcessEnv = {}) => {
    const argv = ['scripts/bootstrap.sh', 'exec', 'echo', 'ran']
    return watch(spawn('/bin/sh', argv, { cwd: tree, env: { ...process.env, ...env } }))
  }
  const INSTALLS = /installing the dependencies/g
  const stamp = () => join(tree, 'node_modules/.berth-stamp')
  const lock = () => join(tree, 'scripts/toolchain/.install-lock')

  // a workspace without dependencies under the real toolchain: installing it contacts no registry
  beforeAll(() => {
    tree = scratch()
    mkdirSync(join(tree, 'scripts/toolchain'), { recursive: true })
    copyFileSync(join(root, 'scripts/bootstrap.sh'), join(tree, 'scripts/bootstrap.sh'))
    for (const name of ['package.json', 'package-lock.json', 'node_modules']) {
      const own = join(tree, 'scripts/toolchain', name)
      execFileSync('cp', ['-al', join(root, 'scripts/toolchain', name), own])
    }
    writeFileSync(join(tree, 'package.json'), '{"name":"empty","private":true}\n')
    writeFileSync(join(tree, 'pnpm-workspace.yaml'), 'packages: []\nstoreDir: .pnpm-store\n')
    const pnpm = join(tree, 'scripts/toolchain/node_modules/pnpm/pnpm')
    execFileSync(pnpm, ['install', '--lockfile-only'], { cwd: tree, stdio: 'pipe' })
  })
  afterAll(() => rmSync(tree, { recursive: true, force: true }))

  test('is installed by one of many, and again only for another lock file', async () => {
    const all = await Promise.all([1, 2, 3, 4].map(() => bootstrap().ended))
    for (const said of all) expect(said).toMatchObject({ code: 0, out: 'ran\n' })
    expect(all.flatMap(({ err }) => err.match(INSTALLS) ?? [])).toHaveLength(1)
    expect(await bootstrap().ended).toEqual({ code: 0, out: 'ran\n', err: '' })
    appendFileSync(join(tree, 'pnpm-lock.yaml'), '\n')
    const again = await bootstrap().ended
    expect(again.err.match(INSTALLS)).toHaveLength(1)
    expect(existsSync(join(tree, '.pnpm-store'))).toBe(true)
  })

  test('waits for another installation, and not for one that was killed', async () => {
    rmSync(stamp())
    const holder = spawn('flock', [lock(), 'cat'], { stdio: ['pipe', 'pipe', 'inherit'] })
    holder.stdin.write('held\n')
    await once(holder.stdout, 'data')
    const { said, ended } = bootstrap()
    await until('it to wait', () => /waiting for another/.test(said.err) || undefined)
    expect(existsSync(stamp())).toBe(false)
    holder.kill('SIGKILL')
    holder.stdin.end() // its child holds the lock as well, and ends by itself
    expect(await ended).toMatchObject({ code: 0, out: 'ran\n' })
  })

  test('the same where there is no flock', async () => {
    const bin = join(tree, 'bin')
    mkdirSync(bin)
    const needed = 'cat cmp dirname echo ln mv readlink rm sh sleep uname'.split(' ')
    const folders = (process.env.PATH ?? '').split(delimiter)
    for (const name of needed) {
      const found = folders.map((folder) => join(folder, name)).find((file) => existsSync(file))
      symlinkSync(realpathSync(found as string), join(bin, name))
    }
    rmSync(stamp())
    const dead = spawn('true')
    await once(dead, 'exit')
    symlinkSync(String(dead.pid), `${lock()}.pid`)
    expect(await bootstrap({ PATH: bin }).ended).toMatchObject({ code: 0, out: 'ran\n' })
    rmSync(stamp())
    const all = await Promise.all([1, 2, 3].map(() => bootstrap({ PATH: bin }).ended))
    for (const said of all) expect(said).toMatchObject({ code: 0, out: 'ran\n' })
    expect(all.flatMap(({ err }) => err.match(INSTALLS) ?? [])).toHaveLength(1)
    const left = readdirSync(join(tree, 'scripts/toolchain'))
    expect(left.filter((name) => name.startsWith('.install-lock.'))).toEqual([])
  })

  test('and where it cannot be installed, the sentence says who can', async (t) => {
    if (process.getuid?.() !== 0) return t.skip('only root can be somebody else')
    rmSync(stamp())
    // an account that cannot write there: a copy of the tree, outside of folders that may be closed to it
    const open = mkdtempSync('/tmp/berth-tree-')
    try {
      cpSync(tree, open, { recursive: true, verbatimSymlinks: true })
      execFileSync('chmod', ['755', open])
      const argv = ['--reuid=65534', '--regid=65534', '--clear-groups', '/bin/sh']
      const command = [...argv, 'scripts/bootstrap.sh', 'exec', 'echo', 'ran']
      const { ended } = watch(spawn('setpriv', command, { cwd: open }))
      const sentence = `bootstrap: the dependencies must be installed first: run this once as the owner of ${open}\n`
      expect(await ended).toEqual({ code: 1, out: '', err: sentence })
    } finally {
      rmSync(open, { recursive: true, force: true })
    }
  })
})
