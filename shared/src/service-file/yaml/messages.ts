// Messages for errors of the YAML parser. Its own texts require knowledge of the grammar and are never shown; an error
// that is not listed here still gets a message.
import type { YAMLError } from 'yaml'
import { quoted, shown } from '../problem.ts'

export const SECOND_DOCUMENT =
  "the file must hold one document; remove the second '---' and what follows"

/** First match wins; the pattern matches the parser's text, which the lock file pins. */
const SENTENCES: readonly [code: string, text: RegExp | null, sentence: string][] = [
  ['TAB_AS_INDENT', null, 'a tab cannot indent a line; use spaces'],
  ['BAD_INDENT', /end with a/, "a '[' or '{' that was opened is not closed"],
  ['BAD_INDENT', /same column/, 'the entries of one list or map must start in the same column'],
  ['BAD_INDENT', null, 'the indentation of this line does not fit the lines around it'],
  [
    'BLOCK_AS_IMPLICIT_KEY',
    null,
    "a second ': ' stands on this line; quote the value or begin a new line",
  ],
  ['BLOCK_IN_FLOW', null, 'inside [ ] and { } everything must be written with [ ], { } and commas'],
  ['MISSING_CHAR', /closing.*quote/, 'a quote that was opened is not closed'],
  ['MISSING_CHAR', /followed by map value/, "a key needs ': ' and its value after it"],
  ['MISSING_CHAR', /end with a/, "a '[' or '{' that was opened is not closed"],
  ['MISSING_CHAR', /Missing ,/, 'a comma is missing between two entries'],
  ['MISSING_CHAR', /space after :/, "a space is missing after ':'"],
  ['MISSING_CHAR', /Comments must/, "a space is missing before '#'"],
  ['MISSING_CHAR', /without -/, "an entry of a list must begin with '- '"],
  ['MISSING_CHAR', /directives-end/, "a line that begins with '%' must be followed by '---'"],
  ['MISSING_CHAR', null, 'something is missing here: a quote, a bracket, a comma or a space'],
  ['BAD_SCALAR_START', null, 'text cannot begin with this character unless it is quoted'],
  ['BAD_DQ_ESCAPE', null, "this is no escape of double quotes; write '\\\\' for a backslash"],
  ['MULTILINE_IMPLICIT_KEY', null, "a key and its ':' must stand on one line"],
  ['KEY_OVER_1024_CHARS', null, 'a key cannot be longer than 1,024 characters'],
  ['MULTIPLE_ANCHORS', null, "a value can have one '&' name only"],
  ['MULTIPLE_TAGS', null, 'tags such as !name are not supported'],
  ['TAG_RESOLVE_FAILED', null, 'tags such as !name are not supported'],
  ['BAD_COLLECTION_TYPE', null, 'tags such as !name are not supported'],
  ['ALIAS_PROPS', null, "'*name' repeats a value as it is; it cannot get another name or tag"],
  ['BAD_ALIAS', null, "a name must follow '*' and '&'"],
  ['BAD_PROP_ORDER', null, "'&name' must stand after this character"],
  ['BAD_DIRECTIVE', null, "lines that begin with '%' are not supported"],
]

export function yamlSentence(error: YAMLError, source: string): string {
  for (const [code, text, sentence] of SENTENCES) {
    if (code === error.code && (text === null || text.test(error.message))) return sentence
  }
  const [start, end] = error.pos
  const here = source.slice(start, Math.max(end, start + 1)).trim()
  return here === '' ? 'the file ends or breaks off here' : `${quoted(here)} was not expected here`
}

/** The most common slip: an unquoted glob or wildcard reads as an alias. */
export const unknownAlias = (name: string): string =>
  `'*${shown(name)}' repeats a value named '&${shown(name)}', and there is none above it; ` +
  "quote text that begins with '*'"
