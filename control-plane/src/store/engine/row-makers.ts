// Functions that make a row of what a database gave, one for each list of columns. They are written out as source, once:
// a row made property by property, in a loop over names, costs ten times as much and was the largest part of every list.
// Only plain names of columns go into the source; whatever else a statement may call a column takes the slow way.
type Row = Record<string, unknown>

const PLAIN = /^[A-Za-z][A-Za-z0-9_]*$/

/** `from` is where the value of a column stands in what was given: a place in an array, or another name. */
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

/** From the values of a row in the order of its columns. */
export const rowFromValues = (names: string[]): ((values: unknown[]) => Row) =>
  writeOut(
    names,
    names.map((_, i) => i),
  )

/** From a row with other names. */
export const rowFromRow = (columns: string[], names: string[]): ((row: Row) => Row) =>
  writeOut(names, columns)
