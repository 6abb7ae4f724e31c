// Judges what a project needs: takes facts, returns a verdict for each, and a remedy for every ✗. Pure; the clock is an
// argument. A fact that could not be checked counts as failed.

import type { Recipe } from '@berth/shared'
import type {
  Delivery,
  ProjectDetail,
  ProjectForge,
  PullRequest,
  RefusedDelivery,
  RepositoryCheck,
  Server,
} from '@berth/shared/api'
import { TASKS } from '@berth/shared/limits'
import { formatAgo, formatBytes } from '../../terminal/format.ts'

export interface Check {
  name: string
  ok: boolean
  text: string
  /** What to do; only for a failed check. */
  remedy: string | null
}

const good = (name: string, text: string): Check => ({ name, ok: true, text, remedy: null })
const bad = (name: string, text: string, remedy: string): Check => ({
  name,
  ok: false,
  text,
  remedy,
})

export function unlooked(name: string, reason: string): Check {
  return bad(name, `could not be looked at: ${reason}`, 'ask an administrator, or try again')
}

export function checkAgent(server: Server, now: number): Check {
  const name = `agent of ${server.name}`
  if (server.status === 'pending') {
    const remedy = `berth server join-token ${server.name} prints the command to run on it`
    return bad(name, 'it has never joined', remedy)
  }
  if (server.status !== 'online') {
    const since =
      server.last_seen_at === null ? '' : `, seen ${formatAgo(server.last_seen_at, now)}`
    const remedy = `on ${server.hostname}: systemctl restart berth-agent`
    return bad(name, `${server.status}${since}`, remedy)
  }
  if (server.agent_outdated) {
    const remedy = `on ${server.hostname}: run install.sh again, without a token`
    return bad(name, `agent ${server.agent_version} is older than the control plane`, remedy)
  }
  if (server.paused) return bad(name, 'paused: it takes no new tasks', 'resume it in the dashboard')
  return good(name, `online, agent ${server.agent_version ?? '?'}`)
}

export function checkRepository(found: RepositoryCheck, project: ProjectDetail): Check {
  const name = 'repository'
  if (found.reachable) {
    return good(name, `${project.repo_url} can be read, default branch ${found.default_branch}`)
  }
  const said = found.error?.message ?? 'the host gave no reason'
  const remedy =
    found.error?.code === 'host_key_changed'
      ? `berth project trust-host-key ${project.name}`
      : `add this deploy key (read-only) at the host: ${project.repo_public_key}`
  return bad(name, said, remedy)
}

export function checkServiceFile(found: RepositoryCheck): Check {
  const name = '.service.yml'
  const file = found.service_file
  if (file === null) return unlooked(name, 'the repository could not be read')
  if (!file.found) {
    const text = `there is none on ${found.default_branch ?? 'the default branch'}`
    return bad(name, text, 'berth config init writes one that fits')
  }
  const [first, ...more] = file.errors
  if (!first) return good(name, 'valid')
  const rest = more.length === 0 ? '' : ` (and ${more.length} more)`
  const text = `line ${first.line}: ${first.message}${rest}`
  return bad(name, text, 'berth config validate shows all of it')
}

/** What a recipe cannot do without, by the names that agents give. */
const RECIPE_PARTS = { docker: ['docker', 'git'], manual: ['git', 'users'] } as const

/** Why a server cannot run a recipe, in its own words; '' if it does not say. */
export function recipeReason(server: Pick<Server, 'parts'>, recipe: Recipe): string {
  const missing = RECIPE_PARTS[recipe].map((name) => server.parts.find((one) => one.name === name))
  return missing.find((one) => one?.version === null)?.reason ?? ''
}

/** Recipe, file and engine must fit together before the first deployment. `servers`: those that could be read. */
export function checkRecipe(
  found: RepositoryCheck | null,
  project: Pick<ProjectDetail, 'name' | 'default_recipe'>,
  servers: readonly Pick<Server, 'name' | 'recipes' | 'parts'>[],
): Check {
  const name = 'recipe'
  const recipe = project.default_recipe
  const other = recipe === 'docker' ? 'manual' : 'docker'
  const sections = found?.service_file?.found ? found.service_file.recipes : []
  const edit = (wanted: string): string => `berth project edit ${project.name} --recipe ${wanted}`
  if (sections.length > 0 && !sections.includes(recipe)) {
    const text = `the project uses the ${recipe} recipe, and .service.yml has only '${other}:'`
    return bad(name, text, edit(other))
  }
  // a server that has not told yet is no reason to worry
  const unable = servers.find(({ recipes }) => recipes.length > 0 && !recipes.includes(recipe))
  if (!unable) {
    const known = sections.length > 0 ? ', which .service.yml has' : ''
    const where = servers.map((server) => server.name).join(', ')
    return good(name, `${recipe}${known}${where === '' ? '' : `, and ${where} can run it`}`)
  }
  const reason = recipeReason(unable, recipe)
  const text = `${unable.name} cannot run the ${recipe} recipe${reason ? `: ${reason}` : ''}`
  const isOther =
    unable.recipes.includes(other) && (sections.length === 0 || sections.includes(other))
  const install = recipe === 'docker' ? `install Docker on ${unable.name}` : `run its agent as root`
  const remedy = isOther
    ? sections.includes(other)
      ? `${edit(other)}, or ${install}`
      : `berth config init --recipe ${other} --force, then ${edit(other)}; or ${install}`
    : `${install}, or choose another server: berth project edit ${project.name} --server SERVER`
  return bad(name, text, remedy)
}

