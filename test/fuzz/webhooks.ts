// Sends random and damaged payloads of all six forges to the webhook gateway: signed, so that they get as far as an
// outsider's pull request would, and unsigned. No answer is a fault, nothing unsigned is accepted, every signed one is
// 202 and decided, and no parser throws. A target of `npm run fuzz`.
import { randomUUID } from 'node:crypto'
import { PROVIDERS, type Provider } from '@berth/shared'
import type { WebhookAnswer } from '@berth/shared/api'
import fc from 'fast-check'
import {
  detectProvider,
  parseDelivery,
} from '../../control-plane/src/domain/forges/payloads/detect.ts'
import {
  FIXTURES,
  type Fixture,
} from '../../control-plane/src/domain/forges/payloads/fixtures.testing.ts'
import { type Host, makeHost } from '../fixtures/forge/webhook-sender.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import type { EngineName } from '../fixtures/platform/engines.ts'
import { until } from '../fixtures/server/installation.ts'

export interface WebhookFuzz {
  requests: number
  seed: number
  engine: EngineName
  /** A parser that throws and a gateway that faults on purpose; the fuzzer must notice. */
  planted: boolean
  say: (line: string) => void
}

export interface WebhookCounts {
  parsed: number
  understood: number
  crashes: number
  requests: number
  /** Answers above 499. */
  faults: number
  /** Unsigned and accepted, or signed and refused. */
  wrong: number
  undecided: number
}

const SHOWN = 5
const PARSED_PER_REQUEST = 20
/** More than a busy machine needs. */
const DECISIONS_MS = 30_000
const CHUNK = 200

const HOSTILE: unknown[] = [
  null,
  true,
  0,
  -1,
  2 ** 53,
  1e308,
  '',
  '\u0000',
  '-',
  '--upload-pack=touch /tmp/x',
  'refs/heads/../../etc',
  '0'.repeat(40),
  'f'.repeat(64),
  'x'.repeat(10_000),
  '\ud800',
  '\u202e',
  '9'.repeat(400),
  '0001-01-01T00:00:00Z',
  '99999-01-01T00:00:00Z',
  [],
  {},
  [[[[[[]]]]]],
  { __proto__: null, toString: 1 },
  { id: { id: { id: 1 } } },
]

/** Every path in a payload, as a list of keys. */
function paths(value: unknown, at: (string | number)[] = []): (string | number)[][] {
  if (typeof value !== 'object' || value === null) return [at]
  const inside = Object.entries(value).flatMap(([key, child]) => paths(child, [...at, key]))
  return [at, ...inside]
}

function put(value: unknown, at: (string | number)[], what: unknown, remove: boolean): unknown {
  const [key, ...rest] = at
  if (key === undefined) return what
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<
    string | number,
    unknown
  >
  if (rest.length === 0 && remove) delete copy[key]
  else copy[key] = put(copy[key], rest, what, remove)
  return copy
}

interface Drawn {
  provider: Provider
  headers: Record<string, string>
  payload: unknown
  text: string | undefined
  isForm: boolean
}

function deliveries(): fc.Arbitrary<Drawn> {
  const cut = fc.tuple(fc.nat(), fc.constantFrom(...HOSTILE), fc.boolean())
  const base = fc.constantFrom(...FIXTURES)
  const damaged = fc
    .tuple(base, fc.array(cut, { maxLength: 4 }), fc.boolean())
    .map(([f, cuts, isForm]) => {
      const payload = cuts.reduce<unknown>((value, [n, what, remove]) => {
        const all = paths(value)
        return put(value, all[n % all.length] ?? [], what, remove)
      }, f.payload)
      return drawn(f, payload, undefined, isForm)
    })
  const foreign = fc
    .tuple(base, base)
    .map(([f, other]) => drawn(f, other.payload, undefined, false)) // one forge's body under another's headers
  const raw = fc
    .tuple(base, fc.oneof(fc.json({ maxDepth: 6 }), fc.string({ unit: 'binary', maxLength: 500 })))
    .map(([f, text]) => drawn(f, null, text, false))
  return fc.oneof(
    { arbitrary: damaged, weight: 8 },
    { arbitrary: foreign, weight: 1 },
    { arbitrary: raw, weight: 1 },
  )
}

