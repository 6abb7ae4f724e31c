// Artifacts of an action on a real server, with both recipes: what is collected and what never is. An environment can
// plant links, pipes, devices and swaps, but no byte from outside its folder gets into the store.
import { createHash } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { ARTIFACTS } from '@berth/shared'
import { AttemptState, FailureCode } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openArtifact } from '../../agent/src/files/reading.ts'
import { expireArtifacts } from '../../agent/src/files/store.ts'
import type { AgentSettings } from '../../agent/src/settings.ts'
import { DockerHost, httpd } from '../fixtures/docker/server.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import { type Deployment, type Repository, readTree } from '../fixtures/server/deployment.ts'
import { AgentHost, isRoot } from '../fixtures/server/server.ts'

const CANARY = 'outside-canary-7f3a'

/** Commands that write files which may be collected, and some which may not. */
const LEAVE = [
  'rm -rf exports; mkdir -p exports/deep/er exports/.git; umask 022',
  'printf "one\\n" > exports/one.csv; printf "" > exports/empty.csv',
  'printf "deep\\n" > "exports/deep/er/two words.csv"; printf x > exports/.git/no.csv',
  'ln -s ../../../../../../../etc/passwd exports/link.csv; ln -s / exports/deep/root',
  'mkfifo exports/pipe.csv; printf x > exports/notes.txt',
].join('; ')

const file = (name: string, run: string, paths: string, more = ''): string =>
  `  ${name}: { run: ${JSON.stringify(run)}, artifacts: { paths: ${paths}${more} } }\n`

const ACTIONS = `
actions:
${file('export', LEAVE, "['exports/**/*.csv', 'exports/one.*']")}
${file('nothing', 'true', "['nowhere/*.csv', 'exports/*.pdf']")}
${file('fails', 'mkdir -p exports; echo x > exports/a.csv; exit 3', "['exports/*.csv']")}
${file('three', 'rm -rf n; mkdir n; for i in 3 1 2; do echo 12345678$i > n/$i; done', "['n/*']", ', retention: 1h')}
`

interface Side {
  host: AgentHost
  act: (action: string, over?: { artifacts?: { files: number; bytes: number } }) => Deployment
}

const collected = (done: Deployment) =>
  done.bodies('artifacts').flatMap(({ artifacts }) => artifacts)
const warnings = (done: Deployment) => done.bodies('warning').map(({ code }) => code)
const storeOf = ({ stateDir }: AgentSettings) => join(stateDir, 'artifacts')
const taskStore = (host: AgentHost, done: Deployment) =>
  join(storeOf(host.settings), 'e1', String(done.taskId))

async function read(host: AgentHost, artifactId: string, offset = 0): Promise<string> {
  const opened = openArtifact(host.settings, { environmentId: 1, artifactId, offset })
  return opened.kind === 'ok' ? text(opened.stream) : opened.kind
}

