import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { berth, berthInTerminal, startInTerminal, temporaryFolder } from '../testing/berth.ts'
import { startInstallation } from '../testing/installation.ts'
import { problem } from '../testing/peer.ts'
import {
  environmentCreated,
  failedTask,
  joinToken,
  projectDetail,
  server,
  task,
} from '../testing/samples.ts'

describe('server add', () => {
  const ARGS = ['server', 'add', 'fra-2', '--hostname', 'fra-2.example.com']
  const made = server({ id: 3, name: 'fra-2', status: 'pending', facts: null, last_seen_at: null })

  async function installation() {
    const it = await startInstallation()
    it.peer.script('POST /api/servers', { status: 201, json: made })
    it.peer.script('POST /api/servers/3/join_token', { status: 201, json: joinToken() })
    return it
  }

  it('prints the join command', async () => {
    const { peer, env } = await installation()
    const { code, stdout, stderr } = await berth(ARGS, { env })
    expect(code).toBe(0)
    expect(stdout).toBe(`3\tfra-2\t${joinToken().command}\n`)
    expect(stderr).toContain('Server fra-2 (id 3) created')
    expect(stderr).not.toContain('berth_join_')
    expect(JSON.parse(peer.asked('POST /api/servers')[0]?.body ?? '')).toEqual({
      name: 'fra-2',
      hostname: 'fra-2.example.com',
    })
  })

  it('on a terminal it waits for the agent', async () => {
    const { peer, env } = await installation()
    peer.script('GET /api/servers/3', { json: made })
    const running = startInTerminal(ARGS, { env })
    await running.shows(/Waiting for the agent/)
    peer.script('GET /api/servers/3', 'drop', { json: { ...server(), id: 3, name: 'fra-2' } })
    const { code, stdout } = await running.ended
    expect(code).toBe(0)
    expect(stdout).toContain(`  ${joinToken().command}`)
    expect(stdout).toContain('fra-2 online: agent 1.15.0, Docker 28.2, Debian 13, 4 CPU, 8.0 GB')
  })

  it('Ctrl-C while it waits: 130, the server stays', async () => {
    const { peer, env } = await installation()
    peer.script('GET /api/servers/3', { json: made })
    const running = startInTerminal(ARGS, { env })
    await running.shows(/Waiting for the agent/)
    running.interrupt()
    expect((await running.ended).code).toBe(130)
    expect(peer.requests.every((one) => one.method !== 'DELETE')).toBe(true)
  })

  it('a token that expires before the agent comes: 1', async () => {
    const { peer, env } = await installation()
    const expired = joinToken({ expires_at: '2020-01-01T00:00:00Z' })
    peer.script('POST /api/servers/3/join_token', { status: 201, json: expired })
    const { code, stderr } = await berth([...ARGS, '--wait'], { env })
    expect(code).toBe(1)
    expect(stderr).toContain('a new one: berth server join-token fra-2')
  })

  it('created, but without a token: says so and how to get one', async () => {
    const { peer, env } = await installation()
    peer.script('POST /api/servers/3/join_token', problem('internal_error', 'Internal error'))
    const { code, stderr } = await berth(ARGS, { env })
    expect(code).toBe(1)
    expect(stderr).toContain('the server was created, but not its join token')
    expect(stderr).toContain('berth server join-token fra-2')
  })

  it.each([
    [['server', 'add', 'fra-2'], 'missing: --hostname <host>'],
    [['server', 'add'], 'missing: <name>, --hostname <host>'],
    [['server', 'add', 'x', '--hostname', 'a b'], '--hostname must be a host name or an address'],
    [['server', 'add', '--hostname', 'h'], 'missing: <name>'],
  ])('%j: 2', async (args, message) => {
    const { peer, env } = await installation()
    const { code, stderr } = await berth(args, { env })
    expect(code).toBe(2)
    expect(stderr).toContain(message)
    expect(peer.asked('POST /api/servers')).toEqual([])
  })

  it('the name is taken: 6', async () => {
    const { peer, env } = await installation()
    peer.script('POST /api/servers', problem('name_taken', 'fra-2 exists.'))
    expect((await berth(ARGS, { env })).code).toBe(6)
  })
})

describe('server join-token', () => {
  it('prints the command; a joined server needs --rejoin: 6', async () => {
    const { peer, env } = await startInstallation()
    const path = 'POST /api/servers/2/join_token'
    peer.script(path, problem('server_already_joined', 'fra-1 has an agent.'))
    const refused = await berth(['server', 'join-token', 'fra-1'], { env })
    expect(refused.code).toBe(6)
    expect(refused.stderr).toContain('add --rejoin')
    peer.script(path, { status: 201, json: joinToken() })
    const { stdout } = await berth(['server', 'join-token', 'fra-1', '--rejoin'], { env })
    expect(stdout).toContain(joinToken().command)
    expect(peer.asked(path).map((one) => JSON.parse(one.body))).toEqual([{}, { rejoin: true }])
  })

  it('a command of several lines stays one command in a pipe', async () => {
    const { peer, env } = await startInstallation()
    const command = 'curl x &&\\\n    sudo sh install.sh'
    peer.script('POST /api/servers/2/join_token', { status: 201, json: joinToken({ command }) })
    const { stdout } = await berth(['server', 'join-token', 'fra-1'], { env })
    expect(stdout).toBe('2\tfra-1\tcurl x && sudo sh install.sh\n')
  })
})

