// A service to deploy in several ways, and the questions that tests ask about it.
import { AttemptState } from '@berth/shared/wire'
import { expect } from 'vitest'
import type { RunningEdge } from '../../agent/src/exec/proxy/edge.ts'
import type { ProcessRow } from '../../agent/src/journal/ledger.ts'
import { readState, type ServiceState, serviceDir } from '../../agent/src/supervise/instructions.ts'
import { freePort } from '../lab-docker.ts'
import { AgentHost } from './agent-host.ts'
import { type Deployment, eventually, type Repository } from './deployment.ts'
import { portsEdge } from './proxy-host.ts'

export { freePort }

// answers with its deployment; MODE says how it misbehaves
const SERVER = `import { createServer } from 'node:http'
const { MODE, PORT, VERSION } = process.env
console.log('started', VERSION)
if (MODE === 'crash') { console.error('cannot find the database'); process.exit(9) }
const server = createServer((request, response) => {
  if (request.url === '/crash') { response.end('bye'); setTimeout(() => process.exit(3), 20); return }
  if (request.url === '/up' && MODE === 'sick') response.statusCode = 500
  response.end(request.url === '/up' ? 'not well' : VERSION)
})
if (MODE !== 'deaf') server.listen(PORT, '127.0.0.1')
else setInterval(() => undefined, 1000)
process.on('SIGTERM', () => { console.log('stopping', VERSION); process.exit(0) })
`

export interface Shape {
  version: string
  mode?: string
  target?: string
  health?: string
}

/** One server with a repository of that service, as a developer without Caddy has it. */
export class ServiceLab {
  readonly host: AgentHost
  readonly repository: Repository
  readonly #edge: RunningEdge

  private constructor(host: AgentHost, edge: RunningEdge) {
    this.host = host
    this.#edge = edge
    this.repository = host.repository()
    this.repository.commit({ 'server.mjs': SERVER })
  }

  static async open(folder?: string): Promise<ServiceLab> {
    const host = new AgentHost(folder)
    return new ServiceLab(host, await portsEdge(host.settings))
  }

  async close(): Promise<void> {
    await this.host.close()
    this.#edge.close()
  }

  commit({ version, mode = '', target = 'port: auto', health = '/up' }: Shape): void {
    const yaml = `manual:
  deploy: [echo ${version}]
  services:
    web:
      ${target}
      run: exec ${this.host.node} server.mjs
      health: ${health}
      env: { VERSION: ${version}, MODE: "${mode}" }
      stop_timeout: 2s
`
    this.repository.commit({ '.service.yml': yaml }, version)
  }

  /** Deploys what must succeed. */
  async deployed(environmentId: number, shape: Shape): Promise<Deployment> {
    this.commit(shape)
    const deployment = await this.host.deploy(this.repository, { environmentId })
    const verdict = await deployment.verdict()
    expect(verdict.message).toBe('')
    expect(verdict.state).toBe(AttemptState.SUCCEEDED)
    return deployment
  }

  rows(environmentId: number): ProcessRow[] {
    const ledger = this.host.ledger()
    try {
      return ledger.listProcesses(environmentId)
    } finally {
      ledger.close()
    }
  }

  state(environmentId: number, taskId: number): ServiceState | undefined {
    return readState(serviceDir(this.host.settings, { environmentId, service: 'web', taskId }))
  }
}

export const answer = async (port: number | undefined, path = '/'): Promise<string> =>
  (await fetch(`http://127.0.0.1:${port}${path}`)).text()

export const eventuallyAnswers = (port: number | undefined, text: string): Promise<boolean> =>
  eventually(
    () =>
      answer(port).then(
        (said) => said === text,
        () => false,
      ),
    `${text} on ${port}`,
  )
