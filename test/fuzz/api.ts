// Sends the API requests drawn from its own document and beyond it: a control plane in this process, real HTTP, every
// role of three organizations, a platform administrator, a machine, an anonymous caller. Counts faults, undocumented
// answers and rows written by GET. A fresh installation each round keeps lists short.
import { Agent, request as httpRequest } from 'node:http'
import fc from 'fast-check'
import { sql } from 'kysely'
import { continueKeyRotations } from '../../control-plane/src/app/installation/data-key-rotation.ts'
import type { Document } from '../../control-plane/src/gateways/rest/reference/openapi.ts'
import { Contract, type SeenAnswer } from '../contract/contract.ts'
import { differences, snapshot } from '../fixtures/platform/database-snapshot.ts'
import type { EngineName } from '../fixtures/platform/engines.ts'
import { Tenants } from '../fixtures/tenants/organizations.ts'
import { type FuzzRequest, requestsOf } from './requests.ts'

export interface ApiFuzz {
  requests: number
  seed: number
  engine: EngineName
  /** Breaks the control plane on purpose; the fuzzer must notice each kind. */
  planted: boolean
  say: (line: string) => void
}

export interface ApiCounts {
  requests: number
  operations: number
  /** The smallest number of requests of an operation. */
  fewest: number
  accepted: number
  faults: number
  outside: number
  writesByGet: number
}

const ROUND = 4_000
const BATCH = 400
const CALM_LOOKS = 50
const CALM_MS = 100
const LANES = 8
const SHOWN = 10
const ANSWER_MS = 20_000

export async function fuzzApi(options: ApiFuzz): Promise<ApiCounts> {
  const counts: ApiCounts = {
    requests: 0,
    operations: 0,
    fewest: 0,
    accepted: 0,
    faults: 0,
    outside: 0,
    writesByGet: 0,
  }
  const perOperation = new Map<string, number>()
  let shown = 0
  const say = (line: string): void => {
    shown += 1
    if (shown <= SHOWN) options.say(line)
  }
  for (let round = 0; counts.requests < options.requests; round++) {
    const size = Math.min(ROUND, options.requests - counts.requests)
    const run = await Round.open(options, counts, perOperation, say)
    try {
      await run.play(size, options.seed + round)
    } finally {
      await run.close()
    }
  }
  counts.operations = perOperation.size
  counts.fewest = Math.min(...perOperation.values())
  return counts
}

class Round {
  readonly #tenants: Tenants
  readonly #contract: Contract
  readonly #agent = new Agent({ keepAlive: true, maxSockets: LANES })
  readonly #tokens: string[]
  readonly #options: ApiFuzz
  readonly #counts: ApiCounts
  readonly #perOperation: Map<string, number>
  readonly #say: (line: string) => void

  private constructor(
    tenants: Tenants,
    options: ApiFuzz,
    counts: ApiCounts,
    perOperation: Map<string, number>,
    say: (line: string) => void,
  ) {
    this.#tenants = tenants
    this.#options = options
    this.#counts = counts
    this.#perOperation = perOperation
    this.#say = say
    const { document } = tenants.cp.contract
    this.#contract = options.planted ? new Contract(narrowed(document)) : tenants.cp.contract
    const people = tenants.organizations.flatMap((o) => Object.values(o.tokens))
    this.#tokens = [...people, tenants.admin, tenants.admin, tenants.machine, '']
  }

  static async open(
    options: ApiFuzz,
    counts: ApiCounts,
    perOperation: Map<string, number>,
    say: (line: string) => void,
  ): Promise<Round> {
    const tenants = await Tenants.build(options.engine)
    // their agents are not connected: "server offline" would be a correct answer, but a 503
    const { db, clock } = tenants.cp.running.ctx
    await db.updateTable('artifacts').set({ expiresAt: clock.now() }).execute()
    if (options.planted) await plant(tenants)
    return new Round(tenants, options, counts, perOperation, say)
  }

  async close(): Promise<void> {
    this.#agent.destroy()
    await this.#tenants.cp.close()
  }

