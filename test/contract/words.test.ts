// Every operation, parameter and property of the OpenAPI document has a sentence and an example, every operation its
// permission, and all of them are in the reference. A failure names the key to add to, or remove from, the glossary in
// control-plane/src/gateways/rest/reference/glossary/.
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { operationsOf, placesOf } from '../../control-plane/src/gateways/rest/reference/describe.ts'
import type { Document } from '../../control-plane/src/gateways/rest/reference/operations.ts'
import { PAGES } from '../api-reference.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import {
  findSilentOperations,
  findSilentPlaces,
  findSilentTags,
  findUnusedWords,
  findWrongExamples,
  findWrongWholes,
} from './gaps.ts'

let cp: TestControlPlane
let document: Document
beforeAll(async () => {
  cp = await TestControlPlane.start('sqlite')
  document = cp.contract.document
})
afterAll(() => cp.close())

/** Counts by itself, so that no part of the document is passed over. */
function countProperties(value: unknown): number {
  if (value === null || typeof value !== 'object') return 0
  return Object.entries(value).reduce((sum, [key, item]) => {
    if (key === 'example' || key === 'examples') return sum
    const isNames = key === 'properties' && typeof (item as { type?: unknown }).type !== 'string'
    return sum + (isNames ? Object.keys(item as object).length : 0) + countProperties(item)
  }, 0)
}

describe('the glossary', () => {
  test('has a sentence for every operation and group of operations', () => {
    expect(findSilentTags(document)).toEqual([])
    expect(findSilentOperations(document)).toEqual([])
  })

  test('has a sentence for every parameter and property', () => {
    expect(findSilentPlaces(document)).toEqual([])
  })

  test('or the schema has an example for every parameter and property, and it fits', () => {
    expect(findWrongExamples(document)).toEqual([])
  })

  test('gives every body and answer a whole example that fits', () => {
    expect(findWrongWholes(document)).toEqual([])
  })

  test('has no entry that describes nothing', () => {
    expect(findUnusedWords(document)).toEqual([])
  })

  test('is asked about every property of the document', () => {
    const asked = [...placesOf(document)].filter(({ kind }) => kind === 'property')
    expect(asked).toHaveLength(countProperties(document))
    expect(asked.length).toBeGreaterThan(1_000)
  })

  test('what is missing, wrong or left over is named exactly', () => {
    const planted = structuredClone(document)
    const schemas = planted.components.schemas as Record<string, { properties: object }>
    Object.assign(schemas.Task?.properties ?? {}, {
      planted: { type: 'object', properties: { inner: { type: 'string', description: 'Its.' } } },
    })
    const post = planted.paths['/api/environments/{id}/tasks']?.post
    const get = planted.paths['/api/environments/{id}/tasks']?.get
    if (!post || !get) throw new Error('the document has changed')
    post.description = post['x-permission'].says
    get.parameters = [{ name: 'planted', in: 'query', schema: { type: 'string' }, example: 7 }]
    for (const media of Object.values(post.responses['201']?.content ?? {})) delete media.example
    delete planted.paths['/api/health']
    planted.tags.push({ name: 'planted', description: '' })
    expect(findSilentTags(planted).join()).toMatch(/^tag planted has no sentence/)
    const where = 'a file in control-plane/src/gateways/rest/reference/glossary/'
    expect(findSilentOperations(planted)).toEqual([
      `operation createEnvironmentTask has no sentence: add 'createEnvironmentTask' to ${where}`,
    ])
    expect(findSilentPlaces(planted)).toEqual([
      `property Task.planted has no sentence: add 'Task.planted' or 'planted' to ${where}`,
      `property Task.planted.inner has no sentence: add 'Task.planted.inner' or 'planted.inner' or 'inner' to ${where}`,
      `parameter listEnvironmentTasks.planted has no sentence: add 'listEnvironmentTasks.planted' or '?planted' to ${where}`,
    ])
    expect(findWrongExamples(planted)).toEqual([
      `property Task.planted has no example: add 'Task.planted' or 'planted' to ${where}`,
      `property Task.planted.inner has no example: add 'Task.planted.inner' or 'planted.inner' or 'inner' to ${where}`,
      "listEnvironmentTasks.planted: the example of 'undefined' does not fit: $ is integer, not string",
    ])
    expect(findWrongWholes(planted).join()).toContain('createEnvironmentTask 201 application/json')
    expect(findUnusedWords(planted).join()).toContain("nothing is described by 'getHealth'")
  })
})

