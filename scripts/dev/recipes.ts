// Which recipes the server of `npm start` can run, in one line: which are ready, and how to get the other.
import { existsSync } from 'node:fs'
import { get } from 'node:http'

interface Server {
  recipes: string[]
  parts: { name: string; version: string | null; reason: string | null }[]
}

/** The parts that a recipe cannot do without, in the order in which they are named. */
const NEEDS = { docker: ['docker', 'git'], manual: ['git', 'users'] } as const

const ADVICE: Record<string, string> = {
  docker: 'No Docker engine answers; as root, npm start -- --docker runs a private one.',
  git: 'Install git.',
  users: 'Run npm start as root, or install useradd.',
}

export function describeRecipes({ recipes, parts }: Server): string {
  const isThere = (name: string) => Boolean(parts.find((part) => part.name === name)?.version)
  const names = Object.keys(NEEDS) as (keyof typeof NEEDS)[]
  const ready = names.filter((name) => recipes.includes(name))
  const said = [`${ready.join(' and ') || 'no recipe'} ${ready.length === 1 ? 'is' : 'are'} ready`]
  for (const name of names.filter((one) => !recipes.includes(one))) {
    const missing = NEEDS[name].filter((part) => !isThere(part))
    const why = missing.map((part) => ADVICE[part]).join(' ')
    said.push(`${name} is not: ${why}`)
  }
  const caddy = parts.find((part) => part.name === 'caddy')
  if (!caddy?.version) said.push(`Addresses do not work. ${caddy?.reason ?? ''}`.trim())
  return said.join('; ')
}

const ANSWER_MS = 2_000

/** The engine that the agent would use. */
export async function doesEngineAnswer(): Promise<boolean> {
  const host = /^unix:\/\/(.+)$/.exec(process.env.DOCKER_HOST ?? '')?.[1]
  const socketPath = host ?? '/var/run/docker.sock'
  if (!existsSync(socketPath)) return false
  return new Promise((resolve) => {
    const call = get({ socketPath, path: '/_ping', timeout: ANSWER_MS }, (answer) => {
      answer.resume()
      resolve(answer.statusCode === 200)
    })
    call.on('timeout', () => call.destroy())
    call.on('error', () => resolve(false))
  })
}
