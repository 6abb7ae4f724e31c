// An installation with a large fleet: the control plane itself makes the schema, the first administrator and the keys;
// servers, agents and certificates are written in bulk by its own functions.
import { generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Environment, ProjectDetail, Server, SetupResponse } from '@berth/shared/api'
import { pino } from 'pino'
import { readConfig } from '../../../control-plane/src/config.ts'
import type { Context } from '../../../control-plane/src/context.ts'
import { issueAgentCertificate } from '../../../control-plane/src/keys/authority.ts'
import { buildRequest, spkiOf } from '../../../control-plane/src/keys/requests.testing.ts'
import { startControlPlane } from '../../../control-plane/src/server.ts'
import {
  insertAgent,
  insertAgentCertificate,
} from '../../../control-plane/src/store/servers/agents.ts'
import { insertServer } from '../../../control-plane/src/store/servers/servers.ts'
import type { Identity } from './simulated-agent.ts'
import type { Credentials } from './wire.ts'

export interface Planted {
  token: string
  agents: Identity[]
  credentials: Omit<Credentials, 'certificate'>
  environments: number[]
  kekFile: string
}

const PER_TRANSACTION = 250

export async function plantFleet(
  dir: string,
  databaseUrl: string | undefined,
  counts: { agents: number; environments: number },
): Promise<Planted> {
  const kekFile = join(dir, 'kek')
  writeFileSync(kekFile, randomBytes(32), { mode: 0o400 })
  const dataDir = join(dir, 'data')
  mkdirSync(dataDir, { mode: 0o700 })
  const config = {
    ...readConfig({ BERTH_DATA_DIR: dataDir, BERTH_KEK_FILE: kekFile, BERTH_DEV: '1' }),
    databaseUrl,
    port: 0,
    agentPort: 0,
    rateLimitFactor: 10_000,
  }
  const running = await startControlPlane({ config, log: pino({ level: 'error' }) })
  try {
    const post = poster(running.baseUrl)
    const { token } = await post<SetupResponse>('/api/setup', {
      token: running.setupToken,
      name: 'Ada',
      email: 'ada@example.com',
      organization: 'Acme',
    })
    const asAda = poster(running.baseUrl, token)
    const server = await asAda<Server>('/api/servers', { name: 's0', hostname: '10.0.0.1' })
    const { agents, credentials, servers } = await plantAgents(running.ctx, server, counts.agents)
    const environments: number[] = []
    for (let i = 0; i < counts.environments; i += 1) {
      // one for each of these projects, on servers all over the fleet
      const serverId = servers[Math.floor((i * servers.length) / counts.environments)]
      const project = await asAda<ProjectDetail>('/api/projects', {
        name: `p${i}`,
        repo_url: `https://git.example.com/p${i}.git`,
        domain: `p${i}.example.com`,
        server_ids: [serverId],
        default_recipe: 'manual',
      })
      const path = `/api/projects/${project.id}/environments`
      const body = { identifier: 'main', branch: 'main', auto_deploy: false }
      environments.push((await asAda<Environment>(path, body)).id)
    }
    // the checks of the repositories, which do not exist, wait until after the run
    const later = Date.now() + 86_400_000
    await running.ctx.db.updateTable('projects').set({ reconcileAt: later }).execute()
    return { token, agents, credentials, environments, kekFile }
  } finally {
    await running.close()
  }
}

function poster(url: string, token = '') {
  return async <T>(path: string, body: object): Promise<T> => {
    const answer = await fetch(url + path, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(token ? { authorization: `Bearer ${token}` } : {}),
      },
      body: JSON.stringify(body),
    })
    if (!answer.ok) throw new Error(`POST ${path}: ${answer.status} ${await answer.text()}`)
    return (await answer.json()) as T
  }
}

/** The first server exists; the others are copies of its row. All agents share one key, which costs nothing here. */
async function plantAgents(ctx: Context, first: Server, count: number) {
  const pair = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  const csr = buildRequest({ spki: spkiOf(pair.publicKey), key: pair.privateKey })
  const { id: _id, ...row } = await ctx.db
    .selectFrom('servers')
    .selectAll()
    .where('id', '=', first.id)
    .executeTakeFirstOrThrow()
  const agents: Identity[] = []
  const servers: number[] = []
  for (let from = 0; from < count; from += PER_TRANSACTION) {
    await ctx.db.transaction().execute(async (db) => {
      for (let i = from; i < Math.min(count, from + PER_TRANSACTION); i += 1) {
        const serverId = i === 0 ? first.id : await insertServer(db, { ...row, name: `s${i}` })
        const id = randomUUID()
        const now = Date.now()
        const { authority, installationId } = ctx
        const of = { csr, installationId, agentId: id, now: new Date(now) }
        const issued = await issueAgentCertificate(authority, of)
        await insertAgent(db, { id, serverId, installId: randomUUID(), joinedAt: now })
        await insertAgentCertificate(db, {
          fingerprint: issued.fingerprint,
          agentId: id,
          generation: 1,
          notAfter: issued.notAfter.getTime(),
          issuedAt: now,
        })
        agents.push({ id, certificate: issued.certificatePem })
        servers.push(serverId)
      }
    })
  }
  const key = pair.privateKey.export({ format: 'pem', type: 'pkcs8' }).toString()
  return { agents, servers, credentials: { ca: ctx.authority.certificatePem, key } }
}
