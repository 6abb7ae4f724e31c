// Which program can show a page to the user of this machine, if any. The page's address comes from a server: it is a
// single argument of a fixed program, and must be a web address. Does not wait for the browser.
import type { Io } from './io.ts'

/** The words before the address; undefined: no browser, or it would open on another machine. */
function opener({ platform, env }: Pick<Io, 'platform' | 'env'>): string[] | undefined {
  // over ssh the screen belongs to another machine
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

/** The words that open this page; undefined where the user would not see it. */
export function browserCommand(io: Io, address: string): string[] | undefined {
  if (!io.stdin.isTTY || !io.stderr.isTTY) return undefined
  const words = opener(io)
  if (!words || !URL.canParse(address)) return undefined
  const url = new URL(address)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return undefined
  return [...words, url.href]
}
