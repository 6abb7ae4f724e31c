// Suggests the known word for a misspelt one: edit distance that counts swapped neighbours once, ignoring case, dashes
// and underscores. If two words are equally near, the first of the table wins; if none is near, there is no suggestion.
const FOREIGN_WORDS: Record<string, string> = {
  environment: 'env',
  variables: 'env',
  healthcheck: 'health',
  health_check: 'health',
  entrypoint: 'command',
  cmd: 'command',
  mem_limit: 'memory',
  working_dir: 'dir',
  workdir: 'dir',
  stop_grace_period: 'stop_timeout',
  release_command: 'release',
  script: 'run',
  host: 'domain',
  hostname: 'domain',
  folder: 'root',
}
const LONGEST_WORD = 40

export function suggest(word: string, known: readonly string[]): string | undefined {
  if (word.length > LONGEST_WORD) return undefined
  if (known.includes(word)) return word
  const foreign = Object.hasOwn(FOREIGN_WORDS, word) ? FOREIGN_WORDS[word] : undefined
  if (foreign !== undefined && known.includes(foreign)) return foreign
  const wanted = level(word)
  let best: string | undefined
  let bestDistance = Math.max(1, Math.floor(wanted.length / 3)) + 1
  for (const candidate of known) {
    const other = level(candidate)
    if (Math.abs(other.length - wanted.length) >= bestDistance) continue
    const distance = editDistance(wanted, other)
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best
}

const level = (word: string): string => word.toLowerCase().replaceAll(/[-_ ]/g, '')

/** Optimal string alignment: insert, delete, replace, swap two neighbours. */
export function editDistance(a: string, b: string): number {
  let before: number[] = []
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      let cost = Math.min(at(row, j) + 1, at(next, j - 1) + 1, at(row, j - 1) + (same ? 0 : 1))
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        cost = Math.min(cost, at(before, j - 2) + 1)
      }
      next.push(cost)
    }
    before = row
    row = next
  }
  return at(row, b.length)
}

const at = (row: readonly number[], index: number): number => row[index] ?? Number.MAX_SAFE_INTEGER