describe('project create', () => {
  const ARGS = ['project', 'create', 'shop', '--repo', 'git@github.com:acme/shop.git']
  const MORE = ['--domain', 'shop.example.com', '--server', 'fra-1']

  it('sends ids of servers and shows what to do next', async () => {
    const { peer, env } = await startInstallation({ NO_COLOR: '1' })
    const secret = { webhook_secret: 'whsec_once' }
    peer.script('POST /api/projects', { status: 201, json: { ...projectDetail(), ...secret } })
    const { code, stdout } = await berthInTerminal([...ARGS, ...MORE, '--recipe', 'manual'], {
      env,
    })
    expect(code).toBe(0)
    expect(JSON.parse(peer.asked('POST /api/projects')[0]?.body ?? '')).toEqual({
      name: 'shop',
      repo_url: 'git@github.com:acme/shop.git',
      domain: 'shop.example.com',
      server_ids: [2],
      default_recipe: 'manual',
    })
    expect(stdout).toContain('ssh-ed25519 AAAAC3NzaTEST shop@deploy.example.com')
    expect(stdout).toContain('Secret  whsec_once')
    expect(stdout).toContain('3. Point *.shop.example.com at fra-1')
  })

  it('takes the recipe that fits the checkout of this repository, and of no other', async () => {
    const { peer, env } = await startInstallation()
    peer.script('POST /api/projects', { status: 201, json: projectDetail() })
    const cwd = temporaryFolder()
    execFileSync('git', ['init', '--quiet'], { cwd })
    writeFileSync(join(cwd, 'index.html'), '')
    const create = async (remote: string) => {
      execFileSync('git', ['config', 'remote.origin.url', remote], { cwd })
      const { code, stderr } = await berth([...ARGS, ...MORE], { cwd, env })
      const { default_recipe } = JSON.parse(peer.asked('POST /api/projects').at(-1)?.body ?? '')
      return [code, default_recipe, stderr.includes('Recipe manual: ')]
    }
    expect(await create('https://github.com/acme/shop')).toEqual([0, 'manual', true])
    expect(await create('https://github.com/acme/other')).toEqual([0, undefined, false])
    writeFileSync(join(cwd, '.service.yml'), 'docker: { services: { web: { image: nginx } } }\n')
    expect(await create('https://github.com/acme/shop')).toEqual([0, 'docker', false])
  })

  it('an unknown server: 5; an impossible domain or recipe: 2', async () => {
    const { peer, env } = await startInstallation()
    const run = (...more: string[]) => berth([...ARGS, ...more], { env })
    expect((await run('--domain', 'shop.example.com', '--server', 'nope')).code).toBe(5)
    expect((await run('--domain', 'Not a domain', '--server', 'fra-1')).code).toBe(2)
    expect((await run(...MORE, '--recipe', 'odd')).code).toBe(2)
    expect(peer.asked('POST /api/projects')).toEqual([])
  })
})

describe('env create', () => {
  const ARGS = ['env', 'create', 'qa', '-p', 'shop', '--branch', 'main']
  const PATH = 'POST /api/projects/12/environments'
  const made = environmentCreated({ id: 101, identifier: 'qa', type: 'manual', domain: 'qa.x.com' })

  it('creates', async () => {
    const { peer, env } = await startInstallation()
    peer.script(PATH, { status: 201, json: made })
    const flags = ['--protected', '--sticky', '--server', 'fra-1', '--recipe', 'docker']
    const { code, stdout } = await berth([...ARGS, ...flags], { env })
    expect([code, stdout]).toEqual([0, '101\tqa\tqa.x.com\t-\n'])
    expect(JSON.parse(peer.asked(PATH)[0]?.body ?? '')).toEqual({
      identifier: 'qa',
      branch: 'main',
      protected: true,
      sticky: true,
      recipe: 'docker',
      server_id: 2,
    })
  })

  it('--deploy --wait: the exit code is the deployment’s', async () => {
    const { peer, env } = await startInstallation()
    peer.script(PATH, { status: 201, json: { ...made, task: task('queued') } })
    peer.script('GET /api/tasks/813', { json: failedTask() })
    peer.script('GET /api/tasks/813/log', { text: '' })
    const { code, stderr } = await berth([...ARGS, '--deploy', '--wait'], { env })
    expect(code).toBe(3)
    expect(stderr).toContain('Environment shop / qa (id 101)')
    expect(stderr).toContain('task 813 failed')
    expect(JSON.parse(peer.asked(PATH)[0]?.body ?? '')).toMatchObject({ deploy: true })
  })

  it('--deploy answered without a task is no start: 1', async () => {
    const { peer, env } = await startInstallation()
    peer.script(PATH, { status: 201, json: made })
    const { code, stderr } = await berth([...ARGS, '--deploy'], { env })
    expect(code).toBe(1)
    expect(stderr).toContain('the server named no deployment')
  })

  it('--wait alone, or an impossible name: 2; at the limit: 6', async () => {
    const { peer, env } = await startInstallation()
    expect((await berth([...ARGS, '--wait'], { env })).code).toBe(2)
    const bad = ['env', 'create', 'Not OK', '-p', 'shop', '--branch', 'main']
    expect((await berth(bad, { env })).code).toBe(2)
    peer.script(PATH, problem('environment_limit_reached', 'At the limit.', { limit: 20 }))
    expect((await berth(ARGS, { env })).code).toBe(6)
  })
})
