// Generates a function per list of columns that builds a row from database values. Building rows in a loop over names
// costs ten times as much and was the largest part of every list. Only plain column names go into the generated source;
// any other name takes the slow path.
type Row = Record<string, unknown>

const PLAIN = /^[A-Za-z][A-Za-z0-9_]*$/

/** `from` locates a column's value in the input: an array index, or another name. */
function writeOut(names: string[], from: readonly (number | string)[]): (given: object) => Row {
  const isPlain = [...names, ...from].every((word) => typeof word === 'number' || PLAIN.test(word))
  if (isPlain && names.length > 0) {
    const fields = names.map((name, i) => `${name}: given[${JSON.stringify(from[i])}]`)
    return new Function('given', `return { ${fields.join(', ')} }`) as (given: object) => Row
  }
  return (given) => {
    const row: Row = {}
    names.forEach((name, i) => {
      row[name] = (given as Row)[from[i] as string]
    })
    return row
  }
}

/** From the values of a row in column order. */
export const rowFromValues = (names: string[]): ((values: unknown[]) => Row) =>
  writeOut(
    names,
    names.map((_, i) => i),
  )

/** From a row with other names. */
export const rowFromRow = (columns: string[], names: string[]): ((row: Row) => Row) =>
  writeOut(names, columns)
