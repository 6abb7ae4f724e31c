// A NUL in a text of a body: PostgreSQL cannot store it and nobody means it, so it is refused by name at the gateway.
// Bodies may be nested as deep as 1 MiB allows; the walk has no recursion.
import { type AppError, invalidFields } from '@berth/shared'

const ESCAPED = '\\u0000'

/** The refusal, or null when there is no NUL. Bodies without its escape are not walked at all. */
export function findNul(text: string, body: unknown): AppError | null {
  if (!text.includes(ESCAPED)) return null
  const open: { at: string; value: unknown }[] = [{ at: '', value: body }]
  for (let next = open.pop(); next; next = open.pop()) {
    const { at, value } = next
    if (typeof value === 'string' && value.includes('\0')) return refuse(at)
    if (value === null || typeof value !== 'object') continue
    for (const [key, item] of Object.entries(value)) {
      if (key.includes('\0')) return refuse(at)
      open.push({ at: at === '' ? key : `${at}.${key}`.slice(0, 200), value: item })
    }
  }
  return null
}

const refuse = (field: string): AppError =>
  invalidFields([
    { field, code: 'invalid_value', message: `${field || 'The body'}: holds a NUL character.` },
  ])
