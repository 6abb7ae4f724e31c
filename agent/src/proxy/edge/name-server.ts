// Switches the traffic in every cut-over: a UDP name server on loopback that gives Caddy the upstreams of a hostname.
// SRV contains address and port; the target's name spells the address. Answers have TTL 0. Invariant: every hostname
// gets an answer; an unknown one leads to the page server, as for a missing name Caddy would keep the client waiting.
import { createSocket, type Socket } from 'node:dgram'
import { type Answer, type DecodedPacket, decode, encode } from 'dns-packet'
import { PLAIN_ZONE } from '../caddy/render.ts'

export interface Upstream {
  address: string
  port: number
}

/** By the requested name, in lower case and without a trailing dot; undefined when it is not one of ours. */
export type FindUpstreams = (name: string) => Upstream[] | undefined

const SPELLED = new RegExp(
  `^ip-(\\d{1,3})-(\\d{1,3})-(\\d{1,3})-(\\d{1,3})\\.${PLAIN_ZONE.replace('.', '\\.')}$`,
)

const spellAddress = (address: string): string => `ip-${address.replaceAll('.', '-')}.${PLAIN_ZONE}`

const AUTHORITATIVE = 1 << 10
const REFUSED = 5
const SRV = 33
const INTERNET = 1
/** Where a packet counts its answers. */
const ANSWERS_AT = 6

/** An SRV record whose name points to the question's, so that ten replicas fit into one packet (1,232 bytes). */
function srvRecord({ address, port }: Upstream): Buffer {
  const labels = spellAddress(address)
    .split('.')
    .map((label) => Buffer.from([label.length, ...Buffer.from(label)]))
  const target = Buffer.concat([...labels, Buffer.from([0])])
  const head = Buffer.alloc(18)
  head.writeUInt16BE(0xc00c, 0)
  head.writeUInt16BE(SRV, 2)
  head.writeUInt16BE(INTERNET, 4) // ttl, priority and weight stay 0
  head.writeUInt16BE(6 + target.length, 10)
  head.writeUInt16BE(port, 16)
  return Buffer.concat([head, target])
}

/** PURE. Undefined when the packet deserves no answer. */
export function answerQuery(packet: Buffer, find: FindUpstreams): Buffer | undefined {
  let query: DecodedPacket
  try {
    query = decode(packet)
  } catch {
    return undefined
  }
  const question = query.questions?.[0]
  if (query.type !== 'query' || !question || query.questions?.length !== 1) return undefined
  const reply = (answers: object[], flags = AUTHORITATIVE): Buffer =>
    encode({
      type: 'response',
      id: query.id ?? 0,
      flags,
      questions: [question],
      answers: answers as Answer[],
    })
  const name = question.name.toLowerCase().replace(/\.$/, '')
  const spelled = SPELLED.exec(name)
  if (question.type === 'A' && spelled) {
    const data = spelled.slice(1).join('.')
    return reply([{ type: 'A', name: question.name, ttl: 0, data }])
  }
  const upstreams = find(name)
  if (!upstreams) return reply([], AUTHORITATIVE | REFUSED)
  if (question.type !== 'SRV') return reply([])
  const answer = Buffer.concat([reply([]), ...upstreams.map(srvRecord)])
  answer.writeUInt16BE(upstreams.length, ANSWERS_AT)
  return answer
}

export function openNameServer(port: number, find: FindUpstreams): Promise<Socket> {
  const socket = createSocket('udp4')
  socket.on('message', (packet, peer) => {
    const answer = answerQuery(packet, find)
    if (answer) socket.send(answer, peer.port, peer.address, () => undefined)
  })
  return new Promise((resolve, reject) => {
    socket.once('error', (error: NodeJS.ErrnoException) =>
      reject(
        error.code === 'EADDRINUSE'
          ? new Error(`UDP port ${port} is held by another process; set BERTH_EDGE_DNS_PORT.`)
          : error,
      ),
    )
    socket.bind(port, '127.0.0.1', () => {
      socket.removeAllListeners('error')
      socket.on('error', () => undefined) // concerns one answer; the client retries
      resolve(socket)
    })
  })
}
