// What detection sees of a folder: names, and the text of a few files. PURE. Every name that gets from here into a
// written file or a command has passed one of the patterns below, because the text belongs to the repository.

export interface Look {
  /** Files relative to the root, with '/', a few folders deep. */
  paths: ReadonlySet<string>
  /** The text of the files that `isWanted` names. */
  texts: ReadonlyMap<string, string>
}

/** In the order in which compose looks for them. */
export const COMPOSE_NAMES = [
  'compose.yaml',
  'compose.yml',
  'docker-compose.yml',
  'docker-compose.yaml',
] as const

const WANTED = [
  /^(?:Dockerfile|Procfile|package\.json|requirements\.txt|pyproject\.toml|Pipfile|go\.mod|composer\.json)$/,
  /^(?:Gemfile|manage\.py|runtime\.txt|artisan|angular\.json|\.yarnrc\.yml)$/,
  /^\.(?:nvmrc|node-version|python-version|ruby-version)$/,
  /^(?:docker-)?compose\.ya?ml$/,
  /^(?:next|nuxt|astro|svelte|vite)\.config\.(?:js|mjs|cjs|ts|mts)$/,
  /^(?:src\/)?(?:server|index|app|main)\.(?:js|mjs|cjs|ts)$/,
  /^[\w-]+\.py$/,
  /^(?:[\w-]+\/){1,2}(?:settings|base|wsgi|asgi|main|app|__init__)\.py$/,
  /^(?:[\w-]+\.go|cmd\/[\w.-]+\/[\w-]+\.go)$/,
  /^(?:config\/(?:routes|application)\.rb|bootstrap\/app\.php|bin\/rails)$/,
]

/** Whether detection reads this file. */
export const isWanted = (path: string): boolean => WANTED.some((pattern) => pattern.test(path))

export const has = (look: Look, path: string): boolean => look.paths.has(path)

export const textOf = (look: Look, path: string): string => look.texts.get(path) ?? ''

/** The first of these that is there. */
export const firstOf = (look: Look, paths: readonly string[]): string | undefined =>
  paths.find((path) => look.paths.has(path))

export const hasFolder = (look: Look, folder: string): boolean =>
  [...look.paths].some((path) => path.startsWith(`${folder}/`))

const isPort = (value: number): boolean => Number.isInteger(value) && value >= 1 && value <= 65_535

/** Each has the port as its first group. */
const LITERALS = [
  /\.listen\(\s*\{?\s*(?:port:\s*)?(\d{2,5})\b/,
  /ListenAndServe\(\s*"[^":]*:(\d{2,5})"/,
  /\bAddr:\s*"[^":]*:(\d{2,5})"/,
  /\.run\([^)]*\bport\s*=\s*(\d{2,5})\b/,
  /\b(?:const|let|var)\s+port\s*=\s*(\d{2,5})\b/i,
]
const READS_PORT =
  /process\.env(?:\.PORT\b|\[['"]PORT['"]\])|(?:environ(?:\.get)?|getenv|Getenv|LookupEnv|Bun\.env)\W{1,3}['"]?PORT\b/
const PORT_DEFAULT = /\bPORT['"\])]*\s*(?:\|\||\?\?|,)\s*['"]?(\d{2,5})\b/

/** Where the sources say they listen. */
export function listenPort(sources: readonly string[]): { reads: boolean; port: number | null } {
  const text = sources.join('\n')
  const found = [PORT_DEFAULT, ...LITERALS].map((one) => Number(one.exec(text)?.[1] ?? 0))
  return { reads: READS_PORT.test(text), port: found.find(isPort) ?? null }
}

const HEALTH = /['"`](\/(?:healthz?|health-check|livez|readyz|up|api\/health))\/?['"`]/

/** A route of the sources that is made to be checked. */
export const healthRoute = (sources: readonly string[]): string | null =>
  HEALTH.exec(sources.join('\n'))?.[1] ?? null
