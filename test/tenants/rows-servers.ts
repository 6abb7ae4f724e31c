// Servers, their agents and SSH certificates.
import { generateKeyPairSync } from 'node:crypto'
import type { Row } from './rows.ts'
import type { Ids, Organization, World } from './world.ts'

const server = (o: Ids) => ({ params: { id: o.server } })

/** A fresh OpenSSH public key: the type and 32 bytes, each behind its length. */
export function publicKey(): string {
  const { x = '' } = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' })
  const field = (bytes: Buffer): Buffer => {
    const length = Buffer.alloc(4)
    length.writeUInt32BE(bytes.length)
    return Buffer.concat([length, bytes])
  }
  const parts = [Buffer.from('ssh-ed25519'), Buffer.from(x, 'base64url')].map(field)
  return `ssh-ed25519 ${Buffer.concat(parts).toString('base64')} test`
}

const certificate = (o: Ids) => ({
  public_key: publicKey(),
  purpose: 'logs',
  environment_id: o.environment,
})

async function freshServer(o: Organization, w: World) {
  const { id } = await o.make('/api/servers', { name: `made-${w.next()}`, hostname: 'h' })
  return { params: { id } }
}

export const SERVER_ROWS: Record<string, Row> = {
  'PATCH /api/servers/{id}': {
    accepts: [200],
    ask: (o) => ({ ...server(o), body: { paused: false } }),
  },
  'DELETE /api/servers/{id}': { accepts: [409], ask: server }, // environments live on it
  'DELETE /api/servers/{id}/join_token': { accepts: [204], ask: server },
  'POST /api/servers/{id}/revoke_agent': {
    accepts: [202],
    ask: freshServer,
    elsewhere: server,
  },
  'POST /api/servers/{id}/ssh': {
    accepts: [201],
    ask: (o) => ({ ...server(o), body: certificate(o) }),
    mixed: [
      (own, other) => ({ ...server(own), body: certificate(other) }),
      (own, other) => ({ ...server(other), body: certificate(own) }),
    ],
  },
  'GET /api/servers/{id}/usage': { accepts: [200], ask: server },
  'GET /api/servers/{id}/ssh': { accepts: [200], ask: server },
  'DELETE /api/servers/{id}/ssh/{serial}': {
    accepts: [202],
    ask: async (o) => {
      const made = await o.make<{ serial: string }>(`/api/servers/${o.server}/ssh`, certificate(o))
      return { params: { id: o.server, serial: made.serial } }
    },
    elsewhere: (o) => ({ params: { id: o.server, serial: '4711' } }),
    only: ['admin', 'owner'], // not theirs: the owner asked for it
  },
  'GET /api/ssh/host_ca': { accepts: [200] },
}
