// Numbers and times as people read them. Pure; the clock is an argument.
const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

export function ago(then: number, now: number): string {
  const past = now - then
  const by = Math.abs(past)
  const text =
    by < 10 * SECOND
      ? 'now'
      : by < MINUTE
        ? `${Math.floor(by / SECOND)} s`
        : by < HOUR
          ? `${Math.floor(by / MINUTE)} min`
          : by < 2 * DAY
            ? `${Math.floor(by / HOUR)} h`
            : `${Math.floor(by / DAY)} days`
  if (text === 'now') return past < -SECOND ? 'in a moment' : 'just now'
  return past >= 0 ? `${text} ago` : `in ${text}`
}

/** 0.4s, 12.0s, 1m18s, 2h03m. */
export function duration(ms: number): string {
  if (ms < MINUTE) return `${(ms / SECOND).toFixed(1)}s`
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)}m${two(Math.floor((ms % MINUTE) / SECOND))}s`
  return `${Math.floor(ms / HOUR)}h${two(Math.floor((ms % HOUR) / MINUTE))}m`
}

/** A running clock: 0:43, 12:07, 1:02:09. */
export function clock(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / SECOND))
  const [h, m, s] = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60, seconds % 60]
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`
}

const two = (n: number): string => String(n).padStart(2, '0')

export function bytes(n: number): string {
  if (n < 1_024) return `${n} B`
  const units = ['kB', 'MB', 'GB', 'TB']
  let value = n / 1_024
  let at = 0
  while (value >= 1_000 && at < units.length - 1) {
    value /= 1_024
    at += 1
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[at]}`
}

export const count = (n: number, one: string, many = `${one}s`): string =>
  `${n} ${n === 1 ? one : many}`

export const short = (sha: string | null | undefined): string => sha?.slice(0, 7) ?? ''

/** git@github.com:acme/shop.git and https://github.com/acme/shop.git are both github.com/acme/shop. */
export function repositoryName(url: string): string {
  const scp = /^[\w.-]+@([^:/]+):(.+)$/.exec(url)
  const name = scp ? `${scp[1]}/${scp[2]}` : url.replace(/^\w+:\/\/([^@/]*@)?/, '')
  return name.replace(/\.git\/?$/, '').replace(/\/$/, '')
}

/** The page of a commit; undefined for a forge with unknown addresses. */
export function commitUrl(
  repoUrl: string,
  sha: string,
  provider: string | null,
): string | undefined {
  const name = repositoryName(repoUrl)
  const base = `https://${name.replace(/:\d+(?=\/)/, '')}`
  if (provider === 'gitlab') return `${base}/-/commit/${sha}`
  if (provider === 'bitbucket_cloud') return `${base}/commits/${sha}`
  if (provider === 'github' || provider === 'gitea' || provider === 'forgejo') {
    return `${base}/commit/${sha}`
  }
  return undefined
}

/** The page that compares two commits; undefined for a forge with unknown addresses. */
export function compareUrl(
  repoUrl: string,
  base: string,
  head: string,
  provider: string | null,
): string | undefined {
  const at = `https://${repositoryName(repoUrl).replace(/:\d+(?=\/)/, '')}`
  if (provider === 'gitlab') return `${at}/-/compare/${base}...${head}`
  if (provider === 'bitbucket_cloud') return `${at}/branches/compare/${head}..${base}`
  if (provider === 'github' || provider === 'gitea' || provider === 'forgejo') {
    return `${at}/compare/${base}...${head}`
  }
  return undefined
}

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

/** AL for Ada Lovelace. */
export const initials = (name: string): string => {
  const words = name.trim().split(/\s+/)
  const first = words[0]?.charAt(0) ?? '?'
  const last = words.length > 1 ? (words.at(-1)?.charAt(0) ?? '') : ''
  return (first + last).toUpperCase()
}

const TRIGGERS: Record<string, string> = {
  dashboard: 'from the dashboard',
  api: 'through the API',
  cli: 'with the client',
  mcp: 'by an assistant',
  webhook: 'by a push',
  schedule: 'by its schedule',
  reconcile: 'by a look at the repository',
  system: 'by Berth',
}
export const triggerWords = (trigger: string): string => TRIGGERS[trigger] ?? trigger

const BROWSERS = [
  [/\bEdg\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\bFirefox\//, 'Firefox'],
  [/Chrom(e|ium)\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
] as const
const SYSTEMS = [
  [/\bAndroid\b/, 'Android'],
  [/\b(iPhone|iPad)\b/, 'iOS'],
  [/\bWindows\b/, 'Windows'],
  [/\bMac OS X\b/, 'macOS'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bLinux\b/, 'Linux'],
] as const

/** "Chrome on Linux", by which a user recognises a browser. */
export function browserWords(agent: string | null): string {
  const of = (known: readonly (readonly [RegExp, string])[]) =>
    known.find(([pattern]) => pattern.test(agent ?? ''))?.[1]
  const [browser, system] = [of(BROWSERS), of(SYSTEMS)]
  if (!browser) return agent?.slice(0, 60) || 'unknown'
  return system ? `${browser} on ${system}` : browser
}
