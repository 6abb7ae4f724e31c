// Base images made without a registry: busybox (shell, httpd, wget, nc), and the Node that runs the tests on top of it.
import { execFileSync, spawn } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { callEngine } from './docker-engine.ts'

export const BUSYBOX_IMAGE = 'berth-test/busybox'
export const NODE_IMAGE = 'berth-test/node'

const output = (program: string, ...args: string[]): string =>
  execFileSync(program, args, { encoding: 'utf8' })

function layOut(folder: string): void {
  for (const name of ['bin', 'usr/bin', 'tmp', 'etc', 'var', 'root', 'proc', 'sys', 'dev', 'app']) {
    mkdirSync(join(folder, name), { recursive: true })
  }
  execFileSync('chmod', ['1777', join(folder, 'tmp')])
  const busybox = output('sh', '-c', 'command -v busybox').trim()
  copyFileSync(busybox, join(folder, 'bin/busybox'))
  for (const name of output(busybox, '--list').split('\n')) {
    if (name && name !== 'busybox') symlinkSync('busybox', join(folder, 'bin', name))
  }
  const passwd = 'root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000::/tmp:/bin/sh\n'
  writeFileSync(join(folder, 'etc/passwd'), passwd)
  writeFileSync(join(folder, 'etc/group'), 'root:x:0:\napp:x:1000:\n')
}

function addNode(folder: string): void {
  const node = process.execPath
  copyFileSync(node, join(folder, 'usr/bin/node'))
  const libraries = output('ldd', node)
    .split('\n')
    .map((line) => /=> (\/\S+)/.exec(line)?.[1] ?? /^\s+(\/\S*ld-\S+)/.exec(line)?.[1])
    .filter((path) => path !== undefined)
  for (const path of libraries) {
    mkdirSync(join(folder, dirname(path)), { recursive: true })
    copyFileSync(path, join(folder, path))
  }
  writeFileSync(join(folder, 'etc/nsswitch.conf'), 'hosts: files dns\n')
}

async function importImage(socket: string, folder: string, name: string, changes: string[]) {
  const tar = spawn('tar', ['-C', folder, '--numeric-owner', '--owner=0', '--group=0', '-c', '.'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const query = changes.map((change) => `&changes=${encodeURIComponent(change)}`).join('')
  const path = `/images/create?fromSrc=-&repo=${name}&tag=latest${query}`
  const { status, text } = await callEngine(socket, 'POST', path, tar.stdout)
  if (status !== 200 || /"error"/.test(text))
    throw new Error(`import of ${name}: ${status} ${text}`)
}

async function hasImage(socket: string, name: string): Promise<boolean> {
  const { status } = await callEngine(socket, 'GET', `/images/${name}:latest/json`)
  return status === 200
}

async function makeImage(socket: string, name: string, withNode: boolean): Promise<void> {
  if (await hasImage(socket, name)) return
  const folder = mkdtempSync(join(tmpdir(), 'berth-image-'))
  try {
    layOut(folder)
    if (withNode) addNode(folder)
    const path = withNode ? '/usr/bin:/bin' : '/bin'
    await importImage(socket, folder, name, [`ENV PATH=${path}`, 'CMD ["/bin/sh"]'])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

export const makeBusyboxImage = (socket: string): Promise<void> =>
  makeImage(socket, BUSYBOX_IMAGE, false)

/** 100 MB and a second: for those who need it. Twice at once gives the same image twice. */
export const makeNodeImage = (socket: string): Promise<void> => makeImage(socket, NODE_IMAGE, true)
