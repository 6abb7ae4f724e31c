// A TCP load balancer as people run one: it gives each new connection to the next backend that says it is ready, and
// knows nothing of what it carries. A backend that is not ready keeps the connections it has. If none is ready, all get
// new connections, as with Envoy's panic threshold: they say what is wrong, and the balancer could only be silent.
import { request } from 'node:http'
import { TcpProxy } from '../../fixtures/platform/tcp-proxy.ts'

export interface Backend {
  name: string
  /** Ports on 127.0.0.1, for people and for agents. */
  people: number
  agents: number
}

interface Member extends Backend {
  isReady: boolean
  failures: number
}

const CHECK_MS = 250
const ANSWER_MS = 2_000
const FAILURES = 2 // in a row, as the defaults of common balancers

export class Balancer {
  readonly #members: Member[]
  readonly #turns = { people: 0, agents: 0 }
  readonly #timers: NodeJS.Timeout[] = []
  #fronts: TcpProxy[] = []
  #isClosed = false

  private constructor(backends: readonly Backend[]) {
    this.#members = backends.map((backend) => ({ ...backend, isReady: false, failures: 0 }))
  }

  static async open(
    backends: readonly Backend[],
    ports: { people: number; agents: number },
  ): Promise<Balancer> {
    const balancer = new Balancer(backends)
    balancer.#fronts = [
      await TcpProxy.open(() => balancer.#next('people'), ports.people),
      await TcpProxy.open(() => balancer.#next('agents'), ports.agents),
    ]
    for (const [i, member] of balancer.#members.entries()) balancer.#watch(member, i)
    return balancer
  }

  /** The backends that get new connections. */
  get ready(): string[] {
    return this.#members.filter(({ isReady }) => isReady).map(({ name }) => name)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const timer of this.#timers) clearTimeout(timer)
    await Promise.all(this.#fronts.map((front) => front.close()))
  }

  #next(side: 'people' | 'agents'): { port: number } | undefined {
    const ready = this.#members.filter(({ isReady }) => isReady)
    const members = ready.length > 0 ? ready : this.#members
    this.#turns[side] += 1
    const member = members[this.#turns[side] % members.length]
    return member && { port: member[side] }
  }

  #watch(member: Member, index: number): void {
    const check = async (): Promise<void> => {
      const isGood = await isReady(member.people)
      member.failures = isGood ? 0 : member.failures + 1
      if (isGood) member.isReady = true
      else if (member.failures >= FAILURES) member.isReady = false
      if (!this.#isClosed) this.#timers[index] = setTimeout(() => void check(), CHECK_MS)
    }
    void check()
  }
}

function isReady(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const options = { host: '127.0.0.1', port, path: '/health/ready', agent: false }
    const asked = request({ ...options, timeout: ANSWER_MS }, (answer) => {
      answer.resume()
      answer.once('error', () => resolve(false))
      answer.once('end', () => resolve(answer.statusCode === 200))
    })
    asked.once('timeout', () => asked.destroy(new Error('no answer in time')))
    asked.once('error', () => resolve(false))
    asked.end()
  })
}
