// Which value of a key an environment gets: the nearest level that has it wins. Code of a fork gets its environment's own
// variables and those of a level that are marked for forks, nothing else. PURE.
import type { ProjectLevel, VariableLevel } from '@berth/shared/api'

/** What decides which levels reach an environment. */
export interface Reached {
  type: 'pull_request' | 'manual'
  fromFork: boolean
}

/** Levels from near to far. */
export const levelsOf = (type: Reached['type']): readonly VariableLevel[] =>
  type === 'pull_request'
    ? ['environment', 'previews', 'project']
    : ['environment', 'manual', 'project']

/** Levels whose keys can be marked for forks; a fork never has a manual environment. */
export const FORK_LEVELS: readonly VariableLevel[] = ['project', 'previews']

interface Leveled {
  key: string
  level: VariableLevel
  /** Marked for forks; an environment's own variables are set for its very code. */
  forks: boolean
}

export function reaches(row: Leveled, { type, fromFork }: Reached): boolean {
  if (!levelsOf(type).includes(row.level)) return false
  if (!fromFork || row.level === 'environment') return true
  return row.forks && FORK_LEVELS.includes(row.level)
}

interface Effective<Row> {
  row: Row
  /** Farther levels whose value of this key is not used. */
  shadows: ProjectLevel[]
}

/** What an environment gets, sorted by key in code-unit order. */
export function effectiveVariables<Row extends Leveled>(
  rows: readonly Row[],
  environment: Reached,
): Map<string, Effective<Row>> {
  const order = levelsOf(environment.type)
  const near = rows
    .filter((row) => reaches(row, environment))
    .sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level))
  const found = new Map<string, Effective<Row>>()
  for (const row of near) {
    const nearer = found.get(row.key)
    if (!nearer) found.set(row.key, { row, shadows: [] })
    else if (row.level !== 'environment') nearer.shadows.push(row.level)
  }
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)))
}

export interface Fingerprinted extends Leveled {
  fingerprint: string | null
  bytes: number
}

/**
 * Keys whose value an environment gets from elsewhere or with another content. Fingerprints of two levels cannot be
 * compared, so the same text from another level counts as a change.
 */
export function changedKeys(
  before: ReadonlyMap<string, Effective<Fingerprinted>>,
  after: ReadonlyMap<string, Effective<Fingerprinted>>,
): string[] {
  const source = (all: typeof before, key: string): string | undefined => {
    const row = all.get(key)?.row
    return row && `${row.level} ${row.fingerprint}`
  }
  return [...new Set([...before.keys(), ...after.keys()])]
    .filter((key) => source(before, key) !== source(after, key))
    .sort()
}

export const bytesOf = (all: ReadonlyMap<string, Effective<Fingerprinted>>): Map<string, number> =>
  new Map([...all].map(([key, { row }]) => [key, row.bytes]))
