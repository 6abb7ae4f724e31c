// Generates a function per list of columns that builds a row from database values. A loop over names costs five times as
// much, which takes the list of tasks above its goal (decision 0032). Only plain column names go into the generated
// source; any other name takes the slow path.
type Row = Record<string, unknown>

const PLAIN = /^[A-Za-z][A-Za-z0-9_]*$/

/** From the values of a row in column order. */
export function rowFromValues(names: readonly string[]): (values: readonly unknown[]) => Row {
  if (names.length > 0 && names.every((name) => PLAIN.test(name))) {
    const fields = names.map((name, i) => `${name}: values[${i}]`)
    return new Function('values', `return { ${fields.join(', ')} }`) as (values: object) => Row
  }
  return (values) => Object.fromEntries(names.map((name, i) => [name, values[i]]))
}
