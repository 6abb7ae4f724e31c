import { decode, encode } from 'dns-packet'
import { describe, expect, it } from 'vitest'
import { answerQuery, type FindUpstreams, openNameServer } from './name-server.ts'

const page = { address: '127.0.0.1', port: 4_000 }
const replicas = Array.from({ length: 10 }, (_, n) => ({
  address: `10.214.200.${n + 200}`,
  port: 8080,
}))
const LONG = `${'a'.repeat(63)}.${'b'.repeat(63)}.${'c'.repeat(63)}.example.com`
const find: FindUpstreams = (name) => {
  if (!name.endsWith('.berth.internal')) return undefined
  if (name === `${LONG}.berth.internal`) return replicas
  const isKnown = name === 'pr-1.shop.localhost.berth.internal'
  return [isKnown ? { address: '10.214.0.5', port: 80 } : page]
}
const ask = (type: 'A' | 'AAAA' | 'SRV', name: string) => {
  const query = encode({ type: 'query', id: 77, flags: 256, questions: [{ type, name }] })
  const answer = answerQuery(query, find)
  return answer ? decode(answer) : undefined
}

describe('the name server', () => {
  it('answers SRV with a name that spells the address, to be used once', () => {
    const answer = ask('SRV', 'PR-1.shop.localhost.berth.internal')
    expect(answer).toMatchObject({ id: 77, flag_aa: true, rcode: 'NOERROR' })
    expect(answer?.answers).toMatchObject([
      { ttl: 0, data: { port: 80, target: 'ip-10-214-0-5.berth.internal' } },
    ])
  })

  it('names every replica in one packet that the client of Go still reads', () => {
    const query = encode({
      type: 'query',
      id: 1,
      flags: 256,
      questions: [{ type: 'SRV', name: `${LONG}.berth.internal` }],
    })
    const answer = answerQuery(query, find) ?? Buffer.alloc(0)
    expect(answer.length).toBeLessThanOrEqual(1_232)
    expect(decode(answer).answers).toMatchObject(
      replicas.map(({ address, port }) => ({
        name: `${LONG}.berth.internal`,
        type: 'SRV',
        ttl: 0,
        data: { port, target: `ip-${address.replaceAll('.', '-')}.berth.internal` },
      })),
    )
  })

  it('spells addresses back, and has no others', () => {
    const spelled = ask('A', 'ip-10-214-0-5.berth.internal')
    expect(spelled?.answers).toMatchObject([{ type: 'A', ttl: 0, data: '10.214.0.5' }])
    const six = ask('AAAA', 'ip-10-214-0-5.berth.internal')
    expect(six).toMatchObject({ rcode: 'NOERROR', answers: [] })
  })

  it('knows every host: an unknown one is served by the pages', () => {
    const answer = ask('SRV', 'nobody.example.berth.internal')
    expect(answer).toMatchObject({ rcode: 'NOERROR' })
    expect(answer?.answers).toMatchObject([{ data: { port: 4_000 } }])
  })

  it('a host that spells an address leads nowhere but to the pages', () => {
    const answer = ask('SRV', 'ip-10-0-0-1.berth.internal')
    expect(answer?.answers).toMatchObject([{ data: { target: 'ip-127-0-0-1.berth.internal' } }])
  })

  it('refuses names of others and drops what is no question', () => {
    expect(ask('SRV', 'example.com')).toMatchObject({ rcode: 'REFUSED', answers: [] })
    const response = encode({ type: 'response', questions: [{ type: 'A', name: 'x' }] })
    for (const bytes of [
      Buffer.alloc(0),
      Buffer.from('nonsense'),
      Buffer.alloc(512, 255),
      response,
    ]) {
      expect(answerQuery(bytes, find)).toBeUndefined()
    }
  })

  it('says who else holds its port', async () => {
    const first = await openNameServer(0, find)
    const { port } = first.address()
    await expect(openNameServer(port, find)).rejects.toThrow(`UDP port ${port} is held`)
    first.close()
  })
})
