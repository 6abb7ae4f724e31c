// The reference of .service.yml: its keys, from the JSON schema, and examples. Used by the page of the documentation and
// the page in the dashboard. Has no dependencies, so that a browser loads nothing else for it. PURE.

export interface SchemaNode {
  $ref?: string
  type?: string
  description?: string
  default?: unknown
  enum?: unknown[]
  const?: unknown
  allOf?: SchemaNode[]
  anyOf?: SchemaNode[]
  items?: SchemaNode
  properties?: Record<string, SchemaNode>
  additionalProperties?: SchemaNode | boolean
}

export interface ListedKey {
  /** Where the key belongs: '', 'docker', 'docker.services.<name>'. */
  section: string
  key: string
  /** 'text', 'number', 'list of text or map'. */
  value: string
  /** 'Default: 10s.', or empty. */
  fallback: string
  description: string
}

/** `root` is the schema that `jsonSchema` writes and `/schemas/service.v1.json` serves. */
export function listKeys(
  root: SchemaNode & { definitions?: Record<string, SchemaNode> },
): ListedKey[] {
  const resolve = ({ $ref, allOf = [], ...node }: SchemaNode): SchemaNode => {
    const named = $ref === undefined ? {} : resolve(root.definitions?.[nameOf($ref)] ?? {})
    return Object.assign({}, named, ...allOf.map(resolve), node)
  }
  const keys: ListedKey[] = []
  const visit = (section: string, given: SchemaNode): void => {
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

function describe(node: SchemaNode, resolve: (node: SchemaNode) => SchemaNode): string {
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

/** Whole files, each valid as it is. */
export const EXAMPLES: readonly { title: string; text: string }[] = [
  {
    title: 'Containers',
    text: `docker:
  services:
    web:
      build: .
      port: 3000
      health: /up
      release: node dist/migrate.js
`,
  },
  {
    title: 'Several services',
    text: `docker:
  services:
    web:
      build: .
      port: 3000
      depends_on: [db]
    db:
      image: postgres:16
      port: 5432
      public: false
      volumes: [data:/var/lib/postgresql/data]
  volumes: [data]
`,
  },
  {
    title: 'Commands on the server',
    text: `manual:
  deploy:
    - npm ci
    - npm run build
  services:
    web:
      port: auto
      run: exec node dist/server.js # listens on $PORT
`,
  },
  {
    title: 'Actions and schedules',
    text: `docker:
  services:
    web:
      build: .
      port: 3000
actions:
  export-orders:
    title: Export orders
    run: npm run export
    schedule: 0 6 * * *
    artifacts:
      paths: [exports/*.csv]
`,
  },
]
