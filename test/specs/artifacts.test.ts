// Artifacts of an action, from the store of a real agent through the control plane to the caller: exactly the collected
// bytes, or an error that says why. Never an empty or a truncated file.
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import {
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Artifact, Task } from '@berth/shared/api'
import { ActionSchema, AttemptState, FileFrameSchema, RequestErrorCode } from '@berth/shared/wire'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { durationFromMs, timestampFromMs } from '@bufbuild/protobuf/wkt'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findLiveAgent } from '../../control-plane/src/agents/agent-rpc.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { WireAgent, type WireSession } from '../fixtures/platform/wire-agent.ts'
import { DAY, type Left, leave } from '../fixtures/server/artifacts.ts'
import { until } from '../fixtures/server/installation.ts'

const ACTION = create(ActionSchema, {
  name: 'export',
  title: 'Export',
  artifactPaths: ['exports/*'],
  timeout: durationFromMs(600_000),
})
const sha256 = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest('hex')

describe.each(ENGINES)('artifacts on %s', (engine) => {
  let p: Platform
  let environmentId: number
  beforeAll(async () => {
    p = await Platform.start(engine)
    environmentId = (await p.environment('main')).id
    p.executor.script = (attempt) => {
      attempt.emit({ case: 'actions', value: { actions: [ACTION] } })
      attempt.succeed()
    }
    await p.settled((await p.deploy(environmentId)).body.id)
  })
  afterAll(() => p.close())

  /** Runs the action, which writes these files. */
  async function run(files: Left[], retentionMs = 7 * DAY): Promise<Artifact[]> {
    p.executor.script = async (attempt) => {
      await leave(p.agentDir, attempt, files, retentionMs)
      attempt.succeed()
    }
    const path = `/api/environments/${environmentId}/actions/export/tasks`
    const { id } = await p.cp.make<Task>(path)
    expect((await p.settled(id)).status).toBe('succeeded')
    return (await p.cp.call<Artifact[]>('GET', `/api/tasks/${id}/artifacts`)).body
  }
  const one = async (content: string | Buffer, retentionMs?: number): Promise<Artifact> => {
    const files = [{ path: 'exports/orders.csv', content: Buffer.from(content) }]
    return (await run(files, retentionMs))[0] as Artifact
  }
  const get = (artifact: Artifact, headers: Record<string, string> = {}, method = 'GET') =>
    p.cp.call<{ code: string; detail: string }>(
      method,
      `/api/artifacts/${artifact.id}/content`,
      undefined,
      headers,
    )
  const copyOf = (artifact: Artifact) =>
    join(p.agentDir, 'artifacts', `e${environmentId}`, String(artifact.task_id), artifact.file_id)

  test('The files are collected after the run and offered as one download link per file.', async () => {
    const artifacts = await run([
      { path: 'exports/b "quoted" é.csv', content: Buffer.from('two') },
      { path: 'exports/a.csv', content: Buffer.from('one\n') },
      { path: 'exports/empty.csv', content: Buffer.alloc(0) },
    ])
    expect(artifacts.map(({ path, size_bytes }) => [path, size_bytes])).toEqual([
      ['exports/a.csv', 4],
      ['exports/b "quoted" é.csv', 3],
      ['exports/empty.csv', 0],
    ])
    const [a, b, empty] = artifacts as [Artifact, Artifact, Artifact]
    expect(a).toMatchObject({
      name: 'a.csv',
      sha256: sha256('one\n'),
      url: `${p.cp.url}/api/artifacts/${a.id}/content`,
    })
    const week = Date.parse(a.expires_at) - Date.parse(a.collected_at)
    expect(Math.abs(week - 7 * DAY)).toBeLessThan(60_000)
    const whole = await get(a)
    expect([whole.status, whole.text]).toEqual([200, 'one\n'])
    expect(Object.fromEntries(whole.headers)).toMatchObject({
      'content-length': '4',
      'content-type': 'application/octet-stream',
      'content-disposition': `attachment; filename="a.csv"; filename*=UTF-8''a.csv`,
      'repr-digest': `sha-256=:${Buffer.from(a.sha256, 'hex').toString('base64')}:`,
      'accept-ranges': 'bytes',
      'x-content-type-options': 'nosniff',
      etag: `"${a.sha256}"`,
    })
    expect((await get(b)).headers.get('content-disposition')).toBe(
      `attachment; filename="b__quoted___.csv"; filename*=UTF-8''b%20%22quoted%22%20%C3%A9.csv`,
    )
    // a file that was empty when it was collected is valid
    const none = await get(empty)
    expect([none.status, none.text, none.headers.get('content-length')]).toEqual([200, '', '0'])
  })

  test('a download can be resumed: ranges of the same file, the whole of another', async () => {
    const artifact = await one('0123456789')
    const part = await get(artifact, { range: 'bytes=3-5' })
    expect([part.status, part.text]).toEqual([206, '345'])
    expect(part.headers.get('content-range')).toBe('bytes 3-5/10')
    expect((await get(artifact, { range: 'bytes=-2' })).text).toBe('89')
    const tag = `"${artifact.sha256}"`
    expect((await get(artifact, { range: 'bytes=8-', 'if-range': tag })).text).toBe('89')
    const other = await get(artifact, { range: 'bytes=8-', 'if-range': '"other"' })
    expect([other.status, other.text]).toEqual([200, '0123456789'])
    const beyond = await get(artifact, { range: 'bytes=10-' })
    expect([beyond.status, beyond.body.code]).toEqual([416, 'range_not_satisfiable'])
    expect(beyond.headers.get('content-range')).toBe('bytes */10')
  })

  test('A clear error is returned instead of an empty file: gone, changed, swapped, expired.', async () => {
    const gone = await one('gone')
    rmSync(copyOf(gone))
    const noFile = await get(gone)
    expect([noFile.status, noFile.body.code]).toEqual([410, 'artifact_gone'])
    expect(noFile.body.detail).toBe(
      'exports/orders.csv is no longer on its server. Run the action again.',
    )

    const changed = await one('before')
    const { atime, mtime } = statSync(copyOf(changed))
    writeFileSync(copyOf(changed), 'behind')
    utimesSync(copyOf(changed), atime, mtime)
    expect((await get(changed)).body.code).toBe('artifact_changed')

    const swapped = await one('before')
    renameSync(copyOf(swapped), `${copyOf(swapped)}.x`)
    symlinkSync(`${copyOf(swapped)}.x`, copyOf(swapped))
    const link = await get(swapped)
    expect([link.status, link.body.code]).toEqual([409, 'artifact_changed'])

    const old = await one('old', 1_000)
    await p.cp.advance(2_000)
    const late = await get(old)
    expect([late.status, late.body.code]).toEqual([410, 'artifact_expired'])
  })

  test('A clear error is returned when the server is unavailable; the link works when it is back.', async () => {
    const artifact = await one('here again')
    p.killAgent()
    await until('the end of its session', async () => {
      const { body } = await p.cp.call('GET', `/api/servers/${p.serverId}`)
      return body.status === 'online' ? undefined : true
    })
    const away = await get(artifact)
    expect([away.status, away.body.code]).toEqual([503, 'server_offline'])
    expect(away.headers.get('retry-after')).not.toBeNull()
    await p.startAgent()
    await p.online()
    await until('its session', () =>
      findLiveAgent(p.cp.running.ctx, p.serverId).catch(() => undefined),
    )
    expect((await get(artifact)).text).toBe('here again')
  })

  test('the agent dies in the middle: the connection breaks, nobody takes the part for the file', async () => {
    const artifact = await one(randomBytes(32 * 1_024 * 1_024))
    const answer = await openSlowly(p.cp, artifact)
    expect(answer.statusCode).toBe(200)
    expect(answer.headers['content-length']).toBe(String(artifact.size_bytes))
    await once(answer, 'readable')
    answer.read()
    p.killAgent()
    const ended = await drainUntilEnd(answer)
    expect(ended.complete).toBe(false)
    expect(ended.bytes).toBeLessThan(artifact.size_bytes)
    await p.startAgent()
    await p.online()
  })

  /** Several in one answer: status, body, and whether it is complete. */
  async function getAll(artifacts: Artifact[], ids = artifacts.map(({ id }) => id).join(',')) {
    const url = `${p.cp.url}/api/tasks/${artifacts[0]?.task_id}/artifacts/content?ids=${ids}`
    const asked = httpRequest(url, { headers: { authorization: `Bearer ${p.cp.token}` } }).end()
    const [answer] = (await once(asked, 'response')) as [IncomingMessage]
    const chunks: Buffer[] = []
    answer.on('error', () => undefined).on('data', (chunk: Buffer) => chunks.push(chunk))
    await once(answer, 'close')
    const { statusCode: status, complete } = answer
    return { status, complete, body: Buffer.concat(chunks) }
  }
  const announced = (content: Buffer): Buffer =>
    Buffer.concat([Buffer.from(`size=${content.length} sha256=${sha256(content)}\n`), content])
  const parts = [
    Buffer.alloc(0),
    Buffer.from('small'),
    randomBytes(700_000),
    Buffer.alloc(0),
    randomBytes(5_000),
    Buffer.from('last'),
  ]
  const named = () => run(parts.map((content, i) => ({ path: `exports/${i}`, content })))

  test('several files come in one answer, each with its size and digest, in the order asked for', async () => {
    const files = await named()
    const all = await getAll(files)
    expect([all.status, all.complete]).toEqual([200, true])
    expect(all.body.equals(Buffer.concat(parts.map(announced)))).toBe(true)
    const turned = await getAll(files.toReversed())
    expect(turned.body.equals(Buffer.concat(parts.toReversed().map(announced)))).toBe(true)
    const [first] = files
    expect((await getAll(files, `${first?.id},999999`)).status).toBe(404)
    expect((await getAll(files, `${first?.id},${first?.id}`)).status).toBe(400)
    expect((await getAll(files, '')).status).toBe(400)
  })

  test('of several, those before one that is gone are whole, and a line says why the rest is missing', async () => {
    const files = await named()
    rmSync(copyOf(files[4] as Artifact))
    const some = await getAll(files)
    const line = `error=artifact_gone ${JSON.stringify('exports/4 is no longer on its server. Run the action again.')}\n`
    expect([some.status, some.complete]).toEqual([200, true])
    const expected = Buffer.concat([...parts.slice(0, 4).map(announced), Buffer.from(line)])
    expect(some.body.equals(expected)).toBe(true)
    const none = await getAll(files.slice(4))
    expect([none.status, JSON.parse(String(none.body)).code]).toEqual([410, 'artifact_gone'])
  })

  test('of several, one that is another file now is not sent', async () => {
    const files = await named()
    writeFileSync(copyOf(files[5] as Artifact), 'LAST')
    const some = await getAll(files)
    expect(some.body.includes('LAST')).toBe(false)
    expect(String(some.body.subarray(-200))).toMatch(/error=artifact_changed "exports\/5 .*"\n$/)
  })

  test('a file replaced while it is sent breaks off as well', async () => {
    const content = randomBytes(32 * 1_024 * 1_024)
    const artifact = await one(content)
    const answer = await openSlowly(p.cp, artifact)
    await once(answer, 'readable')
    // the same inode: the content of the open copy changes
    writeFileSync(copyOf(artifact), randomBytes(content.length))
    const ended = await drainUntilEnd(answer)
    expect(ended.complete).toBe(false)
    expect(readdirSync(join(p.agentDir, 'artifacts')).length).toBe(1)
  })
})

