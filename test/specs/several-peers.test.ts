// Three control planes on one PostgreSQL: the agent's session is at one, people ask another one, and the agent's uploads
// arrive at a third.
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Artifact, SshCertificate, Task } from '@berth/shared/api'
import { ed25519PublicKey, formatPublicKey } from '@berth/shared/ssh'
import {
  ActionSchema,
  encodeMessage,
  FileFrameSchema,
  HostVerdict,
  type Request,
} from '@berth/shared/wire'
import { create, toBinary } from '@bufbuild/protobuf'
import { durationFromMs } from '@bufbuild/protobuf/wkt'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { dialFileLine } from '../../agent/src/link/bulk-transfer.ts'
import { openChannel } from '../../agent/src/link/channel.ts'
import { Masker } from '../../agent/src/machine/masking/mask.ts'
import { ServiceLog } from '../../agent/src/service-logs/writer.ts'
import { callAgent } from '../../control-plane/src/agents/agent-rpc.ts'
import { expectTransfer } from '../../control-plane/src/agents/transfers.ts'
import { Balancer } from '../fixtures/platform/balancer.ts'
import { missing } from '../fixtures/platform/components.ts'
import type { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { WireAgent, type WireSession } from '../fixtures/platform/wire-agent.ts'
import { DAY, leave } from '../fixtures/server/artifacts.ts'
import { until } from '../fixtures/server/installation.ts'

const MIB = 1024 * 1024
const ACTION = create(ActionSchema, {
  name: 'export',
  title: 'Export',
  artifactPaths: ['exports/*'],
  timeout: durationFromMs(600_000),
})
const FACTS: Request['body'] = {
  case: 'collectFacts',
  value: { $typeName: 'berth.agent.v1.CollectFacts', environmentId: 0 },
}

describe.skipIf(missing('postgres'))('through any control plane', () => {
  let balancer: Balancer
  let p: Platform
  /** Holds the agent. */
  let a: TestControlPlane
  /** Serves people. */
  let b: TestControlPlane
  /** Receives uploads. */
  let c: TestControlPlane
  let environmentId: number

  beforeAll(async () => {
    balancer = await Balancer.start()
    const config = { agentEndpoints: [`127.0.0.1:${balancer.port}`] }
    p = await Platform.bare('postgres', { config })
    a = p.cp
    balancer.target = a.running.gateway.port
    await a.setUp()
    p.serverId = (await a.server()).id
    p.projectId = (await a.project('shop', p.serverId)).id
    await p.joinAgent(await a.joinToken(p.serverId))
    b = await a.beside({ config })
    c = await a.beside({ config })
    environmentId = (await p.environment('main')).id
    p.executor.script = (attempt) => {
      attempt.emit({ case: 'actions', value: { actions: [ACTION] } })
      attempt.succeed()
    }
    await p.settled((await p.deploy(environmentId)).body.id)
    balancer.target = c.running.gateway.port // from here on, new connections of agents
  })
  afterAll(async () => {
    await Promise.all([b.close(), c.close()])
    await p.close()
    await balancer.close()
  })

  async function collect(content: Buffer): Promise<Artifact> {
    p.executor.script = async (attempt) => {
      await leave(p.agentDir, attempt, [{ path: 'exports/file.bin', content }], DAY)
      attempt.succeed()
    }
    const { id } = await a.make<Task>(`/api/environments/${environmentId}/actions/export/tasks`)
    expect((await p.settled(id)).status).toBe('succeeded')
    const list = await b.call<Artifact[]>('GET', `/api/tasks/${id}/artifacts`)
    return list.body[0] as Artifact
  }
  const fetchAt = (cp: TestControlPlane, artifact: Artifact): Promise<Response> =>
    fetch(`${cp.url}/api/artifacts/${artifact.id}/content`, {
      headers: { authorization: `Bearer ${cp.token}` },
    })

  test.each([
    ['a small file, by a call', 100_000],
    ['a large one, by a bulk transfer', 9 * MIB + 17],
  ])('%s: from the agent at one, over another, to a reader at the third', async (_, size) => {
    const content = randomBytes(size)
    const artifact = await collect(content)
    const answer = await fetchAt(b, artifact)
    expect(answer.status).toBe(200)
    expect(Buffer.from(await answer.arrayBuffer()).equals(content)).toBe(true)
  })

  test('logs of services, live', async () => {
    const log = new ServiceLog(join(p.agentDir, `logs/e${environmentId}/web`), 1, new Masker([]))
    const say = (text: string): void =>
      log.write('out', Buffer.from(`${text}\n`), new Date().toISOString())
    say('first')
    const path = `/api/environments/${environmentId}/log_lines`
    const page = await b.call('GET', `${path}?service=web`)
    expect(page.text).toContain('first')
    const live = await fetch(`${b.url}${path}?service=web&after=&follow=true`, {
      headers: { authorization: `Bearer ${b.token}` },
    })
    const reader = live.body?.pipeThrough(new TextDecoderStream()).getReader()
    let text = ''
    const readUntil = async (wanted: string): Promise<void> => {
      while (!text.includes(wanted)) text += (await reader?.read())?.value ?? ''
    }
    await readUntil('first')
    say('second')
    await readUntil('second')
    await reader?.cancel()
    log.close()
  })

  describe('with an agent of messages', () => {
    let agent: WireAgent
    let session: WireSession
    let serverId: number
    let otherId: number
    const signal = new AbortController().signal

    beforeAll(async () => {
      serverId = (await a.server('two')).id
      const project = await a.project('docs', serverId)
      otherId = (await a.environment(project.id)).id
      agent = await WireAgent.join(a, serverId)
      session = await agent.active() // at c
    })
    afterAll(() => agent.close())

    test('a caller who leaves, and one who waits too long, are canceled at the agent', async () => {
      const caller = new AbortController()
      const o = { deadlineMs: 9_000, signal: caller.signal }
      const asked = callAgent(b.running.ctx, serverId, FACTS, o).catch(
        (error: Error) => error.message,
      )
      const { requestId } = await session.next('request')
      caller.abort(new Error('left'))
      expect(await asked).toBe('left')
      expect((await session.next('cancelRequest')).requestId).toBe(requestId)
      await expect(
        callAgent(b.running.ctx, serverId, FACTS, { deadlineMs: 50, signal }),
      ).rejects.toMatchObject({ code: 'server_timeout' })
      await session.next('cancelRequest')
    })

    test('a request waits for an agent that moves to another control plane', async () => {
      session.cut()
      await until('the end of its session', async () => {
        const { body } = await b.call('GET', `/api/servers/${serverId}`)
        return body.status === 'online' ? undefined : true
      })
      const asked = callAgent(b.running.ctx, serverId, FACTS, { deadlineMs: 9_000, signal })
      balancer.target = a.running.gateway.port
      agent = agent.as(agent.identity) // on a new connection
      session = await agent.active()
      const { requestId } = await session.next('request')
      const facts = { case: 'facts' as const, value: { facts: [{ name: 'moved' }] } }
      session.send({ case: 'response', value: { requestId, body: facts } })
      expect(await asked).toMatchObject({ case: 'facts', value: { facts: [{ name: 'moved' }] } })
    })

    test('a bulk transfer that is passed on breaks at both ends, and needs the expected agent', async () => {
      const expectFile = (agentId = agent.identity.agentId) =>
        expectTransfer(b.running.ctx, agentId, 'file', {
          firstFrameMs: 60_000,
          idleMs: 60_000,
          signal,
        })
      const begin = async ({ transferId }: { transferId: string }) => {
        const line = await dialFileLine(
          agent.identity,
          `127.0.0.1:${c.running.gateway.port}`,
          signal,
        )
        const frame = { case: 'header' as const, value: { transferId } }
        line.write(encodeMessage(toBinary(FileFrameSchema, create(FileFrameSchema, { frame }))))
        return line
      }
      const broken = expectFile()
      const reader = broken.frames[Symbol.asyncIterator]()
      const cut = await begin(broken)
      await reader.next()
      cut.destroy()
      await expect(reader.next()).rejects.toThrow('broke')

      const left = expectFile()
      const unread = await begin(left)
      for await (const _ of left.frames) break
      await once(unread, 'close')

      const foreign = expectFile('another-agent')
      await once(await begin(foreign), 'close')
      foreign.cancel()
      await once(await begin({ transferId: 'gone.guessed' }), 'close')
      const garbage = await dialFileLine(
        agent.identity,
        `127.0.0.1:${c.running.gateway.port}`,
        signal,
      )
      garbage.write(Buffer.alloc(64))
      await once(garbage, 'close')
    })

    test('an upload ends with the session of its agent, wherever that is', async () => {
      const { ctx } = b.running
      const { transferId, frames } = expectTransfer(ctx, agent.identity.agentId, 'file', {
        firstFrameMs: 60_000,
        idleMs: 60_000,
        signal,
      })
      const upload = agent.client.sendFile(() => {})
      upload.on('error', () => {})
      const header = { case: 'header' as const, value: { transferId } }
      upload.write(create(FileFrameSchema, { frame: header }))
      const reader = frames[Symbol.asyncIterator]()
      await reader.next()
      await ctx.transfers.checks.look()
      await ctx.transfers.checks.look() // the same session goes on
      const rest = reader.next()
      session.cut()
      session = await agent.active()
      await ctx.transfers.checks.look()
      await expect(rest).rejects.toMatchObject({ code: 'server_offline' })
    })

    test('a revocation made at one reaches the agent of another', async () => {
      const ssh = `/api/servers/${serverId}/ssh`
      const public_key = formatPublicKey(ed25519PublicKey(generateKeyPairSync('ed25519').publicKey))
      const wanted = { public_key, purpose: 'logs', environment_id: otherId }
      const { serial } = await b.make<SshCertificate>(ssh, wanted)
      expect((await b.call('DELETE', `${ssh}/${serial}`)).status).toBe(202)
      for (;;) {
        const { revokedSshSerials } = await session.next('trust')
        if (revokedSshSerials.includes(BigInt(serial))) return
      }
    })

    test('hostnames are granted by any of them', async () => {
      const { id } = await b.make<Task>(`/api/environments/${otherId}/tasks`)
      const assigned = await until('its assignment', async () =>
        (await session.assignments()).find(({ taskId }) => taskId === id),
      )
      const elsewhere = openChannel(agent.identity, `127.0.0.1:${b.running.gateway.port}`)
      const verdict = await new Promise((resolve) => {
        const { attemptId, fence } = assigned
        const $typeName = 'berth.agent.v1.ClaimHostsRequest' as const
        const claim = { $typeName, attemptId, fence, hosts: ['docs.acme.dev'] }
        elsewhere.claimHosts(claim, {}, (error, answer) =>
          resolve(error ?? answer?.claims[0]?.verdict),
        )
      })
      elsewhere.close()
      expect(verdict).toBe(HostVerdict.GRANTED)
    })
  })
})
