// Refuses a NUL in any text of a body by name, because PostgreSQL cannot store it. Bodies may be nested as deep as 1
// MiB allows, so the walk has no recursion.
import { type AppError, invalidFields } from '@berth/shared'

const ESCAPED = '\\u0000'

/** Returns the refusal, or null if there is no NUL. Bodies without its escape are not walked. */
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
