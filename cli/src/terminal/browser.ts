// Which program shows a page to the person at this machine, if there is one. The page's address comes from a server: it
// is one argument of a fixed program, and only an address of the web ever is. Whether it opened is never waited for.
import type { Io } from './io.ts'

/** What stands before the address; undefined: no browser, or it would open somewhere else than here. */
function opener({ platform, env }: Pick<Io, 'platform' | 'env'>): string[] | undefined {
  // over ssh the screen is another machine's
  if (env.SSH_CONNECTION || env.SSH_TTY || env.CI) return undefined
  switch (platform) {
    case 'darwin':
      return ['open']
    case 'win32':
      return ['rundll32', 'url.dll,FileProtocolHandler']
    default:
      return env.DISPLAY || env.WAYLAND_DISPLAY ? ['xdg-open'] : undefined
  }
}

/** The words to run for this page; undefined where nobody would see it. */
export function browserCommand(io: Io, address: string): string[] | undefined {
  if (!io.stdin.isTTY || !io.stderr.isTTY) return undefined
  const words = opener(io)
  if (!words || !URL.canParse(address)) return undefined
  const url = new URL(address)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return undefined
  return [...words, url.href]
}
