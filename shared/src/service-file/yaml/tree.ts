// Parses YAML into a plain tree with a position at every key and value. Aliases and '<<' are expanded here, node by
// node and counted, so that a bomb is refused before it unfolds; their content is placed where it is used. The YAML
// library converts nothing, so no prototypes, symbols or cycles leave this file. It does not know which keys exist.
import {
  type Alias,
  Composer,
  CST,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  type ParsedNode,
  Parser,
  type YAMLMap,
} from 'yaml'
import { SERVICE_FILE } from '../../limits/limits.ts'
import { join, type Path, type Report, type Span, shown } from '../problem.ts'
import { SECOND_DOCUMENT, unknownAlias, yamlSentence } from './messages.ts'

export interface ScalarNode {
  kind: 'scalar'
  span: Span
  value: string | number | boolean | null
  /** As written, so that a variable's value 1.10 stays 1.10. */
  source: string
}
export interface ListNode {
  kind: 'list'
  span: Span
  items: TreeNode[]
}
export interface MapNode {
  kind: 'map'
  span: Span
  entries: Entry[]
}
export interface Entry {
  key: string
  keySpan: Span
  value: TreeNode
}
export type TreeNode = ScalarNode | ListNode | MapNode

type YamlNode = ParsedNode | null
type Targets = Map<Alias, ParsedNode>

/** Aborts a recursion; thrown while expanding, caught in `readTree`. */
class TooComplex extends Error {
  readonly span: Span

  constructor(span: Span, message: string) {
    super(message)
    this.span = span
  }
}

const TOO_MANY = `it holds more than ${SERVICE_FILE.nodes.toLocaleString('en-US')} values`
const TOO_DEEP = `it nests deeper than ${SERVICE_FILE.depth} levels`
const TOO_MANY_BLANKS = 'it holds too many comments and empty lines'
const TOO_MANY_ALIASES = `it repeats values with '*' more than ${SERVICE_FILE.aliases} times`

/** Undefined if the source is not YAML or too large; the report says which. */
export function readTree(source: string, report: Report): TreeNode | undefined {
  try {
    const document = composeDocument(source, report)
    const targets = new Map<Alias, ParsedNode>()
    if (hasSyntaxErrors(document, source, report)) return undefined
    if (!resolveAliases(document.contents, targets, report)) return undefined
    return expand(document.contents, targets, report)
  } catch (error) {
    // A RangeError is a stack overflow: no known input causes it, but none may crash the caller.
    if (!(error instanceof TooComplex) && !(error instanceof RangeError)) throw error
    const span = error instanceof TooComplex ? error.span : { start: 0, end: 0 }
    const why = error instanceof TooComplex ? error.message : TOO_DEEP
    report.error(span, [], 'too_complex', `the file is too complex: ${why}`)
    return undefined
  }
}

/** Runs the library's three stages and checks the size between them, because composing costs far more than lexing. */
function composeDocument(source: string, report: Report): Document.Parsed {
  const parser = new Parser()
  const tokens: CST.Token[] = []
  let signs = 0
  let blanks = 0
  for (const lexeme of new Lexer().lex(source)) {
    const type = CST.tokenType(lexeme)
    if (type === 'space' || type === 'newline' || type === 'comment') blanks++
    else signs++
    for (const token of parser.next(lexeme)) tokens.push(token)
    const span = { start: parser.offset, end: parser.offset }
    if (signs > SERVICE_FILE.tokens) throw new TooComplex(span, TOO_MANY)
    if (blanks > SERVICE_FILE.blankTokens) throw new TooComplex(span, TOO_MANY_BLANKS)
    if (parser.stack.length > SERVICE_FILE.openConstructs) throw new TooComplex(span, TOO_DEEP)
  }
  for (const token of parser.end()) tokens.push(token)
  const composer = new Composer({
    version: '1.2',
    schema: 'core',
    merge: false, // expanded below, where it is counted
    uniqueKeys: false, // found below, with the line of the first
    resolveKnownTags: false,
    prettyErrors: false,
    logLevel: 'silent',
  })
  const documents = composer.compose(tokens, true, source.length)
  const first = documents.next().value as Document.Parsed // always present because of forceDoc
  const second = documents.next().value
  if (second) {
    const [start] = second.range
    report.error({ start, end: start }, [], 'invalid_yaml', SECOND_DOCUMENT)
  }
  return first
}

