// Writes docs/reference/service-file-keys.md: every key of .service.yml, from the schema that checks it. `npm run gen`
// runs it, and a test fails when the page is not what it would write.
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { jsonSchema } from '../shared/src/service-file/index.ts'

export const KEYS_PAGE = fileURLToPath(
  new URL('../docs/reference/service-file-keys.md', import.meta.url),
)

const HEAD = `# Every key of .service.yml

Generated from the schema by \`npm run gen\`. [The reference](service-file.md) explains the keys with examples;
\`berth config validate\` checks a file.
`

interface Node {
  $ref?: string
  type?: string
  description?: string
  default?: unknown
  enum?: unknown[]
  const?: unknown
  allOf?: Node[]
  anyOf?: Node[]
  items?: Node
  properties?: Record<string, Node>
  additionalProperties?: Node | boolean
}

interface ListedKey {
  /** Where the key belongs: '', 'docker', 'docker.services.<name>'. */
  section: string
  key: string
  /** 'text', 'number', 'list of text or map'. */
  value: string
  /** 'Default: 10s.', or empty. */
  fallback: string
  description: string
}

function listKeys(): ListedKey[] {
  const root = jsonSchema() as Node & { definitions?: Record<string, Node> }
  const resolve = ({ $ref, allOf = [], ...node }: Node): Node => {
    const named = $ref === undefined ? {} : resolve(root.definitions?.[nameOf($ref)] ?? {})
    return Object.assign({}, named, ...allOf.map(resolve), node)
  }
  const keys: ListedKey[] = []
  const visit = (section: string, given: Node): void => {
    const node = resolve(given)
    for (const inner of node.anyOf ?? []) visit(section, inner)
    if (node.items) visit(section, node.items)
    for (const [key, found] of Object.entries(node.properties ?? {})) {
      const property = resolve(found)
      const { description = '', default: value } = property
      const fallback = value === undefined ? '' : `Default: ${JSON.stringify(value)}.`
      keys.push({ section, key, value: describe(property, resolve), fallback, description })
    }
    for (const [key, found] of Object.entries(node.properties ?? {})) {
      visit(section === '' ? key : `${section}.${key}`, found)
    }
    const { additionalProperties: named } = node
    if (typeof named === 'object') visit(`${section}.<name>`, named)
  }
  visit('', root)
  return keys
}

const nameOf = (reference: string): string => reference.replace('#/definitions/', '')

function describe(node: Node, resolve: (node: Node) => Node): string {
  if (node.const !== undefined) return JSON.stringify(node.const)
  if (node.enum) return node.enum.map((value) => JSON.stringify(value)).join(' or ')
  if (node.anyOf) {
    return [...new Set(node.anyOf.map((inner) => describe(resolve(inner), resolve)))].join(' or ')
  }
  switch (node.type) {
    case 'array':
      return `list of ${node.items ? describe(resolve(node.items), resolve) : 'values'}`
    case 'object':
      return 'map'
    case 'string':
      return 'text'
    case 'integer':
      return 'number'
    default:
      return String(node.type ?? 'value').replaceAll(',', ' or ')
  }
}

const cell = (text: string): string => text.replaceAll(/([<>*_])/g, '\\$1')

export function renderKeys(): string {
  const sections = new Map<string, string[]>()
  for (const { section, key, value, fallback, description } of listKeys()) {
    const said = [fallback, description].filter((text) => text !== '').map(cell)
    const rows = sections.get(section) ?? []
    rows.push(
      [`- \`${key}\` (${cell(value)})`, ...(said.length > 0 ? [said.join(' ')] : [])].join(': '),
    )
    sections.set(section, rows)
  }
  const parts = [...sections].map(([section, rows]) => {
    const title = section === '' ? 'The file' : `\`${section}\``
    return `## ${title}\n\n${rows.join('\n')}\n`
  })
  return [HEAD, ...parts].join('\n')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(KEYS_PAGE, renderKeys())