describe('permissions', () => {
  test('every operation says who may call it, as a sentence and for programs', () => {
    for (const { operation } of operationsOf(document)) {
      const { needs, scope, says } = operation['x-permission']
      const id = operation.operationId
      expect(operation.description, id).toContain(says)
      expect(says, id).toMatch(/^Needs /)
      expect(needs, id).not.toBe('')
      if (operation['x-needs'] === 'nothing') expect([id, scope]).toEqual([id, null])
      if (scope !== null) expect(says, id).toContain(`\`${scope}\``)
    }
  })

  test('they follow the route, and rules beyond roles are told', () => {
    const permission = (path: string, method: string) =>
      document.paths[path]?.[method]?.['x-permission']
    expect(permission('/api/environments/{id}/tasks', 'post')).toEqual({
      needs: 'deploy',
      scope: 'deploy',
      roles: ['developer', 'admin', 'owner'],
      says: 'Needs the permission `deploy` (developer, admin or owner), and a token with the scope `deploy`. While the environment is protected, only its owner may do this.',
    })
    expect(permission('/api/health', 'get')?.says).toBe('Needs no bearer token.')
    expect(permission('/api/me', 'get')?.says).toBe('Needs any valid token.')
    expect(permission('/api/projects/{id}/webhook_secret', 'post')).toMatchObject({
      needs: 'project_owner',
      scope: 'admin',
      roles: [],
    })
    expect(permission('/api/admin/users', 'get')).toMatchObject({
      needs: 'platform_admin',
      scope: 'read',
    })
  })
})

describe('the reference', () => {
  test.each(PAGES)('$file is what the document gives; otherwise run npm run gen', (page) => {
    expect(readFileSync(page.path, 'utf8')).toBe(page.render(document))
  })

  test('has every operation, parameter and property with its sentence', async () => {
    const [operations = '', schemas = ''] = PAGES.map(({ render }) => render(document))
    const { text: page } = await cp.call('GET', '/api/docs', undefined, { authorization: '' })
    const shown = (text: string): string =>
      text
        .replaceAll('&#39;', "'")
        .replaceAll('&quot;', '"')
        .replaceAll(/<\/?code>|`/g, '')
    const html = shown(page)
    for (const { operation } of operationsOf(document)) {
      expect(operations).toContain(`### ${operation.operationId}\n`)
      expect(operations).toContain(operation.description)
      for (const part of (operation.description ?? '').split('\n\n')) {
        expect(html).toContain(shown(part))
      }
    }
    const pages = `${operations}\n${schemas}`.replaceAll('\\|', '|')
    const places = [...placesOf(document)]
    const sentences = new Set(places.map(({ target }) => String(target.description)))
    expect([...sentences].filter((says) => !pages.includes(says))).toEqual([])
    expect([...sentences].filter((says) => !html.includes(shown(says)))).toEqual([])
    const sections = new Map(
      schemas.split(/^## /m).map((section) => [section.split('\n', 1)[0] ?? '', section]),
    )
    const unseen = places.filter(({ kind, where }) => {
      const [schema = '', ...path] = where.split('.')
      if (kind === 'parameter' || !document.components.schemas?.[schema]) return false
      return !sections.get(schema)?.includes(`\n| \`${path.join('.')}\` | `)
    })
    expect(unseen.map(({ where }) => where)).toEqual([])
  })
})
