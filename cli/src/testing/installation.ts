// An installation with one project and two environments behind a scripted peer, for command tests.
import { afterEach } from 'vitest'
import { asUser } from './berth.ts'
import { type Peer, startPeer } from './peer.ts'
import { environment, me, project, projectDetail, server } from './samples.ts'

const open: Peer[] = []
afterEach(async () => {
  for (const peer of open.splice(0)) await peer.stop()
})

export interface Installation {
  peer: Peer
  /** Variables of a logged-in user. */
  env: Record<string, string>
}

export const staging = environment({
  id: 7,
  identifier: 'staging',
  type: 'manual',
  branch: 'main',
  sticky: true,
  protected: true,
  url: 'https://staging.shop.example.com',
})

export async function startInstallation(more: Record<string, string> = {}): Promise<Installation> {
  const peer = await startPeer()
  open.push(peer)
  peer.script('GET /api/me', { json: me() })
  peer.script('GET /api/projects', { json: [project()] })
  peer.script('GET /api/projects/12', { json: projectDetail() })
  peer.script('GET /api/projects/12/environments', {
    json: [staging, environment()],
    headers: { 'berth-environment-count': '2', 'berth-environment-limit': '20' },
  })
  peer.script('GET /api/environments/101', { json: environment() })
  peer.script('GET /api/servers', { json: [server()] })
  peer.script('GET /api/servers/2', { json: server() })
  return { peer, env: asUser(peer.url, more) }
}
