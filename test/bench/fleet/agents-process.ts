// A process of the bench: many simulated agents. Its parent names the file of its agents, reads counts, and asks for the
// history at the end.
import { createWriteStream, readFileSync } from 'node:fs'
import { type Fleet, type Identity, SimulatedAgent } from './simulated-agent.ts'

export interface Instructions extends Pick<Fleet, 'endpoint' | 'credentials' | 'lines' | 'runMs'> {
  agents: Identity[]
  /** The first dials are spread over this. */
  rampMs: number
  /** JSON lines of what happened to attempts. */
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
const history = createWriteStream(instructions.history)
const ends: Record<string, number> = {}

const fleet: Fleet = {
  ...instructions,
  note: (noted) => void history.write(`${JSON.stringify(noted)}\n`),
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
    history.end(() => process.exit(0))
  }
})
process.on('disconnect', () => process.exit(1))
process.on('uncaughtException', (error) => {
  console.error(error)
  process.exit(1)
})

for (const agent of agents) void agent.run(Math.random() * instructions.rampMs)