function behaves(side: () => Side): void {
  it('collects the regular files that match, and nothing that only looks like one', async () => {
    const { host, act } = side()
    const done = act('export')
    expect(await done.verdict(), done.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
    expect(Object.keys(done.steps())).toEqual(['command', 'artifacts'])
    const files = collected(done)
    expect(files.map(({ relativePath }) => relativePath)).toEqual([
      'exports/deep/er/two words.csv',
      'exports/empty.csv',
      'exports/one.csv',
    ])
    const one = files.find(({ relativePath }) => relativePath === 'exports/one.csv')
    expect(Buffer.from(one?.sha256 ?? []).toString('hex')).toBe(
      createHash('sha256').update('one\n').digest('hex'),
    )
    expect(await read(host, one?.artifactId ?? '')).toBe('one\n')
    expect(await read(host, one?.artifactId ?? '', 2)).toBe('e\n')
    expect(done.log()).toMatch(/Skipped exports\/link\.csv: a (symbolic )?link\./)
    expect(done.log()).toContain('Skipped exports/pipe.csv: not a regular file.')
    expect(warnings(done)).toEqual([])
    const folder = taskStore(host, done)
    expect(statSync(folder).mode & 0o777).toBe(0o700)
    expect(readTree(storeOf(host.settings)).includes('root:')).toBe(false)
    expect(readdirSync(folder).toSorted()).toEqual(files.map((f) => f.artifactId).toSorted())
  })

  it('offers the first in order of name when there are too many, each whole', async () => {
    const { act } = side()
    const few = act('three', { artifacts: { files: 2, bytes: 1_000 } })
    await few.ended
    expect(collected(few).map(({ relativePath }) => relativePath)).toEqual(['n/1', 'n/2'])
    expect(few.bodies('warning')).toMatchObject([
      {
        code: 'artifacts_truncated',
        message: expect.stringContaining('(2 files). Left out from n/3'),
      },
    ])
    const small = act('three', { artifacts: { files: 9, bytes: 25 } })
    await small.ended
    expect(collected(small).map(({ relativePath }) => relativePath)).toEqual(['n/1', 'n/2'])
    expect(warnings(small)).toEqual(['artifacts_truncated'])
  })
}

describe('artifacts of the manual recipe', () => {
  let host: AgentHost
  let repository: Repository
  let outside: string
  const act: Side['act'] = (action, over = {}) => host.start(repository, { action, ...over })

  beforeAll(async () => {
    host = new AgentHost()
    outside = join(host.folder, 'outside')
    mkdirSync(outside, { mode: 0o755 })
    writeFileSync(join(outside, 'x.csv'), CANARY)
    chmodSync(join(outside, 'x.csv'), 0o644)
    repository = host.repository()
    const hard = `mkdir -p h; echo x > h/a.csv; ln h/a.csv h/b.csv; ln ${outside}/x.csv h/c.csv || true; echo y > h/d.csv`
    // swaps a file, and a folder, for a link to outside, as fast as it can, until it is stopped
    const swap = [
      'rm -rf s; mkdir -p s/real s/d; echo inside > s/real/x.csv; echo inside > s/d/x.csv',
      `(trap "" HUP; i=0; while [ $i -lt 4000 ] && [ ! -e s/end ]; do i=$((i+1)); mv s/d s/e; ln -s ${outside} s/d; rm s/d; mv s/e s/d; ln -sf ${outside}/x.csv s/f.csv; rm s/f.csv; echo inside > s/f.csv; done) >/dev/null 2>&1 &`,
    ].join('; ')
    const strange = [
      'mkdir -p c; printf x > "$(printf \'c/a\\nb.csv\')"; printf x > "$(printf \'c/a\\033[2Jb.csv\')"; printf y > c/fine.csv',
      'truncate -s 10G c/sparse.csv; printf z > c/zz.csv',
    ].join('; ')
    const more = [
      file('hard', hard, "['h/*.csv']"),
      file('swap', swap, "['s/*/*.csv', 's/*.csv']"),
      file('strange', strange, "['c/*.csv']"),
      file('unreadable', 'mkdir -p u; echo x > u/a.csv; chmod 000 u/a.csv', "['u/*']"),
      file('outward', `ln -sfn ${outside} o`, "['o/*.csv']"),
      file(
        'many',
        'rm -rf m; mkdir m; cd m; for i in $(seq -w 0 1000); do echo $i > $i; done',
        "['m/*']",
      ),
    ]
    const elsewhere = `  inside: { run: 'mkdir -p r; echo x > r/a', dir: sub, artifacts: { paths: ['r/*'] } }\n`
    repository.commit({
      'sub/keep': '',
      '.service.yml': `manual: { deploy: ['true'] }\n${ACTIONS}${more.join('')}${elsewhere}`,
    })
    const done = await host.deploy(repository)
    expect(await done.verdict(), done.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
  })
  afterAll(() => host.close())

  behaves(() => ({ host, act }))

  it('warns when nothing matched, and collects nothing of a command that failed', async () => {
    const nothing = act('nothing')
    expect(await nothing.verdict()).toMatchObject({ state: AttemptState.SUCCEEDED })
    expect(nothing.bodies('warning')).toMatchObject([
      {
        code: 'no_artifact_matched',
        message: 'No file matched nowhere/*.csv, exports/*.pdf.',
        stepId: 'artifacts',
      },
    ])
    const failed = act('fails')
    expect(await failed.verdict()).toMatchObject({ code: FailureCode.STEP_FAILED })
    expect(collected(failed)).toEqual([])
    expect(existsSync(taskStore(host, failed))).toBe(false)
    expect(existsSync(taskStore(host, nothing))).toBe(false)
  })

  it('keeps them as long as the file says, then says that they expired', async () => {
    const done = act('three')
    await done.ended
    const [first] = collected(done)
    const id = first?.artifactId ?? ''
    const expiresAt = Number(first?.expiresAt?.seconds ?? 0n) * 1_000
    expect(expiresAt - Date.now()).toBeGreaterThan(3_400_000)
    expect(expiresAt - Date.now()).toBeLessThan(3_601_000)
    const ask = { environmentId: 1, artifactId: id, offset: 0 }
    expect(openArtifact(host.settings, ask, expiresAt + 1_000).kind).toBe('expired')
    const ledger = host.ledger()
    expect(await expireArtifacts(host.settings, ledger, expiresAt + 2_000)).toBeGreaterThan(2)
    expect(existsSync(taskStore(host, done))).toBe(false)
    expect(openArtifact(host.settings, ask, expiresAt + 3_000).kind).toBe('expired')
    await expireArtifacts(host.settings, ledger, expiresAt + ARTIFACTS.rememberedMs + 3_000)
    expect(openArtifact(host.settings, ask, expiresAt + 3_000).kind).toBe('gone')
    ledger.close()
  })

  it('leaves out hard links and files of others', async () => {
    const done = act('hard')
    expect(await done.verdict(), done.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
    expect(collected(done).map((f) => f.relativePath)).toEqual(['h/d.csv'])
    expect(done.log()).toContain('Skipped h/a.csv: hard-linked.')
  })

  it('leaves out names with control characters, and a sparse giant with all after it', async () => {
    const done = act('strange')
    expect(await done.verdict(), done.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
    expect(collected(done).map((f) => f.relativePath)).toEqual(['c/fine.csv'])
    expect(done.log()).toContain('Skipped c/a?b.csv: its name has control characters.')
    expect(warnings(done)).toEqual(['artifacts_truncated'])
  })

  it('is matched below the folder of the action', async () => {
    const done = act('inside')
    await done.ended
    expect(collected(done).map((f) => f.relativePath)).toEqual(['r/a'])
  })

  it('follows no folder that is a link', async () => {
    const done = act('outward')
    expect(await done.verdict()).toMatchObject({ state: AttemptState.SUCCEEDED })
    expect(collected(done)).toEqual([])
    expect(done.log()).toContain('Skipped o: a symbolic link.')
    expect(warnings(done)).toEqual(['no_artifact_matched'])
  })

  it.skipIf(!isRoot)('fails as a whole when one cannot be read', async () => {
    const done = act('unreadable')
    expect(await done.verdict()).toMatchObject({
      code: FailureCode.ARTIFACTS_FAILED,
      failedStepId: 'artifacts',
      message: 'u/a.csv could not be copied: it cannot be read by the account of its environment.',
      platformCheck: true,
    })
    expect(existsSync(taskStore(host, done))).toBe(false)
  })

  it('never follows what is swapped for a link meanwhile', async () => {
    for (let round = 0; round < 3; round += 1) {
      const done = act('swap')
      expect(await done.verdict(), done.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
      for (const { artifactId } of collected(done)) {
        expect(['inside\n', '']).toContain(await read(host, artifactId))
      }
      writeFileSync(join(host.settings.stateDir, 'environments/e1/current/s/end'), '')
    }
    expect(readTree(storeOf(host.settings)).includes(CANARY)).toBe(false)
  })

  it('takes a thousand files, not one more', async () => {
    const done = act('many')
    expect(await done.verdict(), done.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
    expect(collected(done)).toHaveLength(1_000)
    expect(done.bodies('artifacts').length).toBeGreaterThan(4)
    expect(done.bodies('warning')[0]?.message).toContain('(1,000 files). Left out from m/1000 on')
  })

  it('hands out only the recorded copy: changed, swapped for a link, gone, foreign', async () => {
    const done = act('three')
    await done.ended
    const [a, b, c] = collected(done).map(({ artifactId }) => artifactId) as [
      string,
      string,
      string,
    ]
    const at = (id: string) => join(taskStore(host, done), id)
    expect(openArtifact(host.settings, { environmentId: 2, artifactId: a, offset: 0 }).kind).toBe(
      'gone',
    )
    const { atime, mtime } = statSync(at(a))
    writeFileSync(at(a), '99999999\n')
    utimesSync(at(a), atime, mtime)
    expect(await read(host, a)).toBe('changed')
    renameSync(at(b), `${at(b)}.x`)
    symlinkSync('/etc/passwd', at(b))
    expect(await read(host, b)).toBe('changed')
    linkSync(at(c), `${at(c)}.x`)
    expect(await read(host, c)).toBe('changed')
    rmSync(at(c))
    expect(await read(host, c)).toBe('gone')
    expect(await read(host, '../../../etc/passwd')).toBe('gone')
    expect(await read(host, crypto.randomUUID())).toBe('gone')
  })

  it('stays through a reset and goes with the environment', async () => {
    const done = act('three')
    await done.ended
    const id = collected(done)[0]?.artifactId ?? ''
    const fresh = await host.deploy(repository, { fresh: true })
    expect(await fresh.verdict(), fresh.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
    expect(await read(host, id)).toBe('123456781\n')
    const destroyed = await host.deploy(repository, { destroy: true })
    expect(await destroyed.verdict(), destroyed.log()).toMatchObject({
      state: AttemptState.SUCCEEDED,
    })
    expect(existsSync(dirname(taskStore(host, done)))).toBe(false)
    expect(await read(host, id)).toBe('gone')
    expect(readFileSync(join(outside, 'x.csv'), 'utf8')).toBe(CANARY)
  })
})

describe.skipIf(!dockerEngine() || missing('caddy') || !isRoot)('artifacts in a container', () => {
  let host: DockerHost
  let repository: Repository
  const act: Side['act'] = (action, over = {}) => host.begin(repository, { action, ...over })
  beforeAll(async () => {
    host = await DockerHost.open()
    repository = host.repository()
    const written = httpd('one')['.service.yml'] as string
    const more = [
      file('root', 'printf x > top.csv', "['*.csv']"),
      `  sparse: { run: 'mkdir -p g; echo a > g/a.csv; truncate -s 2G g/b.csv; truncate -s 900G g/c.csv; echo d > g/d.csv', dir: /tmp, artifacts: { paths: ['g/*.csv'] } }\n`,
      `  beside: { run: 'mkdir -p n/m; echo a > n/a.csv; truncate -s 900G n/m/x.img; echo z > n/m-z.csv; echo b > n/b.csv', dir: /tmp, artifacts: { paths: ['n/**/*.csv'] } }\n`,
      `  far: { run: 'mkdir -p out && echo far > out/f', dir: /tmp, artifacts: { paths: ['out/f'] } }\n`,
    ]
    repository.commit({ ...httpd('one'), '.service.yml': `${written}${ACTIONS}${more.join('')}` })
    const done = await host.run(repository)
    expect(await done.verdict(), done.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
  })
  afterAll(() => host.close())

  behaves(() => ({ host, act }))

  it('finds files in the working folder itself and in one that the action names', async () => {
    const root = act('root')
    expect(await root.verdict(), root.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
    expect(collected(root).map((f) => f.relativePath)).toEqual(['top.csv'])
    const far = act('far')
    expect(await far.verdict(), far.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
    const [found] = collected(far)
    expect(found?.relativePath).toBe('out/f')
    expect(await read(host, found?.artifactId ?? '')).toBe('far\n')
  })

  // last: these files stay in the container, and a later collection would have to read past them
  it('counts a file with holes by its whole size, before a byte of it is copied', async () => {
    const done = act('sparse', { artifacts: { files: 10, bytes: 1_024 ** 3 } })
    expect(await done.verdict(), done.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
    expect(collected(done).map((f) => f.relativePath)).toEqual(['g/a.csv'])
    expect(done.bodies('warning')).toMatchObject([
      {
        code: 'artifacts_truncated',
        message: 'More files matched than a task may keep (1.0 GiB). Left out from g/b.csv on.',
      },
    ])
  })

  it('does not read past a giant that no pattern names, and says from where on', async () => {
    const done = act('beside')
    expect(await done.verdict(), done.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
    expect(collected(done).map((f) => f.relativePath)).toEqual(['n/a.csv', 'n/b.csv'])
    expect(done.bodies('warning')).toMatchObject([
      {
        code: 'artifacts_truncated',
        message:
          'More files matched than a task may keep (8 GiB of files to read past). Left out from n/m on.',
      },
    ])
  })
})
