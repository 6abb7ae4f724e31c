// Builds on a real engine: what people see of them, how they fail, and that a canceled one leaves no process behind.
import { createHash, randomUUID } from 'node:crypto'
import { chmodSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { dockerEngine } from '../../../../../test/fixtures/platform/components.ts'
import { eventually } from '../../../../../test/fixtures/server/deployment.ts'
import { listProcesses } from '../../process/processes.ts'
import { BASE, DockerFixture, type Files } from '../engine.testing.ts'
import { engineFacts, openEngine } from '../engine.ts'
import { inspectImage } from '../images.ts'
import { BuildError, type BuildStep, buildImage } from './build.ts'
import { findBuildProcesses, markArguments } from './fence.ts'

let fixture: DockerFixture
const from = `FROM ${BASE}\n`

describe.skipIf(!dockerEngine())('a build', () => {
  beforeAll(() => {
    fixture = new DockerFixture()
  })
  afterAll(() => fixture.close())

  const failure = async (files: Files, options: Parameters<DockerFixture['build']>[1] = {}) => {
    const error = await fixture.build(files, options).then(
      () => new Error('it succeeded'),
      (e: unknown) => e,
    )
    expect(error).toBeInstanceOf(BuildError)
    return error as BuildError
  }

  test('gives an image with our name, labels and arguments; the second time it comes from the cache', async () => {
    const unique = randomUUID()
    const files = {
      Dockerfile: `${from}ARG WHO\nCOPY a.txt /a.txt\nRUN echo "grüße ${unique} $WHO" && cat /a.txt\nCMD ["/bin/true"]\n`,
      'a.txt': 'content of a\n',
    }
    const steps: BuildStep[] = []
    let text = ''
    const tag = `${fixture.settings.accountPrefix.replace(/-e$/, '')}/e1-web:7`
    const { imageId } = await fixture.build(files, {
      tag,
      args: { WHO: 'you & me' },
      onStep: (step) => steps.push(step),
      onText: (step, chunk) => {
        expect(step.name).toContain('RUN echo')
        text += chunk
      },
    })
    expect(text).toBe(`grüße ${unique} you & me\ncontent of a\n`)
    const image = await inspectImage(fixture.engine, tag)
    expect(image).toMatchObject({ id: imageId, cmd: ['/bin/true'] })
    const ran = steps.filter(({ name }) => name.includes('] RUN'))
    expect(ran.map(({ state, cached }) => [state, cached])).toEqual([
      ['running', false],
      ['done', false],
    ])
    expect(ran[1]?.ms).toBeGreaterThan(0)
    expect(ran[0]?.number).toBe(ran[1]?.number)

    const again: BuildStep[] = []
    const second = await fixture.build(files, {
      args: { WHO: 'you & me' },
      onStep: (step) => again.push(step),
    })
    expect(second.imageId).toBe(imageId)
    const cached = again.filter(({ name }) => name.includes('] RUN'))
    expect(cached.map((step) => [step.state, step.cached])).toEqual([['done', true]])

    const fresh: BuildStep[] = []
    await fixture.build(files, { noCache: true, onStep: (step) => fresh.push(step) })
    expect(fresh.some(({ name, cached }) => name.includes('] RUN') && cached)).toBe(false)
  })

  test('has the files of its context, whatever their names, and none that is ignored', async () => {
    const large = Buffer.alloc(50_000_000, randomUUID())
    const folder = fixture.write({
      'docker/Production': `${from}COPY . /app\nRUN : ${randomUUID()}; cd /app && find . | sort && sha256sum large && ls -ln run.sh && test -f "$(printf 'na\\357')" && readlink link && test ! -s none\n`,
      'docker/Production.dockerignore': 'docker\nignored/*\n!ignored/kept\ngrüße.txt\n',
      '.dockerignore': 'run.sh\n',
      'run.sh': '#!/bin/sh\n',
      none: '',
      'grüße.txt': 'ignored',
      'ignored/left': '',
      'ignored/kept': '',
      'a folder/mit Grüßen 🙂': '',
      'a-b': '',
      link: { link: 'a folder/mit Grüßen 🙂' },
    })
    writeFileSync(join(folder, 'large'), large)
    writeFileSync(Buffer.concat([Buffer.from(`${folder}/na`), Buffer.from([0xef])]), '')
    chmodSync(join(folder, 'run.sh'), 0o754)
    let text = ''
    await fixture.build(
      {},
      { folder, dockerfile: 'docker/Production', onText: (_step, chunk) => (text += chunk) },
    )
    const [digest] = text.match(/^[0-9a-f]{64}/m) ?? []
    expect(digest).toBe(createHash('sha256').update(large).digest('hex'))
    expect(text).toMatch(/^-rwxr-xr--\s+1 0\s+0\s/m)
    const found = text.split('\n').filter((line) => line.startsWith('.'))
    expect(found.toSorted()).toEqual(
      [
        ...['.', './.dockerignore', './a folder', './a folder/mit Grüßen 🙂', './a-b', './ignored'],
        ...['./ignored/kept', './large', './link', './na\ufffd', './none', './run.sh'],
      ].toSorted(),
    )
    expect(text.trimEnd().split('\n').at(-1)).toBe('a folder/mit Grüßen 🙂')
  })

  test('after another one of the same service sends what changed, be it of the same size and time', async () => {
    const unique = randomUUID()
    const context = { key: unique, times: join(fixture.folder, 'times', unique) }
    const files = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`many/${i}`, `${i}`]))
    const buildIt = async (changes: Files, second: number) => {
      let text = ''
      const all: Files = {
        ...files,
        '.dockerignore': 'Dockerfile\n',
        Dockerfile: `${from}COPY . /app\nRUN : ${unique}; cd /app; cat changed; ls -d gone Dockerfile 2>&1; stat -c %Y many/7 changed\n`,
        ...changes,
      }
      const folder = fixture.write(all)
      for (const path of Object.keys(files)) utimesSync(join(folder, path), second, second)
      utimesSync(join(folder, 'changed'), 1_000, 1_000)
      const { imageId } = await fixture.build(
        {},
        { folder, context, onText: (_step, chunk) => (text += chunk) },
      )
      return { imageId, text }
    }
    const missing = (name: string) => `ls: ${name}: No such file or directory\n`
    const first = await buildIt({ changed: 'one', gone: 'x' }, 5_000)
    expect(first.text.replace('gone\n', '')).toBe(`one${missing('Dockerfile')}5000\n1000\n`)
    const second = await buildIt({ changed: 'two' }, 6_000)
    expect(second.text).toBe(`two${missing('gone')}${missing('Dockerfile')}5000\n1000\n`)
    const third = await buildIt({ changed: 'one', gone: 'x' }, 7_000)
    expect(third).toEqual({ imageId: first.imageId, text: '' }) // from the cache
  })

  test('whose files cannot be read says so', async () => {
    const error = await failure({ Dockerfile: `${from}COPY . /\n`, '.dockerignore': '[a\n' })
    expect(error.message).toMatch(
      /^The engine refused the build: the build context cannot be read: Invalid regular expression/,
    )
  })

  test('stops at the target it was given', async () => {
    const files = { Dockerfile: `${from.trim()} AS a\nENV STAGE=a\n${from}ENV STAGE=b\n` }
    const { imageId } = await fixture.build(files, { target: 'a' })
    expect((await inspectImage(fixture.engine, imageId))?.env).toContain('STAGE=a')
  })

  test('of text with characters of several bytes loses none of them', async () => {
    const line = '€ä🙂'.repeat(500) // the engine itself drops output above 200 KiB a second
    let text = ''
    let chunks = 0
    await fixture.build(
      { Dockerfile: `${from}COPY t /t\nRUN : ${randomUUID()}; cat /t\n`, t: line.repeat(20) },
      {
        onText: (_step, chunk) => {
          text += chunk
          chunks += 1
        },
      },
    )
    expect(text === line.repeat(20)).toBe(true)
    expect(chunks).toBeGreaterThan(1)
  })

  test('that fails names its step, exit code and last lines', async () => {
    const command = 'for n in 1 2 3; do echo "line $n"; done; echo gone wrong >&2; exit 3'
    const steps: BuildStep[] = []
    const error = await failure(
      { Dockerfile: `${from}RUN ${command}\nRUN echo never\n` },
      { onStep: (step) => steps.push(step) },
    )
    expect(error).toMatchObject({ kind: 'build_failed', exitCode: 3, step: `[2/3] RUN ${command}` })
    expect(error.message).toBe(`\`RUN ${command}\` exited with 3.`)
    // two pipes have no common order
    expect(error.lastLines.split('\n').toSorted()).toEqual([
      'gone wrong',
      'line 1',
      'line 2',
      'line 3',
    ])
    expect(steps.at(-1)).toMatchObject({ state: 'failed' })
    expect(steps.some(({ name }) => name.includes('never'))).toBe(false)
  })

  const cases: { name: string; files: Files; dockerfile?: string; message: RegExp }[] = [
    {
      name: 'without its Dockerfile',
      files: { 'a.txt': '' },
      dockerfile: 'docker/Production',
      message: /^There is no file docker\/Production in the build context\.$/,
    },
    {
      name: 'of a Dockerfile that cannot be read as one',
      files: { Dockerfile: `${from}RUNN true\n` },
      message: /^Dockerfile parse error.*unknown instruction: RUNN.*\.$/i,
    },
    {
      name: 'of a file that is not there',
      files: { Dockerfile: `${from}COPY nope /\n` },
      message: /^`COPY nope \/` failed: .*nope.*not found\.$/,
    },
    {
      name: 'of an image that nobody has',
      files: { Dockerfile: 'FROM registry.invalid/team/app:1\nRUN true\n' },
      message: /^Image registry\.invalid\/team\/app:1 could not be fetched: .+\.$/,
    },
    {
      name: 'with a syntax line and no registry',
      files: { Dockerfile: `# syntax=registry.invalid/dockerfile:1\n${from}RUN true\n` },
      message: /^The line '# syntax=' .* registry\.invalid\/dockerfile:1 .*Remove the line/,
    },
    {
      name: 'with a secret mount',
      files: {
        Dockerfile: `${from}RUN --mount=type=secret,id=token,required=true cat /run/secrets/token\n`,
      },
      message: /^`RUN --mount=.*` failed: .*Secret and ssh mounts of a build are not supported/,
    },
    {
      name: 'with an ssh mount that is optional, and missed',
      files: { Dockerfile: `${from}RUN --mount=type=ssh test -S "$SSH_AUTH_SOCK"\n` },
      message: /^`RUN --mount=.*` exited with 1\. Secret and ssh mounts of a build are not supp/,
    },
  ]
  test.each(cases)('$name fails with a sentence', async ({ files, dockerfile, message }) => {
    const error = await failure(files, dockerfile ? { dockerfile } : {})
    expect(error.message).toMatch(message)
    expect(error.kind).toBe('build_failed')
    expect(error.message).not.toMatch(/buildkit-mount|frontend dockerfile\.v0/)
  })

  test.each([
    ['out_of_memory', 'exit 137'],
    [
      'out_of_memory',
      'sh -c "kill -9 \\$\\$"; echo "collect2: fatal error: Killed signal terminated program cc1"; exit 1',
    ],
    ['disk_full', 'echo "write error: No space left on device" >&2; exit 1'],
  ])('is %s after: %s', async (kind, command) => {
    expect((await failure({ Dockerfile: `${from}RUN ${command}\n` })).kind).toBe(kind)
  })

  test('is bounded in memory, yields to live services, and stays out of the image and the cache', async () => {
    const mark = randomUUID()
    // waits for the fence, not for a time; without a fence it would end at 600 MB
    const wait =
      'n=0; until [ $(cat /proc/self/oom_score_adj) = 900 ] || [ $n = 300 ]; do sleep 0.1; n=$((n+1)); done'
    const hog = `awk 'BEGIN { s = "xxxxxxxxxxxxxxxx"; while (1) s = s s }'`
    const command = `: ${mark}; ${wait}; cat /proc/self/oom_score_adj; ulimit -v 600000; ${hog}`
    const texts: string[] = []
    const error = await failure(
      { Dockerfile: `${from}RUN ${command}\n` },
      {
        mark,
        bounds: { memoryBytes: 0.1 * 1_024 ** 3, pids: 100 },
        onText: (_step, text) => texts.push(text),
      },
    )
    expect(error).toMatchObject({ kind: 'out_of_memory', exitCode: 137, memoryCause: 'limit' })
    expect(error.message).toMatch(/^The build was stopped by the kernel: `RUN .*` needed more mem/)
    expect(texts.join('')).toBe('900\n')
    expect(findBuildProcesses(mark)).toEqual([])

    const files = { Dockerfile: `${from}RUN echo ${randomUUID()}\n` }
    const tag = `${fixture.settings.owner}/marked:1`
    await fixture.build(files, { tag, mark: 'one' })
    const steps: BuildStep[] = []
    await fixture.build(files, { tag, mark: 'two', onStep: (step) => steps.push(step) })
    expect(steps.find(({ name }) => name.includes('RUN'))).toMatchObject({ cached: true })
    const built = (await fixture.engine.docker()).getImage(tag)
    const [image, history] = await Promise.all([built.inspect(), built.history()])
    expect(JSON.stringify([image, history])).not.toContain('berth-build')
  })

  test('whose Dockerfile declares NO_PROXY keeps its own and is marked all the same', () => {
    const mark = 'berth-build-m.invalid'
    const declared = markArguments({ A: '1' }, 'm', 'FROM x\nARG A NO_PROXY=y\n')
    expect(declared).toEqual({ A: '1', FTP_PROXY: mark })
    const both = markArguments({}, 'm', 'FROM x\nARG no_proxy\nARG ftp_proxy\n')
    expect(both).toEqual({ NO_PROXY: mark })
    expect(markArguments({}, 'm', 'FROM x\n')).toEqual({ NO_PROXY: mark })
    expect(markArguments({ NO_PROXY: 'corp' }, 'm', '').NO_PROXY).toBe(`corp,${mark}`)
  })

  test('is bounded too when its command forgets its environment', async () => {
    const { dataRoot } = await engineFacts(fixture.engine)
    const wait =
      'n=0; until [ $(cat /proc/self/oom_score_adj) = 900 ] || [ $n = 100 ]; do sleep 0.1; n=$((n+1)); done'
    const texts: string[] = []
    const script = `: ${randomUUID()}; ${wait}; cat /proc/self/oom_score_adj`
    const words = JSON.stringify(['/bin/busybox', 'env', '-i', '/bin/sh', '-c', script])
    const onText = (_step: unknown, text: string): void => void texts.push(text)
    await fixture.build({ Dockerfile: `${from}RUN ${words}\n` }, { dataRoot, onText })
    expect(texts.join('')).toBe('900\n')
  })

  test('keeps its caches to those of the same name', async () => {
    const id = randomUUID()
    const run = async (caches: string): Promise<string> => {
      const texts: string[] = []
      const command = `ls /cache; touch /cache/${caches}`
      const line = `RUN --mount=type=cache,id=${id},target=/cache : ${randomUUID()}; ${command}\n`
      const onText = (_step: unknown, text: string): void => void texts.push(text)
      await fixture.build({ Dockerfile: `${from}${line}` }, { caches, onText })
      return texts.join('')
    }
    expect(await run('one')).toBe('')
    expect(await run('two')).toBe('')
    expect(await run('one')).toBe('one\n') // the positive control
  })

  test('really ends when it is canceled', async () => {
    const mark = randomUUID()
    const abort = new AbortController()
    const isRunning = () => listProcesses().some(({ pid }) => readCommand(pid).includes(mark))
    const ended = failure(
      { Dockerfile: `${from}RUN echo ${mark}; while true; do sleep 1; done\n` },
      { signal: abort.signal, mark },
    )
    await eventually(isRunning, 'the RUN process') // the positive control: it is visible while it runs
    expect(findBuildProcesses(mark).length).toBeGreaterThan(0)
    abort.abort()
    expect((await ended).kind).toBe('canceled')
    await eventually(() => !isRunning(), 'the end of the RUN process')
  })

  test('that is canceled before it began does not begin', async () => {
    const error = await failure({ Dockerfile: from }, { signal: AbortSignal.abort() })
    expect(error.kind).toBe('canceled')
  })

  test('without an engine says so', async () => {
    const engine = openEngine({ dockerSocket: `${fixture.folder}/none.sock` })
    const folder = fixture.write({ Dockerfile: from })
    const options = { dockerfile: 'Dockerfile', target: null, args: {}, tag: 'x', labels: {} }
    const build = buildImage(engine, { ...options, folder, noCache: false })
    await expect(build).rejects.toMatchObject({
      kind: 'unavailable',
      message: `connect ENOENT ${fixture.folder}/none.sock`,
    })
  })
})

function readCommand(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1')
  } catch {
    return ''
  }
}
