// Which custom variables may be set, and how large they may be together. Errors name the key, never the value.
import { type FieldProblem, REST } from '@berth/shared'
import type { VariableLevel } from '@berth/shared/api'
import { isReservedVariable, RESERVED_PREFIX, VARIABLE_KEY } from '@berth/shared/service-file'
import { displayName } from '../core/display-name.ts'
import { FORK_LEVELS } from './variable-levels.ts'

export type Values = ReadonlyMap<string, string>

const PROBLEMS = 50 // a request full of mistakes must not cause a huge answer

const bytes = (text: string): number => new TextEncoder().encode(text).length

type Wrong = [code: string, message: string]

const NO_KEY: Wrong = [
  'invalid_key',
  'A key starts with a letter or underscore and has letters, digits and underscores, at most 128.',
]

function keyProblem(key: string): Wrong | undefined {
  if (!VARIABLE_KEY.test(key)) return NO_KEY
  if (key.startsWith(RESERVED_PREFIX)) {
    return ['reserved_key', `Keys that start with ${RESERVED_PREFIX} are reserved.`]
  }
  if (isReservedVariable(key)) return ['reserved_key', `${key} is a system variable.`]
  return undefined
}

function valueProblem(key: string, value: unknown): Wrong | undefined {
  if (typeof value !== 'string')
    return ['invalid_value', `The value of ${displayName(key)} is no text.`]
  if (value.includes('\0')) return ['invalid_value', `${displayName(key)} holds a NUL character.`]
  // half a surrogate pair has no encoding of its own and would arrive changed
  if (!value.isWellFormed()) return ['invalid_value', `${displayName(key)} holds half a character.`]
  if (bytes(value) > REST.variableBytes)
    return ['value_too_large', `${displayName(key)} is over 64 KiB.`]
  return undefined
}

/** Checks keys and values one by one. */
export function checkValues(
  given: Record<string, unknown>,
  field: string,
): { values: Values; problems: FieldProblem[] } {
  const values = new Map<string, string>()
  const problems: FieldProblem[] = []
  for (const [key, value] of Object.entries(given)) {
    const at = `${field}.${displayName(key)}`
    for (const wrong of [keyProblem(key), valueProblem(key, value)]) {
      if (wrong) problems.push({ field: at, code: wrong[0], message: wrong[1] })
    }
    if (typeof value === 'string') values.set(key, value)
  }
  return { values, problems: problems.slice(0, PROBLEMS) }
}

/** Checks set and unset together. */
export function checkChange(asked: {
  set?: Record<string, unknown> | undefined
  unset?: readonly string[] | undefined
  generate?: Record<string, unknown> | undefined
  /** Switches of keys, which may be the only change. */
  forks?: Record<string, unknown> | undefined
}): FieldProblem[] {
  const set = asked.set ?? {}
  const unset = new Set(asked.unset ?? [])
  const made = Object.keys(asked.generate ?? {})
  const isEmpty = [...Object.keys(set), ...made, ...Object.keys(asked.forks ?? {})].length === 0
  if (isEmpty && unset.size === 0) {
    const message = 'Nothing is asked: name variables in "set" or "unset".'
    return [{ field: 'set', code: 'empty_change', message }]
  }
  // checked here, because the later "missing" message would repeat the text, which may be a secret
  const noKeys = [...unset]
    .filter((key) => !VARIABLE_KEY.test(key))
    .map((key) => ({ field: `unset.${displayName(key)}`, code: NO_KEY[0], message: NO_KEY[1] }))
  const inBoth = (field: string, keys: string[], others: { has(key: string): boolean }) =>
    keys
      .filter((key) => others.has(key))
      .map((key) => ({
        field: `${field}.${displayName(key)}`,
        code: 'conflicting_key',
        message: `${displayName(key)} is in both lists.`,
      }))
  const given = new Set(Object.keys(set))
  return [
    ...noKeys,
    ...inBoth('set', [...given], unset),
    ...inBoth('generate', made, unset),
    ...inBoth('generate', made, given),
  ].slice(0, PROBLEMS)
}

/** A random value replaces nothing by accident: the old one could not be brought back. */
export function checkNew(
  generate: Record<string, { replace?: boolean | undefined }>,
  existing: { has(key: string): boolean },
): FieldProblem[] {
  return Object.entries(generate)
    .filter(([key, { replace }]) => !replace && existing.has(key))
    .map(([key]) => ({
      field: `generate.${displayName(key)}`,
      code: 'already_set',
      message: `${displayName(key)} is set already. Ask for its replacement, or choose another key.`,
    }))
    .slice(0, PROBLEMS)
}

/** Checks the switches "also for forks": of keys that exist afterwards, and only where forks can be. */
export function checkForks(
  forks: Record<string, boolean>,
  level: VariableLevel,
  existing: { has(key: string): boolean },
): FieldProblem[] {
  const problem = (key: string): Wrong | undefined => {
    if (!VARIABLE_KEY.test(key)) return NO_KEY
    if (!FORK_LEVELS.includes(level)) {
      return ['forks_impossible', 'Forks have no manual environments. Choose project or previews.']
    }
    return existing.has(key) ? undefined : ['not_set', `${key} is not set at this level.`]
  }
  return Object.keys(forks)
    .flatMap((key) => {
      const wrong = problem(key)
      if (!wrong) return []
      return [{ field: `forks.${displayName(key)}`, code: wrong[0], message: wrong[1] }]
    })
    .slice(0, PROBLEMS)
}

/** Checks the resulting set: its number of keys and its total bytes. */
export function limitProblems(
  sizes: ReadonlyMap<string, number>,
  field: string,
  /** Where, if it is not the changed place itself. */
  where = '',
): FieldProblem[] {
  const problems: FieldProblem[] = []
  const total = [...sizes.values()].reduce((sum, size) => sum + size, 0)
  if (sizes.size > REST.variables) {
    const message = `There would be ${sizes.size} variables${where}; at most ${REST.variables} are possible.`
    problems.push({ field, code: 'too_many_variables', message })
  }
  if (total > REST.variablesBytes) {
    const message = `The values${where} would be over 512 KiB together.`
    problems.push({ field, code: 'variables_too_large', message })
  }
  return problems
}

export const sizesOf = (values: Values): Map<string, number> =>
  new Map([...values].map(([key, value]) => [key, bytes(value)]))