const drawn = (f: Fixture, payload: unknown, text: string | undefined, isForm: boolean): Drawn => {
  const type = isForm ? 'application/x-www-form-urlencoded' : 'application/json'
  const headers = { ...f.headers, 'content-type': type }
  return { provider: f.provider, headers, payload, text, isForm: isForm && text === undefined }
}

const bodyOf = (d: Drawn): string => {
  const text = d.text ?? JSON.stringify(d.payload) ?? 'null'
  return d.isForm ? `payload=${encodeURIComponent(text.toWellFormed())}` : text
}

function parseAll(all: Drawn[], o: WebhookFuzz, counts: WebhookCounts): void {
  for (const d of all) {
    counts.parsed += 1
    try {
      if (o.planted && bodyOf(d).length % 7 === 0) throw new Error('planted')
      const parsed = parseDelivery({
        provider: detectProvider(d.headers) ?? d.provider,
        headers: d.headers,
        deliveryId: '1',
        body: bodyOf(d),
        isForm: d.isForm,
      })
      if (parsed.ok) counts.understood += 1
    } catch (error) {
      counts.crashes += 1
      if (counts.crashes <= SHOWN) o.say(`${d.provider} threw ${String(error)}: ${bodyOf(d)}`)
    }
  }
}

async function sendOne(host: Host, d: Drawn, o: WebhookFuzz, counts: WebhookCounts): Promise<void> {
  const body = bodyOf(d)
  const isSigned = counts.requests % 4 !== 0
  counts.requests += 1
  const payload = d.text === undefined ? d.payload : undefined
  const made = host.sign(d.provider, d.headers, payload ?? null, {
    id: randomUUID(),
    isForm: d.isForm,
    secret: isSigned ? host.secret : 'another',
    body,
  })
  const headers = { 'content-type': 'application/json', ...made.headers }
  const path = `/webhooks/${host.projectId}`
  const answer = await host.cp.call<WebhookAnswer>('POST', path, made.body, headers)
  const wanted = isSigned ? 202 : 401
  const reported = `${d.provider} ${answer.status} ${answer.text.slice(0, 200)}: ${body.slice(0, 300)}`
  if (answer.status >= 500) {
    counts.faults += 1
    if (counts.faults <= SHOWN) o.say(reported)
  } else if (answer.status !== wanted && answer.status !== 429) {
    counts.wrong += 1
    if (counts.wrong <= SHOWN) o.say(reported)
  }
}

export async function fuzzWebhooks(o: WebhookFuzz): Promise<WebhookCounts> {
  const counts: WebhookCounts = {
    parsed: 0,
    understood: 0,
    crashes: 0,
    requests: 0,
    faults: 0,
    wrong: 0,
    undecided: 0,
  }
  const cp = await TestControlPlane.start(o.engine)
  try {
    await cp.setUp()
    const { id: serverId } = await cp.server()
    const hosts: Host[] = []
    for (const provider of PROVIDERS) {
      const name = provider.replace('_', '-')
      hosts.push(await makeHost(cp, serverId, { name, domain: `${name}.example.com` }))
    }
    if (o.planted) {
      Object.assign(cp.running.ctx, { secretStore: undefined })
    }
    for (let done = 0; done < o.requests; done += CHUNK) {
      const size = Math.min(CHUNK, o.requests - done)
      const seed = o.seed + done
      parseAll(fc.sample(deliveries(), { numRuns: size * PARSED_PER_REQUEST, seed }), o, counts)
      for (const d of fc.sample(deliveries(), { numRuns: size, seed: seed + 1 })) {
        const host = hosts[PROVIDERS.indexOf(d.provider)]
        if (host) await sendOne(host, d, o, counts)
      }
      cp.clock.offsetMs += 61_000 // resets the limit of wrong signatures
    }
    await cp.advance(120_000)
    const { db } = cp.running.ctx
    const listLeft = () =>
      db
        .selectFrom('deliveries')
        .select('id')
        .where((e) => e.or([e('decidedAt', 'is', null), e('outcome', '=', 'error')]))
        .execute()
    // the queue decides in the background
    const isOver = async () => (await listLeft()).length === 0 || undefined
    if (!o.planted) await until('every decision', isOver, DECISIONS_MS).catch(() => undefined)
    const left = await listLeft()
    counts.undecided = left.length
    if (left.length > 0) o.say(`deliveries without a decision: ${left.map((r) => r.id).join(', ')}`)
  } finally {
    await cp.close()
  }
  return counts
}
