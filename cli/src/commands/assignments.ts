// Parses the `key=value` words of the `set` commands: names are the API's own fields, values are read as the type that
// the field takes. Pure.
import type { z } from 'zod'
import { usage } from '../terminal/exit.ts'
import { suggest } from '../terminal/suggest.ts'

/** The words as pairs; refuses unknown keys. */
export function readSettings(
  words: readonly string[],
  known: readonly string[],
): Record<string, string | undefined> {
  if (words.length === 0) throw usage('nothing to change', `key=value, of: ${known.join(', ')}`)
  const pairs: Record<string, string | undefined> = {}
  for (const word of words) {
    const at = word.indexOf('=')
    if (at < 1) throw usage(`'${word}' is not key=value`)
    const key = word.slice(0, at)
    if (!known.includes(key)) {
      throw usage(`there is no setting '${key}'`, suggest(key, known, 'settings'))
    }
    if (key in pairs) throw usage(`${key} is there twice`)
    pairs[key] = word.slice(at + 1)
  }
  return pairs
}

/** Possible readings of the text, the most specific first. */
function readings(text: string): unknown[] {
  const word = { true: true, false: false, null: null }[text]
  const number = /^-?\d{1,9}$/.test(text) ? [Number(text)] : []
  const list = text === '' ? [] : text.split(',')
  return [...(word === undefined ? [] : [word]), ...number, text, list]
}

export function typedSettings(
  pairs: Readonly<Record<string, string | undefined>>,
  shape: Readonly<Record<string, z.ZodType>>,
  words: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {},
): Record<string, unknown> {
  const settings: Record<string, unknown> = {}
  for (const [key, text] of Object.entries(pairs)) {
    if (text === undefined) continue
    const special = words[key]
    if (special && text in special) settings[key] = special[text]
    else {
      const fits = readings(text).find((value) => shape[key]?.safeParse(value).success)
      settings[key] = fits === undefined ? text : fits // the schema reports what is wrong with it
    }
  }
  return settings
}
