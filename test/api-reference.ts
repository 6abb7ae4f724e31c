// Writes docs/reference/api-operations.md and api-schemas.md: the OpenAPI document of a started control plane as pages.
// `npm run gen` runs it, and test/contract/words.test.ts fails when a page is not what it would write.
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import {
  renderOperations,
  renderSchemas,
} from '../control-plane/src/gateways/rest/reference/markdown.ts'
import type { Document } from '../control-plane/src/gateways/rest/reference/operations.ts'
import { findGaps } from './contract/gaps.ts'
import { TestControlPlane } from './fixtures/platform/control-plane.ts'

interface Page {
  file: string
  path: string
  render: (document: Document) => string
}

const pageAt = (file: string, render: Page['render']): Page => ({
  file,
  path: fileURLToPath(new URL(`../docs/reference/${file}`, import.meta.url)),
  render,
})

export const PAGES: Page[] = [
  pageAt('api-operations.md', renderOperations),
  pageAt('api-schemas.md', renderSchemas),
]

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const controlPlane = await TestControlPlane.start('sqlite')
  const { document } = controlPlane.contract
  for (const { path, render } of PAGES) writeFileSync(path, render(document))
  const gaps = findGaps(document)
  if (gaps.length > 0) console.error(['The reference is incomplete:', ...gaps].join('\n'))
  await controlPlane.close()
}
