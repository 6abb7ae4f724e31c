// git reads nothing that an environment's account can write, even if it plants files where the repository was, is or
// could be, and the account cannot read the deploy key. A control shows that an ordinary git runs each plant.
import { execFileSync, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { AttemptState } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { environmentPaths } from '../../agent/src/machine/files.ts'
import { type Account, dropRights } from '../../agent/src/machine/process/confinement.ts'
import { hasMarker, listProcesses } from '../../agent/src/machine/process/processes.ts'
import { findAccount } from '../../agent/src/machine/users/users.ts'
import { scratchDir } from '../../agent/src/settings.ts'
import { type Deployment, eventually, type Repository } from '../fixtures/server/deployment.ts'
import { AgentHost, isRoot } from '../fixtures/server/server.ts'

const KEY = '-----BEGIN OPENSSH PRIVATE KEY-----\nnobody-else-reads-this\n'

let host: AgentHost
let repository: Repository
/** A plant that runs leaves a file here; every account can write it. */
let marks: string

beforeAll(() => {
  host = new AgentHost()
  repository = host.repository()
  marks = join(host.folder, 'marks')
  mkdirSync(marks)
  execFileSync('chmod', ['1777', marks])
})
afterAll(() => host.close())

const paths = (environmentId: number) => environmentPaths(host.settings, environmentId)
const accountOf = async (name: string): Promise<Account> => {
  const found = await findAccount(`${host.settings.accountPrefix.replace(/e$/, '')}${name}`)
  if (!found) throw new Error(`no account ${name}`)
  return found
}

/** Returns which plants ran, and clears them. */
function takeMarks(): string[] {
  const found = readdirSync(marks).sort()
  for (const name of found) rmSync(join(marks, name))
  return found
}

async function deployed(environmentId: number): Promise<Deployment> {
  const deployment = await host.deploy(repository, { environmentId })
  const verdict = await deployment.verdict()
  expect([verdict.message, verdict.state], deployment.log()).toEqual(['', AttemptState.SUCCEEDED])
  return deployment
}

/** What an account with write access would leave in a repository. */
const CONFIG = (): string => `[core]
\trepositoryformatversion = 0
\tbare = true
\tsshCommand = "touch ${marks}/ssh; cat \\"$BERTH_SSH_KEY\\" >${marks}/key; false"
\tfsmonitor = "touch ${marks}/fsmonitor; false"
\thooksPath = ${marks}/../hooks
[filter "planted"]
\tsmudge = "touch ${marks}/smudge; cat"
\trequired = true
[include]
\tpath = ${marks}/../included
`

function plant(repo: string): void {
  writeFileSync(join(repo, 'config'), CONFIG())
  mkdirSync(join(repo, 'info'), { recursive: true })
  writeFileSync(join(repo, 'info', 'attributes'), '* filter=planted\n')
  mkdirSync(join(repo, 'objects', 'info'), { recursive: true })
  writeFileSync(join(repo, 'objects', 'info', 'alternates'), `${repository.folder}/.git/objects\n`)
}

/** A bare repository of the commit with every plant in it. */
function plantedRepository(folder: string): void {
  execFileSync('git', ['clone', '--quiet', '--bare', repository.folder, folder], { stdio: 'pipe' })
  plant(folder)
}

describe.skipIf(!isRoot)('git of a manual environment', () => {
  beforeAll(() => {
    repository.commit({
      'app.txt': 'hello\n',
      'a link': { link: '/etc/passwd' },
      'run.sh': '#!/bin/sh\n',
      '.gitattributes': '*.txt filter=planted\n',
      '.service.yml': 'manual: { deploy: ["id -u; cat app.txt"] }\n',
    })
    repository.git('update-index', '--chmod=+x', 'run.sh')
    repository.git('commit', '--quiet', '-m', 'A program')
  })

  it('belongs to another account, which no environment can enter; only the release is handed over', async () => {
    const { taskId } = await deployed(1)
    const { git, repository: repo, checkout, releases, dir } = paths(1)
    const own = await accountOf('e1')
    const gits = await accountOf('git')
    const facts = (path: string): string => {
      const { mode, uid, gid } = lstatSync(path)
      return `${(mode & 0o7777).toString(8)} ${uid}:${gid}`
    }
    expect(facts(join(git, '..'))).toBe('711 0:0')
    expect(facts(git)).toBe(`710 0:${gits.gid}`)
    expect(facts(repo)).toBe(`700 ${gits.uid}:${gits.gid}`)
    expect(existsSync(checkout)).toBe(false)
    expect(existsSync(join(dir, 'repo.git'))).toBe(false)
    const release = join(releases, String(taskId))
    expect(facts(release)).toBe(`750 ${own.uid}:${own.gid}`)
    for (const name of ['app.txt', '.service.yml', 'run.sh', 'a link']) {
      expect(facts(join(release, name))).toMatch(new RegExp(` ${own.uid}:${own.gid}$`))
    }
    expect(statSync(join(release, 'run.sh')).mode & 0o7111).toBe(0o111)
    expect(statSync('/etc/passwd').uid).toBe(0)
    const walk = spawnSync('find', [repo, '!', '-uid', String(gits.uid)], { encoding: 'utf8' })
    expect(walk.stdout).toBe('')
    const asOwn = (...argv: string[]) =>
      spawnSync('setpriv', [...dropRights(own).slice(1), ...argv])
    expect(asOwn('cat', join(release, 'app.txt')).status).toBe(0)
    for (const path of [git, repo, join(repo, 'config')]) {
      expect(asOwn('ls', path).status, path).not.toBe(0)
    }
    expect(asOwn('touch', join(git, 'x')).status).not.toBe(0)
  })

  it('never reads what an earlier version left to the account, also when its owner was changed back', async () => {
    // the plants work: an ordinary git runs them
    const control = join(host.folder, 'control.git')
    plantedRepository(control)
    const tree = join(host.folder, 'control')
    mkdirSync(tree)
    const ordinary = ['--git-dir', control, '--work-tree', tree, 'checkout', '--quiet', 'main', '.']
    spawnSync('git', ['-c', 'core.bare=false', ...ordinary], { stdio: 'ignore' })
    const asked = ['--git-dir', control, 'fetch', 'ssh://git@127.0.0.1:1/x']
    const keyFile = join(host.folder, 'control-key')
    writeFileSync(keyFile, KEY)
    spawnSync('git', asked, { env: { PATH: process.env.PATH, BERTH_SSH_KEY: keyFile } })
    const worked = takeMarks()
    expect(worked).toEqual(expect.arrayContaining(['key', 'smudge', 'ssh']))

    await deployed(2)
    const gits = await accountOf('git')
    for (const owner of [await accountOf('e2'), gits]) {
      const { formerRepository } = paths(2)
      plantedRepository(formerRepository)
      execFileSync('chown', ['-R', `${owner.uid}:${owner.gid}`, formerRepository])
      chownSync(formerRepository, gits.uid, gits.gid)
      repository.commit({ 'app.txt': `for ${owner.name}\n` })
      const failed = await host.deploy(repository, {
        environmentId: 2,
        url: 'ssh://git@127.0.0.1:1/x',
        deployKey: KEY,
      })
      expect((await failed.verdict()).state).toBe(AttemptState.FAILED)
      const deployment = await deployed(2)
      expect(deployment.log()).toContain(`for ${owner.name}`)
      expect(existsSync(formerRepository)).toBe(false)
      expect(takeMarks()).toEqual([])
    }
  })

  it('is not reached by what a step plants, in any folder that it can write', async () => {
    const { dir, git, repository: repo, checkout, releases } = paths(3)
    const script = join(host.folder, 'plant.sh')
    const config = join(host.folder, 'planted-config')
    writeFileSync(config, CONFIG())
    const into = [repo, join(dir, 'repo.git'), git, checkout, releases, dir, join(git, '..')]
    const lines = into.map(
      (folder) => `mkdir -p '${folder}/info' && cp '${config}' '${folder}/config' && echo planted`,
    )
    lines.push('git config --global core.hooksPath /tmp', `cp '${config}' "$HOME/.gitconfig"`)
    lines.push(
      'mkdir -p "$HOME/.config/git"',
      'echo "* filter=planted" >"$HOME/.config/git/attributes"',
    )
    lines.push(
      `(cd "$BERTH_RELEASE_DIR" && git init -q . && cp '${config}' .git/config && echo own)`,
    )
    writeFileSync(script, `${lines.join('\n')}\ntrue\n`)
    repository.commit({ '.service.yml': `manual: { deploy: [sh ${script}] }\n` })
    const first = await deployed(3)
    // it can write its own release and home, where git never looks
    expect(
      first
        .log()
        .match(/^(planted|own)\r?$/gm)
        ?.map((word) => word.trim()),
    ).toEqual(['own'])
    takeMarks() // its own git may run its own plants
    repository.commit({
      'app.txt': 'after the plant\n',
      '.service.yml': 'manual: { deploy: [cat app.txt] }\n',
    })
    expect((await deployed(3)).log()).toContain('after the plant')
    expect(takeMarks()).toEqual([])
  })

  it('keeps the deploy key from the account while the fetch runs', async () => {
    await deployed(4)
    const own = await accountOf('e4')
    const open: Socket[] = []
    const server = createServer((socket) => open.push(socket.on('error', () => undefined)))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as { port: number }
    const deployment = host.start(repository, {
      environmentId: 4,
      url: `ssh://git@127.0.0.1:${port}/x`,
      deployKey: KEY,
    })
    await eventually(() => open.length > 0, 'ssh to connect')
    const key = join(scratchDir(host.settings, deployment.attemptId), 'git', 'key')
    expect(readFileSync(key, 'utf8')).toBe(KEY)
    const asOwn = (...argv: string[]) =>
      spawnSync('setpriv', [...dropRights(own).slice(1), ...argv], { encoding: 'utf8' })
    const fetching = listProcesses().filter(
      ({ pid, name }) =>
        hasMarker(pid, `BERTH_ATTEMPT_ID=${deployment.attemptId}`) && /^(git|ssh)/.test(name),
    )
    expect(fetching.map(({ name }) => name)).toEqual(expect.arrayContaining(['git', 'ssh']))
    expect(asOwn('cat', key).status).not.toBe(0)
    for (const { pid } of fetching) {
      expect(asOwn('cat', `/proc/${pid}/environ`).status).not.toBe(0)
      expect(asOwn('ls', `/proc/${pid}/fd`).status).not.toBe(0)
      for (const file of ['environ', 'cmdline']) {
        expect(readFileSync(`/proc/${pid}/${file}`, 'latin1')).not.toContain('nobody-else-reads')
      }
    }
    expect(asOwn('cat', '/proc/self/environ').status).toBe(0)
    deployment.stop('seen enough')
    await deployment.ended
    for (const socket of open) socket.destroy()
    server.close()
    expect(existsSync(key)).toBe(false)
  })
})
