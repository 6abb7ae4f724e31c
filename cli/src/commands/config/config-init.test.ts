import { execFileSync } from 'node:child_process'
import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { run } from '../../program/invoke.ts'
import {
  berth,
  berthInTerminal,
  controlCharacters,
  nowhere,
  temporaryFolder,
} from '../../testing/berth.ts'
import { testIo } from '../../testing/io.ts'

const NOWHERE = { BERTH_CONFIG_DIR: nowhere() }
const SERVER = { ...NOWHERE, BERTH_URL: 'https://deploy.example.com' }

async function init(cwd: string, args: string[] = [], env: Record<string, string> = SERVER) {
  const io = testIo({ cwd, env })
  const code = await run(['config', 'init', ...args], io)
  return { code, stdout: io.stdout.text, stderr: io.stderr.text }
}
const written = (cwd: string) => readFileSync(join(cwd, '.service.yml'), 'utf8')

function folderWith(files: Record<string, string>): string {
  const cwd = temporaryFolder()
  for (const [name, text] of Object.entries(files)) writeFileSync(join(cwd, name), text)
  return cwd
}

describe('config init', () => {
  it('a Dockerfile: its port, the modeline, what was guessed and what comes next', async () => {
    const cwd = folderWith({ Dockerfile: 'FROM node\nEXPOSE 8080\n' })
    const { code, stdout, stderr } = await berth(['config', 'init'], { cwd, env: SERVER })
    expect([code, stdout]).toEqual([0, '.service.yml\tdocker\n'])
    expect(written(cwd)).toMatch(
      /^# yaml-language-server: \$schema=https:\/\/deploy\.example\.com\/schemas\/service\.v1\.json\n/,
    )
    expect(written(cwd)).toContain('      port: 8080\n')
    expect(stderr).toMatch(/^✓ Wrote \.service\.yml \(docker recipe\)\n {2}Found Dockerfile/)
    expect(stderr).toContain('It exposes port 8080')
    expect(stderr).toContain('Next: read it, then\n  berth config validate\n  git add .service.yml')
    expect(controlCharacters(stdout + stderr)).toEqual([])
    const io = testIo({ cwd })
    expect(await run(['config', 'validate', '--recipe', 'docker'], io)).toBe(0)
  })

  it('package.json with a start script: a Dockerfile, or the manual recipe keeps it running', async () => {
    const cwd = folderWith({
      'package.json': '{"scripts":{"start":"node server.js"}}',
      'package-lock.json': '{}',
    })
    const { code, stderr } = await init(cwd)
    expect(code).toBe(0)
    expect(stderr).toContain('✓ Wrote Dockerfile\n✓ Wrote .dockerignore\n')
    expect(stderr).toContain('git add .service.yml Dockerfile .dockerignore &&')
    expect(readFileSync(join(cwd, 'Dockerfile'), 'utf8')).toContain('CMD ["node","server.js"]')
    writeFileSync(join(cwd, 'Dockerfile'), 'mine')
    expect((await init(cwd, ['--recipe', 'manual', '--force'])).code).toBe(0)
    expect(readFileSync(join(cwd, 'Dockerfile'), 'utf8')).toBe('mine')
    expect(written(cwd)).toContain('manual:\n  deploy:\n    - npm ci\n  services:\n')
    expect(written(cwd)).toContain('      run: exec node server.js\n')
  })

  it('a Procfile: its lines are the services, and the written file is valid beside it', async () => {
    const cwd = folderWith({
      Procfile: 'web: node server.js\nrelease: node migrate.js\n',
      'package.json': '{}',
      'package-lock.json': '{}',
    })
    const { code, stderr } = await init(cwd)
    expect([code, stderr]).toEqual([0, expect.stringContaining('Found Procfile: Berth keeps')])
    expect(written(cwd)).toContain('manual:\n  deploy:\n    - npm ci\n  procfile: Procfile')
    expect(await run(['config', 'validate', '--recipe', 'manual'], testIo({ cwd }))).toBe(0)
    writeFileSync(join(cwd, 'Procfile'), 'web\n')
    const io = testIo({ cwd })
    expect(await run(['config', 'validate'], io)).toBe(2)
    expect(io.stdout.text).toContain("Procfile line 1 is not of the form 'name: command'")
    rmSync(join(cwd, 'Procfile'))
    const missing = testIo({ cwd })
    expect(await run(['config', 'validate'], missing)).toBe(2)
    expect(missing.stdout.text).toContain('manual.procfile names Procfile, which is not a file')
  })

  it('a static folder', async () => {
    const cwd = temporaryFolder()
    mkdirSync(join(cwd, 'public'))
    writeFileSync(join(cwd, 'public/index.html'), '')
    expect((await init(cwd)).code).toBe(0)
    expect(written(cwd)).toContain('root: public')
  })

  it('--json is one document; --recipe decides', async () => {
    const cwd = folderWith({ Dockerfile: 'FROM node\n' })
    const { code, stdout } = await init(cwd, ['--recipe', 'manual', '--json'])
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ file: '.service.yml', recipe: 'manual' })
    expect((await init(cwd, ['--recipe', 'other', '--force'])).code).toBe(2)
  })

  it('without a server: no modeline, and how to get one', async () => {
    const cwd = temporaryFolder()
    const { code, stderr } = await init(cwd, ['-q'], NOWHERE)
    expect([code, stderr]).toEqual([0, ''])
    expect(written(cwd)).not.toContain('$schema')
    const again = await init(cwd, ['--force', '--url', 'https://x.example.com/'], NOWHERE)
    expect(again.stderr).not.toContain('No server is known')
    expect(written(cwd)).toMatch(/\$schema=https:\/\/x\.example\.com\/schemas\/service\.v1\.json\n/)
  })

  it('never overwrites: 2, the file as it was; --force replaces it', async () => {
    const cwd = folderWith({ '.service.yml': 'mine' })
    const { code, stdout, stderr } = await init(cwd)
    expect([code, stdout, written(cwd)]).toEqual([2, '', 'mine'])
    expect(stderr).toBe(
      'error: .service.yml is there already; nothing was written\n' +
        'hint:  berth config validate checks it; --force replaces it\n',
    )
    expect((await init(cwd, ['--force'])).code).toBe(0)
    expect(written(cwd)).toContain('version: 1')
    expect(readdirSync(cwd)).toEqual(['.service.yml'])
  })

  it('a link is not followed, also not by --force', async () => {
    const cwd = folderWith({ other: 'mine' })
    symlinkSync('other', join(cwd, '.service.yml'))
    expect((await init(cwd)).code).toBe(2)
    expect((await init(cwd, ['--force'])).code).toBe(0)
    expect(readFileSync(join(cwd, 'other'), 'utf8')).toBe('mine')
    expect(lstatSync(join(cwd, '.service.yml')).isFile()).toBe(true)
  })

  it('a file under a mistaken name is pointed out: 2', async () => {
    const cwd = folderWith({ '.service.yaml': '' })
    const { code, stderr } = await init(cwd)
    expect(code).toBe(2)
    expect(stderr).toContain('hint:  rename it to .service.yml, or add --force')
    expect(readdirSync(cwd)).toEqual(['.service.yaml'])
  })

  it('a folder that cannot be written to: 1, and nothing is left', async () => {
    const cwd = temporaryFolder()
    mkdirSync(join(cwd, '.service.yml'))
    const { code, stderr } = await init(cwd, ['--force'])
    expect(code).toBe(1)
    expect(stderr).toMatch(/^error: \.service\.yml cannot be written \(E\w+\)\n$/)
    expect(readdirSync(cwd)).toEqual(['.service.yml'])
  })

  it('below the root of a repository: written, with a warning', async () => {
    const root = temporaryFolder()
    execFileSync('git', ['init', '-q'], { cwd: root })
    mkdirSync(join(root, 'app'))
    const { code, stderr } = await init(join(root, 'app'))
    expect(code).toBe(0)
    expect(stderr).toContain('warning: Berth reads it in the root of the repository')
    expect((await init(root)).stderr).not.toContain('warning')
  })

  it('on a terminal: for people, without escapes where colour is off', async () => {
    const cwd = folderWith({ Dockerfile: 'EXPOSE 1' })
    const { code, stdout } = await berthInTerminal(['config', 'init'], { cwd, env: SERVER })
    expect(code).toBe(0)
    expect(stdout).toContain('\u001b[32m✓\u001b[39m Wrote .service.yml')
    expect(stdout).not.toContain('.service.yml\tdocker')
    const env = { ...SERVER, NO_COLOR: '1' }
    const plain = await berthInTerminal(['config', 'init', '--force'], { cwd, env })
    expect(controlCharacters(plain.stdout)).toEqual([])
  })
})

