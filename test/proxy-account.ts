// Caddy's account and group of a test's own server: as root Caddy runs as nobody else. Both have names of the test's prefix;
// whoever made them removes them.
import { spawnSync } from 'node:child_process'
import { caddyAccount, ensureCaddyAccount } from '../agent/src/exec/proxy/caddy-account.ts'
import { webGroup } from '../agent/src/exec/proxy/web-group.ts'
import type { AgentSettings } from '../agent/src/settings.ts'

const TRIES = 50
const isRoot = process.getuid?.() === 0

export async function makeProxyAccount(settings: AgentSettings): Promise<void> {
  if (isRoot) await ensureCaddyAccount(settings)
}

/** After the end of Caddy. Others change accounts at the same time, and only one at a time can. */
export function removeProxyAccount(settings: Pick<AgentSettings, 'accountPrefix'>): void {
  if (!isRoot) return
  removeUntilGone('userdel', 'passwd', caddyAccount(settings))
  removeUntilGone('groupdel', 'group', webGroup(settings))
}

function removeUntilGone(program: string, book: 'passwd' | 'group', name: string): void {
  const isThere = (): boolean => spawnSync('getent', [book, name]).status === 0
  for (let tries = 0; isThere() && tries < TRIES; tries += 1) {
    spawnSync(program, [name], { stdio: 'ignore' })
  }
}
