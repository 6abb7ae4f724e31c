// The commands around the server: installing it, starting it wrongly, ending it, and the cost of a start.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { berth, berthInTerminal, CLIENT_SOURCE, temporaryFolder } from '../testing/berth.ts'
import { startInstallation } from '../testing/installation.ts'

const nobody = () => ({ BERTH_CONFIG_DIR: temporaryFolder() })

describe('install', () => {
  const FILES: [client: string, file: string, key: string][] = [
    ['claude-code', '.mcp.json', 'mcpServers'],
    ['cursor', '.cursor/mcp.json', 'mcpServers'],
    ['vscode', '.vscode/mcp.json', 'servers'],
  ]
  test.each(FILES)('%s: prints the entry, without any token', async (client, file, key) => {
    const cwd = temporaryFolder()
    const env = { ...nobody(), BERTH_TOKEN: 'berth_pat_secret', BERTH_URL: 'https://x.example.com' }
    const args = ['mcp', 'install', '--client', client, '-p', 'shop', '--allow-write']
    const { code, stdout, stderr } = await berth(args, { env, cwd })
    expect(code, stderr).toBe(0)
    const entry = {
      type: 'stdio',
      command: 'berth',
      args: ['mcp', '--allow-write', '--project', 'shop', '--url', 'https://x.example.com'],
    }
    expect(JSON.parse(stdout)).toEqual({ [key]: { berth: entry } })
    expect(stderr).toContain(file)
    expect(stderr).toContain('curl -fsSL https://x.example.com/install-cli.sh | sh')
    expect(stdout + stderr).not.toContain('berth_pat')
    expect(existsSync(join(cwd, file))).toBe(false)
  })

  test('--write merges, keeps what was there and the file before', async () => {
    const cwd = temporaryFolder()
    const file = join(cwd, '.cursor', 'mcp.json')
    mkdirSync(join(cwd, '.cursor'))
    const before = JSON.stringify({ inputs: [], mcpServers: { other: { command: 'x' } } })
    writeFileSync(file, before)
    const args = ['mcp', 'install', '--client', 'cursor', '--write']
    const { code, stderr } = await berth(args, { env: nobody(), cwd })
    expect(code, stderr).toBe(0)
    const berthEntry = { type: 'stdio', command: 'berth', args: ['mcp'] }
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({
      inputs: [],
      mcpServers: { other: { command: 'x' }, berth: berthEntry },
    })
    expect(readFileSync(`${file}.bak`, 'utf8')).toBe(before)
    const again = await berth(args, { env: nobody(), cwd })
    expect([again.code, again.stderr]).toEqual([
      0,
      expect.stringContaining('has this entry already'),
    ])
    expect(readFileSync(`${file}.bak`, 'utf8')).toBe(before)

    const commented = '{\n  // mine\n  "mcpServers": {}\n}\n'
    writeFileSync(file, commented)
    const refused = await berth(args, { env: nobody(), cwd })
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('left as it is')])
    expect(readFileSync(file, 'utf8')).toBe(commented)
  })

  test('an unknown client, and no client, are usage errors', async () => {
    const unknown = await berth(['mcp', 'install', '--client', 'emacs'], { env: nobody() })
    const none = await berth(['mcp', 'install'], { env: nobody() })
    expect([unknown.code, none.code]).toEqual([2, 2])
  })
})

describe('start and end', () => {
  test('stdin is a terminal: how to install, exit 2', async () => {
    const { code, stdout } = await berthInTerminal(['mcp'], { env: nobody() })
    expect(code).toBe(2)
    expect(stdout).toContain('berth mcp install --client')
  })

  test('stdin ends: exit 0, and nothing was written', async () => {
    const { code, stdout } = await berth(['mcp', '--allow-write'], { env: nobody() })
    expect([code, stdout]).toEqual([0, ''])
  })

  test('a wrong pin ends the start: 5, and 2 without its project', async () => {
    const { env } = await startInstallation()
    const wrong = await berth(['mcp', '-p', 'shop', '-e', 'pr-43'], { env })
    expect([wrong.code, wrong.stdout]).toEqual([5, ''])
    expect(wrong.stderr).toContain("no environment 'pr-43' in shop")
    const lone = await berth(['mcp', '-e', 'pr-42'], { env })
    expect([lone.code, lone.stdout]).toEqual([2, ''])
  })

  test('berth --version does not load the SDK; berth mcp does', async () => {
    const watch =
      "import{registerHooks as r}from'node:module';" +
      "r({load(u,c,n){if(u.includes('modelcontextprotocol'))process.stderr.write('SDK');return n(u,c)}})"
    const env = {
      ...nobody(),
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(watch)}`,
    }
    const source = { env, program: CLIENT_SOURCE } // a bundle has no file for each package
    const version = await berth(['--version'], source)
    expect([version.code, version.stderr]).toEqual([0, ''])
    expect((await berth(['mcp'], source)).stderr).toContain('SDK')
  })
})