describe('config init --from-compose', () => {
  const COMPOSE = `services:
  app:
    build: .
    ports: ["80:3000"]
    environment: { API_TOKEN: hunter2, LEVEL: info }
    privileged: true
`

  it('converts the file of the folder, and says what to set and what is missing', async () => {
    const cwd = folderWith({ 'docker-compose.yml': COMPOSE })
    const { code, stdout, stderr } = await init(cwd, ['--from-compose'])
    expect([code, stdout]).toEqual([0, '.service.yml\tdocker\n'])
    expect(written(cwd)).toContain('docker:\n  services:\n    app:\n      build: .\n')
    expect(written(cwd)).not.toContain('hunter2')
    expect(stderr).toContain('Converted docker-compose.yml: app.')
    expect(stderr).toContain('  API_TOKEN (app): looks like a secret\n')
    expect(stderr).toContain('berth vars set -p PROJECT -e ENV API_TOKEN=…')
    expect(stderr).toContain('  app.privileged: containers never get more rights on the server\n')
    expect(stderr).not.toContain('hunter2')
    const again = await init(cwd, ['--from-compose'])
    expect([again.code, again.stderr]).toEqual([2, expect.stringContaining('is there already')])
    expect((await init(cwd, ['--from-compose', '--force'])).code).toBe(0)
  })

  it('takes a file by name, from a folder below, and prints JSON', async () => {
    const cwd = folderWith({})
    mkdirSync(join(cwd, 'deploy'))
    writeFileSync(join(cwd, 'deploy/stack.yaml'), COMPOSE.replace('build: .', 'build: ..'))
    const { code, stdout } = await init(cwd, ['--from-compose', 'deploy/stack.yaml', '--json'])
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({
      recipe: 'docker',
      variables: [{ key: 'API_TOKEN', services: ['app'], reason: 'looks like a secret' }],
      not_converted: [{ where: 'app.privileged', reason: expect.stringContaining('rights') }],
    })
    expect(written(cwd)).toContain('      build: .\n')
  })

  it.each([
    ['no compose file here', ['--from-compose'], {}],
    ['is not a file that can be read', ['--from-compose', 'other.yaml'], {}],
    ['is outside of this folder', ['--from-compose', '../compose.yaml'], {}],
    ["cannot be converted: it has no 'services'", ['--from-compose'], { 'compose.yaml': 'a: 1' }],
    ['a compose file becomes the docker recipe', ['--from-compose', '--recipe', 'manual'], {}],
  ])('%s: nothing is written', async (message, args, files) => {
    const above = folderWith({ 'compose.yaml': COMPOSE })
    const cwd = join(above, 'repository')
    mkdirSync(cwd)
    for (const [name, text] of Object.entries(files)) writeFileSync(join(cwd, name), text)
    const { code, stderr } = await init(cwd, args)
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)])
    expect(readdirSync(cwd)).not.toContain('.service.yml')
  })
})