export function checkAddress(
  domain: string,
  servers: readonly { name: string; addresses: readonly string[] }[],
  found: readonly string[],
): Check {
  const name = 'DNS'
  const host = `berth-check.${domain}`
  const leads = servers.find((server) => server.addresses.some((one) => found.includes(one)))
  if (leads) return good(name, `${host} leads to ${leads.name}`)
  const wanted = servers.map((s) => `${s.name} (${s.addresses.join(', ') || '?'})`).join(' or ')
  const text =
    found.length === 0 ? `${host} has no address` : `${host} leads to ${found.join(', ')}`
  return bad(name, text, `point *.${domain} at ${wanted}`)
}

const DISTURBING = ['repository_mismatch', 'malformed_payload', 'unsupported_event']

/** What the control plane found at the forge, and the command that repairs it. */
export function checkForge(project: ProjectDetail, { checks }: ProjectForge): Check[] {
  return checks.map(({ name, status, message, permission }) => {
    const shown = `forge ${name.replace('_', ' ')}`
    if (status !== 'failed') return good(shown, message)
    const again = `berth project connect ${project.name}`
    const remedy =
      permission === null
        ? `${again} repairs what can be repaired`
        : `give a token with: ${permission}; then ${again} --with-token`
    return bad(shown, message, remedy)
  })
}

export function checkWebhook(
  project: ProjectDetail,
  last: Delivery | undefined,
  refused: RefusedDelivery | undefined,
  now: number,
): Check {
  const name = 'webhook'
  const { webhook } = project
  const at = webhook.last_delivery_at
  const rotate = `berth project webhook ${project.name} --rotate-secret makes a new secret`
  if (refused && (at === null || refused.at > at)) {
    const when = formatAgo(refused.at, now)
    return bad(
      name,
      `a delivery from ${refused.address} was refused ${when}: ${refused.reason}`,
      rotate,
    )
  }
  if (at === null) {
    const remedy = `add ${webhook.url} at the host: JSON, pushes and pull requests`
    return bad(name, 'no delivery ever came', remedy)
  }
  if (webhook.last_delivery_secret !== 'current') {
    const which = webhook.last_delivery_secret === 'legacy' ? 'legacy' : 'former'
    return bad(name, `the last delivery was signed with the ${which} secret`, rotate)
  }
  if (last?.rule && DISTURBING.includes(last.rule)) {
    const text = `the last delivery was ignored (${last.rule}): ${last.reason ?? ''}`
    return bad(name, text.trim(), 'choose JSON, pushes and pull requests of this repository')
  }
  const rule = last?.outcome === 'ignored' && last.rule ? `, ignored by ${last.rule}` : ''
  return good(name, `verified ${formatAgo(at, now)}${rule}`)
}

/** The SSH port that its agent opened. */
export const sshPortOf = (server: Server): number => server.ssh?.port ?? server.ssh_port

export function checkSshPort(server: Server, failure: string | null): Check {
  const name = `SSH to ${server.name}`
  const where = `${server.hostname}:${sshPortOf(server)}`
  if (server.ssh?.state === 'off') {
    const remedy =
      'berth logs and berth ssh cannot work: set up SSH on the server, then restart its agent'
    return bad(name, server.ssh.reason ?? 'SSH is off on this server', remedy)
  }
  if (failure === null) return good(name, `${where} answers`)
  const text = `${where} is not reachable from here (${failure})`
  return bad(name, text, 'berth logs and berth ssh will not work from this machine: open the port')
}

export function checkDiskSpace(server: Server): Check {
  const name = `room on ${server.name}`
  const { facts } = server
  if (!facts) return unlooked(name, 'its agent has not told yet')
  const needed = TASKS.acceptFreeBytes
  const free = `${formatBytes(facts.disk_free_bytes)} of ${formatBytes(facts.disk_bytes)} free`
  const memory = `${formatBytes(facts.memory_bytes)} memory`
  if (facts.disk_free_bytes >= needed) return good(name, `${free}, ${memory}`)
  const remedy = `make room on ${server.hostname}, or remove environments`
  return bad(name, `${free}, ${formatBytes(needed)} needed`, remedy)
}

export function checkLimit(project: ProjectDetail, waiting: readonly PullRequest[]): Check {
  const name = 'environments'
  const used = `${project.environment_count} of ${project.environment_limit} used`
  if (project.environment_count < project.environment_limit) return good(name, used)
  const line = waiting.filter((one) => one.waiting_for === 'environment_limit')
  const who = line.length === 0 ? '' : `; waiting: ${line.map((p) => `#${p.number}`).join(', ')}`
  return bad(name, `${used}${who}`, 'berth env delete frees a place; an administrator may raise it')
}
