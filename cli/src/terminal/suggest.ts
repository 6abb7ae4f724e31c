// "Did you mean": the nearest of the known words, or some of them.
import { CLIENT } from '../limits/client.ts'

/** Edit distance; the words are short, so the whole table is cheap. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1
      next[j] = Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + same)
    }
    row = next
  }
  return row[b.length] ?? 0
}

/** "did you mean pr-42?", or the known words. */
export function suggest(word: string, known: readonly string[], label: string): string | undefined {
  const short = word.slice(0, 100).toLowerCase()
  const near = known
    .map((name) => ({ name, edits: editDistance(short, name.slice(0, 100).toLowerCase()) }))
    .filter(({ name, edits }) => edits <= 2 || name.toLowerCase().includes(short))
    .sort((a, b) => a.edits - b.edits)
    .slice(0, CLIENT.candidates)
  if (near.length > 0) return `did you mean ${near.map(({ name }) => name).join(', ')}?`
  const some = known.slice(0, CLIENT.candidates)
  if (some.length === 0) return undefined
  return `${label}: ${some.join(', ')}${known.length > some.length ? ', …' : ''}`
}
