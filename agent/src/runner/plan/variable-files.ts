// Writes variables to files and reads them back. PURE. The shell form is ours (commands and services get their
// variables from it), the dotenv form is for programs that read a file. No imports, because a supervisor loads little
// else.
export type Values = ReadonlyMap<string, string>

/** In a container: gives the command that follows it the variables of its service. */
export const LAUNCH = '/run/berth/launch.sh'

export const quoteShell = (value: string): string => `'${value.replaceAll("'", "'\\''")}'`

/** `KEY='value'`: a shell reads back any text without NUL, including newlines. */
export const renderShellFile = (values: Values): string =>
  [...values].map(([key, value]) => `${key}=${quoteShell(value)}\n`).join('')

const BARE = /^[A-Za-z0-9_./:@%+,=-]+$/
const ESCAPES: Record<string, string> = {
  '\\': '\\\\',
  '"': '\\"',
  '\n': '\\n',
  '\r': '\\r',
  '`': '\\`',
  $: '\\$',
}

/** For programs that read a dotenv file; plain values stay unquoted, since some readers do not parse quotes. */
export const renderEnvFile = (values: Values): string =>
  [...values]
    .map(([key, value]) => {
      const text = BARE.test(value)
        ? value
        : `"${value.replaceAll(/[\\"\n\r`$]/g, (c) => ESCAPES[c] ?? c)}"`
      return `${key}=${text}\n`
    })
    .join('')

/**
 * Reads the output of renderShellFile. Throws on anything else, so that a damaged file never starts a half-configured
 * service.
 */
export function parseShellFile(text: string): Map<string, string> {
  const values = new Map<string, string>()
  let at = 0
  while (at < text.length) {
    const head = /^([A-Za-z_][A-Za-z0-9_]{0,127})='/.exec(text.slice(at, at + 132))
    if (!head) throw new Error(`The variable file is damaged at character ${at}.`)
    at += head[0].length
    let value = ''
    for (;;) {
      const quote = text.indexOf("'", at)
      if (quote < 0) throw new Error('The variable file ends inside a value.')
      value += text.slice(at, quote)
      at = quote + 1
      if (!text.startsWith("\\''", at)) break
      value += "'"
      at += 3
    }
    if (text[at] !== '\n') throw new Error(`The variable file is damaged at character ${at}.`)
    at += 1
    values.set(head[1] as string, value)
  }
  return values
}
