// Finds the lines that contain a text or match an expression, and where. Matches the text as displayed. PURE: it runs
// in the worker, and in tests.
import { plainText } from './ansi.ts'

/** Where the first match in a line is. */
type Finder = (text: string) => readonly [number, number] | undefined

/** Throws a SyntaxError for an invalid expression. */
export function finderOf(query: string, isRegex: boolean): Finder {
  if (isRegex) {
    const expression = new RegExp(query, 'i')
    return (text) => {
      const match = expression.exec(text)
      return match && match[0].length > 0 ? [match.index, match.index + match[0].length] : undefined
    }
  }
  const wanted = query.toLowerCase()
  return (text) => {
    const at = text.toLowerCase().indexOf(wanted)
    return at < 0 ? undefined : [at, at + wanted.length]
  }
}

export interface SearchRequest {
  id: number
  query: string
  isRegex: boolean
  /** The number of the first line. */
  first: number
  texts: readonly string[]
}

export interface SearchAnswer {
  id: number
  /** For each match: the line number, the start and the end. */
  found: [number, number, number][]
}

export function searchTexts({ id, query, isRegex, first, texts }: SearchRequest): SearchAnswer {
  const find = finderOf(query, isRegex)
  const found: SearchAnswer['found'] = []
  texts.forEach((text, i) => {
    const at = find(plainText(text))
    if (at) found.push([first + i, at[0], at[1]])
  })
  return { id, found }
}
