// A process of the bench: many simulated agents. Its parent names the file of its agents, reads counts, and asks for the
// history at the end.
import { readFileSync } from 'node:fs'
import { HistoryWriter } from '../../histories/history.ts'
import { type Fleet, type Identity, SimulatedAgent } from './simulated-agent.ts'

export interface Instructions extends Pick<Fleet, 'endpoint' | 'credentials' | 'lines' | 'runMs'> {
  agents: Identity[]
  /** The first dials are spread over this. */
  rampMs: number
  /** The file of the run's history. */
  history: string
}

export interface Counts {
  active: number
  /** Tries and sessions that ended, by their message. */
  ends: Record<string, number>
  unacknowledged: number
  live: number
}

const instructions = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')) as Instructions
const history = new HistoryWriter(instructions.history, `agents-${process.pid}`)
const ends: Record<string, number> = {}

const fleet: Fleet = {
  ...instructions,
  note: (op) => history.add(op),
  onEnd: ({ message }) => {
    const kind = message.replace(/\d+/g, 'N').slice(0, 120)
    ends[kind] = (ends[kind] ?? 0) + 1
  },
}
const agents = instructions.agents.map((identity) => new SimulatedAgent(identity, fleet))

process.on('message', (what) => {
  if (what === 'count') {
    process.send?.({
      active: agents.filter(({ phase }) => phase === 'active').length,
      ends,
      unacknowledged: agents.reduce((sum, agent) => sum + agent.unacknowledged, 0),
      live: agents.reduce((sum, agent) => sum + agent.live, 0),
    } satisfies Counts)
  } else if (what === 'stop') {
    for (const agent of agents) agent.stop()
    process.exit(0)
  }
})
process.on('disconnect', () => process.exit(1))
process.on('uncaughtException', (error) => {
  console.error(error)
  process.exit(1)
})

for (const agent of agents) void agent.run(Math.random() * instructions.rampMs)
