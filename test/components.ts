// Where a real component is, or why not. Missing under CI=true fails the run; elsewhere it skips with the reason.
import { existsSync, globSync, realpathSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const folders = [
  ...(process.env.PATH ?? '').split(delimiter),
  '/usr/local/sbin',
  '/usr/sbin',
  '/sbin',
  ...globSync('/usr/lib/postgresql/*/bin'),
]
const programs = {
  caddy: ['caddy'],
  chromium: ['chromium', 'chromium-browser', 'google-chrome'],
  docker: ['dockerd'],
  git: ['git'],
  postgres: ['postgres'],
  sshd: ['sshd'],
} as const
export type Component = keyof typeof programs

export function locate(component: Component): string | undefined {
  const given = process.env[`BERTH_${component.toUpperCase()}`]
  if (given) return given
  const found = programs[component].flatMap((p) => folders.map((f) => join(f, p))).find(existsSync)
  return found && realpathSync(found)
}

/** Pass to `describe.skipIf(missing('caddy'))`. */
export function missing(component: Component, env = process.env): boolean {
  if (locate(component)) return false
  if (env.CI === 'true') throw new Error(`${component} is missing, and CI=true`)
  console.warn(`skipped: ${component} is missing (run scripts/host-packages.sh test)`)
  return true
}

/** The engine of this run (setup.ts): `describe.skipIf(!dockerEngine())`. */
export const dockerEngine = (env = process.env): { socket: string; pool: string } | undefined =>
  env.BERTH_TEST_DOCKER && env.BERTH_TEST_DOCKER_POOL
    ? { socket: env.BERTH_TEST_DOCKER, pool: env.BERTH_TEST_DOCKER_POOL }
    : undefined
