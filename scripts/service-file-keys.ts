// Writes docs/reference/service-file-keys.md: every key of .service.yml, from the schema that checks it. `npm run gen`
// runs it, and a test fails when the page is not what it would write.
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { jsonSchema } from '../shared/src/service-file/index.ts'
import { listKeys, type SchemaNode } from '../shared/src/service-file/reference.ts'

export const KEYS_PAGE = fileURLToPath(
  new URL('../docs/reference/service-file-keys.md', import.meta.url),
)

const HEAD = `# Every key of .service.yml

Generated from the schema by \`npm run gen\`. [The reference](service-file.md) explains the keys with examples;
\`berth config validate\` checks a file.
`

const cell = (text: string): string => text.replaceAll(/([<>*_])/g, '\\$1')

export function renderKeys(): string {
  const sections = new Map<string, string[]>()
  for (const { section, key, value, fallback, description } of listKeys(
    jsonSchema() as SchemaNode,
  )) {
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
