// Connections that Caddy has not accepted yet when it takes over another configuration: it opens its ports anew and
// closes the former ones, and Linux resets whoever waited there unless it is told to hand them over (5.14 and newer).
import { readFileSync, writeFileSync } from 'node:fs'

const SETTING = '/proc/sys/net/ipv4/tcp_migrate_req'

/** For this network namespace, until the next boot. Undefined: they are handed over. Otherwise why not. */
export function handOverUnaccepted(): string | undefined {
  try {
    if (readFileSync(SETTING, 'utf8').trim() !== '1') writeFileSync(SETTING, '1')
    return undefined
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code === 'ENOENT' ? 'this kernel is older than 5.14' : `${SETTING}: ${code}`
  }
}