  /** Alternates reads and writes, so that a row written by a read is noticed. */
  async play(size: number, seed: number): Promise<void> {
    const all = requestsOf(this.#contract.document, this.#tokens.length)
    const reads = [...all].filter(([name]) => name.startsWith('GET '))
    const writes = [...all].filter(([name]) => !name.startsWith('GET '))
    const { db } = this.#tenants.cp.running.ctx
    for (let done = 0; done < size; done += BATCH) {
      const half = Math.ceil(Math.min(BATCH, size - done) / 2)
      await this.#run(draw(writes, half, seed * 1_000 + done))
      const before = await this.#calm()
      // the planted write depends on a time of last use, which is updated once a minute
      if (this.#options.planted) this.#tenants.cp.clock.offsetMs += 61_000
      await this.#run(draw(reads, half, seed * 1_000 + done + 1))
      const changed = differences(before, await snapshot(db, this.#options.engine))
      if (changed.length > 0) {
        this.#counts.writesByGet += 1
        this.#say(`a GET wrote to ${changed.join(', ')}`)
      }
    }
  }

  /** The rows once only requests change them: no repository check, no key rotation and no notification is on its way. */
  async #calm(): Promise<Map<string, string>> {
    const { ctx } = this.#tenants.cp.running
    const { db } = ctx
    await continueKeyRotations(ctx)
    await db.updateTable('projects').set({ reconcileAt: Number.MAX_SAFE_INTEGER }).execute()
    // no receiver is there, so notifications would be tried again and again
    await db.updateTable('notices').set({ status: 'skipped', nextAt: null }).execute()
    const take = () => snapshot(db, this.#options.engine)
    let before = await take()
    for (let n = 0; n < CALM_LOOKS; n++) {
      await new Promise((resolve) => setTimeout(resolve, CALM_MS))
      const after = await take()
      if (differences(before, after).length === 0) return after
      before = after
    }
    return before
  }

  async #run(requests: { name: string; request: FuzzRequest }[]): Promise<void> {
    const queue = requests.values()
    const lane = async (): Promise<void> => {
      for (const { name, request } of queue) await this.#try(name, request)
    }
    await Promise.all(Array.from({ length: LANES }, lane))
  }

  async #try(name: string, request: FuzzRequest): Promise<void> {
    const token = this.#tokens[request.actor] ?? ''
    this.#counts.requests += 1
    this.#perOperation.set(name, (this.#perOperation.get(name) ?? 0) + 1)
    const answer = await this.#send(request, token).catch((error: Error) => error)
    if (answer instanceof Error) {
      this.#counts.faults += 1
      this.#say(`${answer.message}: ${request.method} ${request.path}`)
      return
    }
    if (answer.status >= 200 && answer.status < 300) this.#counts.accepted += 1
    const what = `${request.method} ${request.path} ${request.body ?? ''}`.slice(0, 400)
    if (answer.status >= 500 && !(await this.#isOffline(request, token, answer))) {
      this.#counts.faults += 1
      this.#say(`${answer.status}: ${what}`)
    }
    if (answer.text === CUT) return // a followed log: only its head is checked
    const problems = this.#contract.problems(request.method, request.path, answer)
    if (problems.length > 0) {
      this.#counts.outside += 1
      this.#say(`${answer.status} ${problems.slice(0, 3).join('; ')}: ${what}`)
    }
  }

  /** No agent is connected, and a request that needs one says so; the answer to HEAD has no text, that to GET has. */
  async #isOffline(request: FuzzRequest, token: string, answer: SeenAnswer): Promise<boolean> {
    if (answer.status !== 503) return false
    const told =
      request.method === 'HEAD' ? await this.#send({ ...request, method: 'GET' }, token) : answer
    return told.status === 503 && told.text.includes('"server_offline"')
  }

  #send(request: FuzzRequest, token: string): Promise<SeenAnswer> {
    const url = new URL(this.#tenants.cp.url)
    return new Promise((resolve, reject) => {
      const sent = httpRequest(
        {
          host: url.hostname,
          port: url.port,
          agent: this.#agent,
          method: request.method,
          path: request.path,
          timeout: ANSWER_MS,
          headers: {
            ...(token ? { authorization: `Bearer ${token}` } : {}),
            'x-forwarded-for': this.#tenants.address(),
            ...request.headers,
            ...(request.body === undefined
              ? {}
              : { 'content-length': Buffer.byteLength(request.body) }),
          },
        },
        (answer) => {
          const headers = new Headers()
          for (const [key, value] of Object.entries(answer.headers)) headers.set(key, String(value))
          const status = answer.statusCode ?? 0
          if (status === 200 && /[?&]follow=true/.test(request.path)) {
            resolve({ status, headers, text: CUT })
            answer.destroy()
            return
          }
          const parts: Buffer[] = []
          answer.on('data', (part: Buffer) => parts.push(part))
          answer.on('end', () =>
            resolve({ status, headers, text: Buffer.concat(parts).toString() }),
          )
          answer.on('error', reject)
        },
      )
      sent.on('timeout', () => sent.destroy(new Error(`no answer: ${request.path}`)))
      sent.on('error', reject)
      sent.end(request.body)
    })
  }
}

const CUT = '\0cut'

/** Each operation in turn, so that all get their share. */
function draw(
  operations: [string, fc.Arbitrary<FuzzRequest>][],
  count: number,
  seed: number,
): { name: string; request: FuzzRequest }[] {
  const share = Math.ceil(count / operations.length)
  const drawn = operations.map(([name, arbitrary], n) =>
    fc
      .sample(arbitrary, { numRuns: share, seed: seed + n * 7_919 })
      .map((request) => ({ name, request })),
  )
  const turns = Array.from({ length: share }, (_, n) => drawn.flatMap((list) => list[n] ?? []))
  return turns.flat().slice(0, Math.max(count, operations.length))
}

/** A document without a field that every list of projects has. */
function narrowed(document: Document): Document {
  const copy = structuredClone(document)
  const project = copy.components.schemas?.Project as { properties: Record<string, object> }
  delete project.properties.domain
  return copy
}

/** Breaks the control plane from outside: a fault when a project is created, and a write with each read. */
async function plant(tenants: Tenants): Promise<void> {
  const { secretStore, db } = tenants.cp.running.ctx
  secretStore.seal = () => {
    throw new Error('planted')
  }
  await sql`create trigger planted after update of last_used_at on tokens begin
    update organizations set name = name || '!'; end`.execute(db)
}
