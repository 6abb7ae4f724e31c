// The daemon, the real runner and the wire together: the output and effects of a repository's commands arrive at the
// other side of the connection exactly once, even if the daemon dies in the middle.
import { createHash, randomUUID } from 'node:crypto'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  type Assignment,
  AssignmentSchema,
  AttemptState,
  Desired,
  EnvironmentType,
  Recipe,
} from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { durationFromMs } from '@bufbuild/protobuf/wkt'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type RunningAgent, startAgent } from '../../agent/src/agent.ts'
import { systemClock } from '../../agent/src/clock.ts'
import { type Authority, createAuthority } from '../../agent/src/link/identity/authority.testing.ts'
import { createKeyRequest } from '../../agent/src/link/identity/certificate.ts'
import { writeIdentity } from '../../agent/src/link/identity/identity.ts'
import { Peer } from '../../agent/src/link/peer.testing.ts'
import { hasMarker, listProcesses } from '../../agent/src/machine/process/processes.ts'
import type { Repository } from '../fixtures/server/deployment.ts'
import { AgentHost } from '../fixtures/server/server.ts'

let host: AgentHost
let repository: Repository
let authority: Authority
let peer: Peer
let agent: RunningAgent | undefined

beforeAll(async () => {
  host = new AgentHost()
  repository = host.repository()
  authority = await createAuthority()
  peer = new Peer(authority)
  await peer.listen()
  const { key, csrPem } = await createKeyRequest()
  writeIdentity(host.settings, {
    agentId: 'agent-1',
    serverId: 1,
    baseUrl: 'http://127.0.0.1:1/',
    endpoints: [`127.0.0.1:${peer.port}`],
    generation: 1,
    renewAt: '',
    sshUserCaKeys: [],
    key,
    certificate: await authority.issueAgent(csrPem),
    ca: [authority.pem],
  })
})
afterAll(async () => {
  agent?.kill()
  peer.stop()
  await host.close()
})

/** Dials at the beginning of each back-off window. */
const clock = { ...systemClock, random: () => 0 }
async function startDaemon(): Promise<RunningAgent> {
  agent = await startAgent(host.settings, { clock })
  await agent.reached('active')
  return agent
}
async function until(what: string, holds: () => unknown): Promise<void> {
  const deadline = Date.now() + 50_000
  while (!holds()) {
    if (Date.now() > deadline) throw new Error(`never happened: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

function deployment(taskId: number, variables: Record<string, string> = {}): Assignment {
  return create(AssignmentSchema, {
    attemptId: randomUUID(),
    taskId,
    attemptNumber: 1,
    environmentId: 1,
    fence: BigInt(taskId),
    desired: Desired.RUNNING,
    secrets: {
      variables: Object.entries(variables).map(([k, v]) => ({ key: k, value: Buffer.from(v) })),
    },
    spec: {
      kind: { case: 'deploy', value: {} },
      recipe: Recipe.MANUAL,
      repository: { url: repository.url, ref: 'refs/heads/main' },
      environment: {
        projectId: 7,
        environmentId: 1,
        identifier: 'pr-1',
        type: EnvironmentType.PULL_REQUEST,
        branch: 'main',
        host: 'pr-1.shop.example.com',
      },
      systemVariables: { SERVICE_DOMAIN: 'pr-1.shop.example.com' },
      limits: { timeout: durationFromMs(120_000) },
    },
  })
}
const statesOf = (id: string) =>
  peer.events
    .filter((e) => e.attemptId === id)
    .flatMap((e) => (e.body.case === 'attempt' ? [e.body.value] : []))
const endOf = (id: string) => statesOf(id).find((s) => s.state >= AttemptState.SUCCEEDED)
const textOf = (id: string): string => (peer.logs.get(id) ?? []).map((r) => r.text).join('')

it('what the commands print arrives whole, masked and in order', async () => {
  await startDaemon()
  repository.commit(
    { '.service.yml': 'manual:\n  deploy:\n    - "echo token is $TOKEN; seq 1 2000"\n' },
    'Count',
  )
  const assignment = deployment(1, { TOKEN: 'hunter2-very-secret' })
  const { attemptId } = assignment
  peer.assign(assignment)
  await until('it ended', () => endOf(attemptId))
  const end = endOf(attemptId)
  expect(end, textOf(attemptId)).toMatchObject({ state: AttemptState.SUCCEEDED })
  await until('its whole log', () => peer.logs.get(attemptId)?.length === Number(end?.finalLogSeq))
  const text = textOf(attemptId)
  expect(text).toContain('token is ***')
  expect(text).not.toContain('hunter2')
  const digest = createHash('sha256').update(text).digest('hex')
  expect(Buffer.from(end?.logSha256 ?? []).toString('hex')).toBe(digest)
  expect(statesOf(attemptId).map((s) => s.state)).toEqual([20, 30, 40, 100])
})

it('the daemon dies in the middle: the deployment goes on, and its command ran once', async () => {
  const oracle = join(host.folder, 'starts')
  const go = join(host.folder, 'go')
  writeFileSync(oracle, '')
  chmodSync(oracle, 0o666) // the environment's account writes to it
  const command = `echo started >> ${oracle}; while [ ! -e ${go} ]; do sleep 0.05; done; echo done`
  repository.commit(
    { '.service.yml': `manual:\n  deploy:\n    - ${JSON.stringify(command)}\n` },
    'Wait',
  )
  const assignment = deployment(2)
  const { attemptId } = assignment
  peer.assign(assignment)
  await until('the command runs', () => readFileSync(oracle, 'utf8') !== '')
  agent?.kill()
  writeFileSync(go, '')
  await startDaemon()
  await until('it ended', () => endOf(attemptId))
  expect(endOf(attemptId), textOf(attemptId)).toMatchObject({ state: AttemptState.SUCCEEDED })
  expect(readFileSync(oracle, 'utf8')).toBe('started\n')
  expect(statesOf(attemptId).map((s) => s.state)).toEqual([20, 30, 40, 100])
  await until('its log', () => textOf(attemptId).includes('done'))
})

it('cancel reaches the command: it is stopped, and nothing of it is left', async () => {
  repository.commit(
    { '.service.yml': 'manual:\n  deploy:\n    - "echo begun; sleep 300"\n' },
    'Sleep',
  )
  const assignment = deployment(3)
  const { attemptId, environmentId, fence } = assignment
  peer.assign(assignment)
  await until('it runs', () => textOf(attemptId).includes('begun'))
  const stop = { attemptId, environmentId, fence, desired: Desired.STOPPED }
  peer.assign(create(AssignmentSchema, stop))
  await until('it ended', () => endOf(attemptId))
  expect(statesOf(attemptId).map((s) => s.state)).toEqual([20, 30, 40, 50, 120])
  const marker = `BERTH_ATTEMPT_ID=${attemptId}`
  await until('all its processes are gone', () =>
    listProcesses().every(({ pid }) => !hasMarker(pid, marker)),
  )
})
