// Shows the person who pushes to the forge of `npm start` what Berth does with it.
import type { Api } from './example.ts'
import { until } from './example.ts'
import type { Outcome } from './forge/deliveries.ts'
import type { Follow } from './forge/forge.ts'

interface Task {
  id: number
  type: string
  status: string
  environment_id: number
  started_at: string | null
  finished_at: string | null
  failure: { message: string; step: string | null } | null
}
interface Environment {
  identifier: string
  url: string | null
}

const ENDED = ['succeeded', 'failed', 'canceled']

const readOr = <T>(promise: Promise<T>): Promise<T | undefined> => promise.catch(() => undefined)

export function followWith(api: () => Api | undefined): Follow {
  return async (event, first, say) => {
    const berth = api()
    if (!berth) return
    const outcome = await decided(berth, first)
    if (outcome.task_ids.length === 0) {
      // a push to a branch without an environment is nothing special
      if (event.kind === 'pull_request' && outcome.reason) say(outcome.reason)
      return
    }
    for (const id of outcome.task_ids) await followTask(berth, id, say)
  }
}

/** Berth answers a delivery within a second; if it needs longer, the decision is in its ledger. */
const decided = (api: Api, first: Outcome): Promise<Outcome> =>
  first.outcome !== 'received'
    ? Promise.resolve(first)
    : until('the decision', async () => {
        const row = await api.get<Outcome>(`/api/deliveries/${first.delivery}`)
        return row.outcome === 'received' ? undefined : row
      })

async function followTask(api: Api, id: number, say: (line: string) => void): Promise<void> {
  const task = await readOr(api.get<Task>(`/api/tasks/${id}`))
  const path = `/api/environments/${task?.environment_id}`
  const name = (await readOr(api.get<Environment>(path)))?.identifier ?? 'the environment'
  say(`${task?.type === 'destroy' ? 'Removing' : 'Deploying'} ${name} …`)
  const { now } = await until('the task', async () => {
    const now = await readOr(api.get<Task>(`/api/tasks/${id}`))
    // a removed environment takes its tasks along
    return now === undefined || ENDED.includes(now.status) ? { now } : undefined
  })
  if (task?.type === 'destroy') return say(`${name} is gone.`)
  if (now?.status === 'succeeded') {
    // known since its first deployment
    return say(`${name} runs: ${(await readOr(api.get<Environment>(path)))?.url}`)
  }
  const why = now?.failure ? `${now.failure.step ?? 'It'} failed: ${now.failure.message}` : ''
  say(`${name} was not deployed. ${why}`.trim())
}
