// Reads text pasted from a .env file: one KEY=value per line, quotes, `export `, comments. Values stay with the caller.
interface Pasted {
  key: string
  value: string
}

/** The four system names and Berth's own prefix; the server refuses them too. */
const SYSTEM = new Set([
  'SERVICE_DOMAIN',
  'SERVICE_ENV_IDENTIFIER',
  'SERVICE_ENV_TYPE',
  'SERVICE_ENV_BRANCH',
])
export const SYSTEM_NAMES = [...SYSTEM]
export const isReserved = (key: string): boolean => SYSTEM.has(key) || key.startsWith('BERTH_')

const START = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=[ \t]*/

/** The last of two equal keys wins, as in a shell. */
export function readDotenv(text: string): Pasted[] {
  const found = new Map<string, string>()
  const lines = text.replaceAll('\r\n', '\n').split('\n')
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at] ?? ''
    const start = START.exec(line)
    if (!start?.[1]) continue
    let rest = line.slice(start[0].length)
    const quote = rest[0]
    if (quote === '"' || quote === "'") {
      // a quoted value may span lines
      while (closing(rest, quote) < 0 && at + 1 < lines.length) {
        at += 1
        rest += `\n${lines[at]}`
      }
      const end = closing(rest, quote)
      const inside = rest.slice(1, end < 0 ? undefined : end)
      found.set(start[1], quote === '"' ? readEscapes(inside) : inside)
    } else {
      found.set(start[1], rest.replace(/\s+#.*$/, '').trim())
    }
  }
  return [...found].map(([key, value]) => ({ key, value }))
}

function closing(text: string, quote: string): number {
  for (let at = 1; at < text.length; at += 1) {
    if (quote === '"' && text[at] === '\\') at += 1
    else if (text[at] === quote) return at
  }
  return -1
}

const ESCAPES: Record<string, string> = { n: '\n', r: '\r', t: '\t' }
const readEscapes = (text: string): string =>
  text.replaceAll(/\\(.)/g, (_all, c: string) => ESCAPES[c] ?? c)