/** One problem per line, because later ones on the same line usually follow from the first. */
function hasSyntaxErrors(document: Document.Parsed, source: string, report: Report): boolean {
  const refused = [
    ...document.errors,
    ...document.warnings.filter(({ code }) => code !== 'BAD_ALIAS' && code !== 'BAD_INDENT'),
  ].toSorted((a, b) => a.pos[0] - b.pos[0])
  let lastLine = 0
  for (const error of refused) {
    const [start, end] = error.pos
    const { line } = report.rangeOf({ start, end })
    if (line === lastLine) continue
    lastLine = line
    report.error({ start, end }, [], 'invalid_yaml', yamlSentence(error, source))
  }
  const { version } = document.directives.yaml
  if (version !== '1.2') {
    const message = `YAML ${shown(version)} is not supported; remove the '%YAML' line`
    report.error({ start: 0, end: 0 }, [], 'invalid_yaml', message)
  }
  return report.problems().length > 0
}

/** In document order, because a reused name means the last one above. */
function resolveAliases(root: YamlNode, targets: Targets, report: Report): boolean {
  const anchors = new Map<string, ParsedNode>()
  const open = new Set<ParsedNode>()
  let aliases = 0
  const visit = (node: YamlNode): void => {
    if (!node) return
    if (isAlias(node)) {
      const span = spanOf(node)
      if (++aliases > SERVICE_FILE.aliases) throw new TooComplex(span, TOO_MANY_ALIASES)
      const target = anchors.get(node.source)
      const name = node.source
      if (target === undefined) {
        report.error(span, [], 'invalid_yaml', unknownAlias(name))
      } else if (open.has(target)) {
        report.error(
          span,
          [],
          'invalid_yaml',
          `'*${shown(name)}' stands inside the value it repeats`,
        )
      } else targets.set(node, target)
      return
    }
    if (node.anchor) anchors.set(node.anchor, node)
    open.add(node)
    if (isMap(node)) {
      for (const { key, value } of node.items) {
        visit(key)
        visit(value)
      }
    } else if (isSeq(node)) for (const item of node.items) visit(item as YamlNode)
    open.delete(node)
  }
  visit(root)
  return report.problems().length === 0
}

