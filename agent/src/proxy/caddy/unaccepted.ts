// Keeps connections that Caddy has not accepted yet when it loads another configuration. Caddy reopens its ports and
// closes the old ones, and Linux resets waiting connections unless it is configured to migrate them (5.14 and newer).
import { globSync, readFileSync, writeFileSync } from 'node:fs'

const SETTING = '/proc/sys/net/ipv4/tcp_migrate_req'

/** For this network namespace, until the next boot. Undefined when connections are migrated; otherwise the reason. */
export function handOverUnaccepted(): string | undefined {
  try {
    if (readFileSync(SETTING, 'utf8').trim() !== '1') writeFileSync(SETTING, '1')
    return undefined
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code === 'ENOENT' ? 'this kernel is older than 5.14' : `${SETTING}: ${code}`
  }
}

const CONFIGURED = ['/etc/sysctl.conf', '/etc/sysctl.d/*.conf', '/usr/lib/sysctl.d/*.conf']

/** As the kernel has it by default, unless the server's owner configured it. */
export function resetUnaccepted(): void {
  const isOwners = CONFIGURED.flatMap((pattern) => globSync(pattern)).some((file) => {
    try {
      return readFileSync(file, 'utf8').includes('tcp_migrate_req')
    } catch {
      return false
    }
  })
  if (isOwners) return
  try {
    if (readFileSync(SETTING, 'utf8').trim() === '1') writeFileSync(SETTING, '0')
  } catch {
    // this kernel has no such setting
  }
}