/** A reader that reads nothing until the test says so. */
async function openSlowly(cp: TestControlPlane, artifact: Artifact): Promise<IncomingMessage> {
  const headers = { authorization: `Bearer ${cp.token}` }
  const asked = httpRequest(artifact.url, { headers }).end()
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  answer.on('error', () => undefined)
  return answer
}

async function drainUntilEnd(
  answer: IncomingMessage,
): Promise<{ complete: boolean; bytes: number }> {
  let bytes = 0
  answer.on('data', (chunk: Buffer) => {
    bytes += chunk.length
  })
  const closed = new Promise<void>((resolve) => answer.once('close', () => resolve()))
  await Promise.race([closed, delay(20_000, undefined, { ref: false })])
  return { complete: answer.complete, bytes }
}

type Frame = NonNullable<MessageInitShape<typeof FileFrameSchema>['frame']>

describe('an agent that sends something else', () => {
  let cp: TestControlPlane
  let agent: WireAgent
  let session: WireSession
  let url = ''
  let taskId = 0
  const content = Buffer.from('abcdef')
  const fileId = randomUUID()
  beforeAll(async () => {
    cp = await TestControlPlane.start('sqlite')
    await cp.setUp()
    const serverId = (await cp.server()).id
    const project = await cp.project('shop', serverId)
    const { id } = await cp.environment(project.id)
    agent = await WireAgent.join(cp, serverId)
    session = await agent.active()
    await cp.make(`/api/environments/${id}/tasks`)
    await play([
      { case: 'actions', value: { actions: [ACTION] } },
      { case: 'services', value: {} },
    ])
    const task = await cp.make<Task>(`/api/environments/${id}/actions/export/tasks`)
    const fine = {
      artifactId: fileId,
      relativePath: 'a/b.txt',
      size: 6n,
      sha256: Buffer.from(sha256(content), 'hex'),
      expiresAt: timestampFromMs(Date.now() + 1_000 * DAY),
    }
    const bad = [
      { relativePath: '../up' },
      { relativePath: '/root' },
      { relativePath: 'a\nb' },
      { relativePath: '' },
      { sha256: Buffer.alloc(3) },
      { artifactId: 'x' },
    ].map((over) => ({ ...fine, artifactId: randomUUID(), ...over }))
    await play([{ case: 'artifacts', value: { artifacts: [fine, ...bad, fine] } }])
    const list = await cp.call<Artifact[]>('GET', `/api/tasks/${task.id}/artifacts`)
    expect(list.body.map(({ path }) => path)).toEqual(['a/b.txt'])
    // capped at the longest retention that a service file may ask for
    expect(Date.parse(list.body[0]?.expires_at ?? '') - Date.now()).toBeLessThan(91 * DAY)
    url = new URL(list.body[0]?.url ?? '').pathname
    taskId = task.id
  })
  afterAll(async () => {
    agent.close()
    await cp.close()
  })

  /** Takes the next assignment and plays it to success. */
  async function play(bodies: NonNullable<Parameters<WireSession['event']>[0]['body']>[]) {
    const assignment = await until('an assignment', async () =>
      (await session.assignments()).find(({ spec }) => spec !== undefined),
    )
    const { attemptId, fence } = assignment
    const report = (body: (typeof bodies)[number]) => session.event({ attemptId, fence, body })
    report({ case: 'attempt', value: { state: AttemptState.RUNNING } })
    for (const body of bodies) report(body)
    const seq = report({ case: 'attempt', value: { state: AttemptState.SUCCEEDED } })
    await until('the acknowledgement', async () => {
      const { ackedSeq } = await session.next('eventAck')
      return ackedSeq >= seq ? true : undefined
    })
  }

  const stat = { size: 6n, sha256: Buffer.from(sha256(content), 'hex') }
  const end = { bytesSent: 6n, sha256: Buffer.from(sha256(content), 'hex') }

  /** Downloads while the agent answers with the given frames; returns the body, or the error code. */
  async function download(frames: Frame[], answered = stat, header: object = {}): Promise<string> {
    const asked = fetch(cp.url + url, { headers: { authorization: `Bearer ${cp.token}` } })
    const { requestId, body } = await session.next('request')
    if (body.case !== 'openFile') throw new Error('another question')
    expect(body.value.artifactId).toBe(fileId)
    const { transferId } = body.value
    session.send({
      case: 'response',
      value: { requestId, body: { case: 'fileStat', value: answered } },
    })
    const call = agent.client.sendFile(() => undefined)
    call.on('error', () => undefined)
    const send = (frame: Frame) => call.write(create(FileFrameSchema, { frame }))
    send({ case: 'header', value: { transferId, stat, length: 6n, ...header } })
    for (const frame of frames) send(frame)
    call.end()
    const answer = await asked
    const text = await answer.text().catch(() => 'broken')
    return answer.status === 200 ? text : (JSON.parse(text) as { code: string }).code
  }
  const data = (bytes: string): Frame => ({ case: 'data', value: Buffer.from(bytes) })

  test('a whole file is a whole file', async () => {
    expect(await download([data('abc'), data('def'), { case: 'end', value: end }])).toBe('abcdef')
  })

  test.each<[string, string, Frame[]]>([
    ['too little', 'artifact_changed', [data('abc'), { case: 'end', value: end }]],
    ['too much', 'unavailable', [data('abcdef'), data('g'), { case: 'end', value: end }]],
    ['other bytes', 'artifact_changed', [data('abcdeF'), { case: 'end', value: end }]],
    [
      'another digest',
      'artifact_changed',
      [data('abcdef'), { case: 'end', value: { ...end, sha256: Buffer.alloc(32) } }],
    ],
    ['no end', 'unavailable', [data('abcdef')]],
    [
      'an error',
      'artifact_changed',
      [data('abc'), { case: 'error', value: { code: RequestErrorCode.CHANGED, message: 'x' } }],
    ],
  ])('%s: %s, and not one byte', async (_, code, frames) => {
    expect(await download(frames)).toBe(code)
  })

  test.each<[string, string, Frame[]]>([
    ['a whole one', 'abcdef', [data('abc'), data('def'), { case: 'end', value: {} }]],
    ['too little', 'broken', [data('abc'), { case: 'end', value: {} }]],
    ['too much', 'unavailable', [data('abcdefg'), { case: 'end', value: {} }]],
    ['other bytes', 'artifact_changed', [data('abcdeF'), { case: 'end', value: {} }]],
    ['no end', 'broken', [data('abcdef')]],
    [
      'an error in the middle',
      'broken',
      [data('abc'), { case: 'error', value: { code: RequestErrorCode.CHANGED, message: 'x' } }],
    ],
  ])('asked for several, %s: %s', async (_, outcome, frames) => {
    const path = `/api/tasks/${taskId}/artifacts/content?ids=${new URL(cp.url + url).pathname.split('/')[3]}`
    const asked = fetch(cp.url + path, { headers: { authorization: `Bearer ${cp.token}` } })
    const { requestId, body } = await session.next('request')
    if (body.case !== 'openFiles') throw new Error('another question')
    expect(body.value.artifactIds).toEqual([fileId])
    const { transferId } = body.value
    session.send({ case: 'response', value: { requestId, body: { case: 'fileStat', value: {} } } })
    const call = agent.client.sendFile(() => undefined)
    call.on('error', () => undefined)
    const send = (frame: Frame) => call.write(create(FileFrameSchema, { frame }))
    send({ case: 'header', value: { transferId } })
    for (const frame of frames) send(frame)
    call.end()
    const answer = await asked
    const text = await answer.text().catch(() => 'broken')
    const line = `size=6 sha256=${sha256(content)}\n`
    if (answer.status !== 200) expect((JSON.parse(text) as { code: string }).code).toBe(outcome)
    else expect(text.replace(line, '')).toBe(outcome)
  })

  test('another size, digest or place than the record says: artifact_changed, no byte', async () => {
    const whole = [data('abcdef'), { case: 'end' as const, value: end }]
    expect(await download(whole, { ...stat, size: 7n })).toBe('artifact_changed')
    expect(await download(whole, { ...stat, sha256: Buffer.alloc(32) })).toBe('artifact_changed')
    expect(await download(whole, stat, { offset: 1n })).toBe('artifact_changed')
  })
})