/** `at`, if set, is the place that repeats or merges the node; problems inside are shown there. */
function expand(root: YamlNode, targets: Targets, report: Report): TreeNode {
  let nodes = 0
  const spend = (span: Span): void => {
    if (++nodes > SERVICE_FILE.nodes) throw new TooComplex(span, TOO_MANY)
  }

  const build = (node: YamlNode, place: Place, path: Path, depth: number): TreeNode => {
    if (isAlias(node)) {
      const at = place.at ?? spanOf(node)
      return build(targets.get(node) ?? null, { ...place, at }, path, depth)
    }
    const span = place.at ?? (node ? spanOf(node) : place.empty)
    spend(span)
    if (!isMap(node) && !isSeq(node)) return scalarOf(node, span)
    if (depth > SERVICE_FILE.depth) throw new TooComplex(span, TOO_DEEP)
    if (isMap(node)) return { kind: 'map', span, entries: entriesOf(node, place.at, path, depth) }
    const items = node.items.map((item, index) =>
      build(item as YamlNode, { at: place.at, empty: span }, [...path, index], depth + 1),
    )
    return { kind: 'list', span, items }
  }

  const entriesOf = (map: YAMLMap, at: Span | null, path: Path, depth: number): Entry[] => {
    const entries = new Map<string, Entry>()
    const own = new Set(map.items.map(({ key }) => keyOf(key as YamlNode, targets)))
    let merged: Span | undefined
    for (const pair of map.items) {
      const key = pair.key as YamlNode
      const value = pair.value as YamlNode
      const keySpan = at ?? (key ? spanOf(key) : { start: map.range?.[0] ?? 0, end: 0 })
      if (isMergeKey(key)) {
        if (merged) reportTwice('<<', keySpan, merged, path, at)
        merged = keySpan
        for (const entry of mergedEntries(value, keySpan, at, path, depth)) {
          if (!own.has(entry.key) && !entries.has(entry.key)) entries.set(entry.key, entry)
        }
        continue
      }
      const name = keyOf(key, targets)
      const first = name === undefined ? undefined : entries.get(name)
      if (name === undefined) {
        report.error(keySpan, path, 'invalid_yaml', 'a key must be text, not a list or a map')
      } else if (first) reportTwice(name, keySpan, first.keySpan, path, at)
      else {
        const place = { at, empty: { start: keySpan.end, end: keySpan.end } }
        const node = build(value, place, [...path, name], depth + 1)
        entries.set(name, { key: name, keySpan, value: node })
      }
    }
    return [...entries.values()]
  }

  // Every source and entry is counted before it is compared, because overridden ones cost time too.
  const mergedEntries = (
    value: YamlNode,
    keySpan: Span,
    at: Span | null,
    path: Path,
    depth: number,
  ): Entry[] =>
    (isSeq(value) ? (value.items as YamlNode[]) : [value]).flatMap((source) => {
      const span = at ?? (source ? spanOf(source) : keySpan)
      spend(span)
      const target = isAlias(source) ? targets.get(source) : source
      if (isMap(target)) return entriesOf(target, isAlias(source) ? span : at, path, depth)
      report.error(span, path, 'invalid_yaml', "'<<' needs a map to merge, or a list of maps")
      return []
    })

  const reportTwice = (key: string, span: Span, first: Span, path: Path, at: Span | null): void => {
    if (at) return // reported at the original
    const where = path.length > 0 ? ` in ${join(path)}` : ''
    const hint = key === '<<' ? "; write one '<<: [*a, *b]'" : ''
    const line = report.rangeOf(first).line
    const message = `'${shown(key)}' is given twice${where} (first on line ${line})${hint}`
    report.error(span, [...path, key], 'duplicate_key', message)
  }

  return build(root, { at: null, empty: { start: 0, end: 0 } }, [], 1)
}

interface Place {
  at: Span | null
  /** Where a missing value would be. */
  empty: Span
}

const spanOf = (node: ParsedNode): Span => ({ start: node.range[0], end: node.range[1] })

const isMergeKey = (key: YamlNode): boolean =>
  isScalar(key) && key.type === 'PLAIN' && key.value === '<<'

function keyOf(key: YamlNode, targets: Targets): string | undefined {
  const node = isAlias(key) ? (targets.get(key) ?? null) : key
  if (node === null) return ''
  return isScalar(node) ? sourceOf(node.value, node.source) : undefined
}

const sourceOf = (value: unknown, source: string | undefined): string =>
  typeof value === 'string' ? value : (source ?? '')

function scalarOf(node: YamlNode, span: Span): ScalarNode {
  const raw: unknown = isScalar(node) ? node.value : null
  const source = sourceOf(raw, isScalar(node) ? node.source : '')
  const known = typeof raw === 'string' || typeof raw === 'number' || typeof raw === 'boolean'
  return { kind: 'scalar', span, value: known ? raw : null, source }
}

// Tolerant lookups for checks that must work on a file with mistakes.

export const entryOf = (node: TreeNode | undefined, key: string): Entry | undefined =>
  node?.kind === 'map' ? node.entries.find((entry) => entry.key === key) : undefined

export const childOf = (node: TreeNode | undefined, key: string): TreeNode | undefined =>
  entryOf(node, key)?.value

export const entriesIn = (node: TreeNode | undefined): Entry[] =>
  node?.kind === 'map' ? node.entries : []

export const textOf = (node: TreeNode | undefined): string | undefined =>
  node?.kind === 'scalar' && typeof node.value === 'string' ? node.value : undefined

export const itemsIn = (node: TreeNode | undefined): TreeNode[] =>
  node?.kind === 'list' ? node.items : []
