// Every operation, parameter and property of the OpenAPI document has a sentence and an example, every operation its
// permission, and all of them are in the reference. A failure names the key to add to, or remove from, the glossary in
// control-plane/src/gateways/rest/reference/glossary/.
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  operationsOf,
  type Place,
  placesOf,
} from '../../control-plane/src/gateways/rest/reference/describe.ts'
import {
  FIELDS,
  findKey,
  OPERATIONS,
} from '../../control-plane/src/gateways/rest/reference/glossary/glossary.ts'
import type {
  Document,
  Operation,
} from '../../control-plane/src/gateways/rest/reference/operations.ts'
import { PAGES } from '../api-reference.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { JsonSchemas, type Schema } from './json-schema.ts'

const GLOSSARY = 'control-plane/src/gateways/rest/reference/glossary/'

let cp: TestControlPlane
let document: Document
let judge: JsonSchemas
beforeAll(async () => {
  cp = await TestControlPlane.start('sqlite')
  document = cp.contract.document
  judge = new JsonSchemas((document.components.schemas ?? {}) as Record<string, Schema>)
})
afterAll(() => cp.close())

const exampleOf = ({ kind, target }: Place): unknown =>
  kind === 'parameter' ? target.example : (target.examples as unknown[] | undefined)?.[0]

const advice = (keys: readonly string[]): string =>
  `add ${keys.map((key) => `'${key}'`).join(' or ')} to a file in ${GLOSSARY}`

/** A sentence worth reading has some words and an end. */
const isSentence = (text: unknown): boolean =>
  typeof text === 'string' && /^\S.*[.?…]$/s.test(text) && text.split(/\s+/).length > 2

/** Without the glossary’s help: every object under the key `properties`, wherever it is. */
function countProperties(value: unknown): number {
  if (value === null || typeof value !== 'object') return 0
  return Object.entries(value).reduce((sum, [key, item]) => {
    if (key === 'example' || key === 'examples') return sum
    const isNames = key === 'properties' && typeof (item as { type?: unknown }).type !== 'string'
    return sum + (isNames ? Object.keys(item as object).length : 0) + countProperties(item)
  }, 0)
}

describe('the glossary', () => {
  test('has a sentence for every operation', () => {
    const silent = [...operationsOf(document)]
      .filter(({ operation }) => {
        const permission = operation['x-permission'].says
        const says = (operation.description ?? '').slice(0, -permission.length).trim()
        return !isSentence(says) || operation.summary.split(' ').length < 2
      })
      .map(({ operation }) => `${operation.operationId}: ${advice([operation.operationId])}`)
    expect(silent).toEqual([])
  })

  test('has a sentence for every parameter and property', () => {
    const silent = [...placesOf(document)]
      .filter(({ target }) => !isSentence(target.description))
      .map(({ kind, where, keys }) => `${kind} ${where} has no sentence: ${advice(keys)}`)
    expect([...new Set(silent)]).toEqual([])
  })

  test('or the schema has an example for every parameter and property, and it fits', () => {
    const wrong = [...placesOf(document)].flatMap((place) => {
      const { kind, where, keys, schema } = place
      const example = exampleOf(place)
      if (example === undefined) return [`${kind} ${where} has no example: ${advice(keys)}`]
      return judge
        .check(schema, example)
        .map((problem) => `${where}: the example of '${findKey(keys)}' does not fit: ${problem}`)
    })
    expect([...new Set(wrong)]).toEqual([])
  })

  test('has no entry that describes nothing', () => {
    const used = new Set([...placesOf(document)].map(({ keys }) => findKey(keys)))
    const ids = new Set([...operationsOf(document)].map(({ operation }) => operation.operationId))
    const unused = [
      ...[...FIELDS.keys()].filter((key) => !used.has(key)),
      ...[...OPERATIONS.keys()].filter((id) => !ids.has(id)),
    ]
    expect(unused.map((key) => `remove '${key}' from ${GLOSSARY}: nothing has this name`)).toEqual(
      [],
    )
  })

  test('is asked about every property of the document', () => {
    const asked = [...placesOf(document)].filter(({ kind }) => kind === 'property')
    expect(asked).toHaveLength(countProperties(document))
    expect(asked.length).toBeGreaterThan(1_000)
  })

  test('a place without an entry is named', () => {
    const planted = structuredClone(document)
    const task = planted.components.schemas?.Task as { properties: Record<string, object> }
    task.properties.planted = { type: 'string' }
    const silent = [...placesOf(planted)].filter(({ target }) => !isSentence(target.description))
    expect(silent.map(({ where, keys }) => [where, keys])).toEqual([
      ['Task.planted', ['Task.planted', 'planted']],
    ])
  })
})

describe('bodies and answers', () => {
  const contents = (operation: Operation) =>
    Object.entries({ body: operation.requestBody, ...operation.responses }).flatMap(
      ([status, body]) =>
        Object.entries(body?.content ?? {}).map(([type, media]) => ({ status, type, media })),
    )

  test('have an example that fits their schema', () => {
    const wrong = [...operationsOf(document)].flatMap(({ operation }) =>
      contents(operation).flatMap(({ status, type, media }) => {
        const at = `${operation.operationId} ${status} ${type}`
        const named = Object.keys(media.examples ?? {})[0]
        const shared = document.components.examples?.[named ?? '']?.value
        const example = media.example ?? shared
        if (example === undefined) return [`${at} has no example`]
        return judge.check(media.schema, example).map((problem) => `${at}: ${problem}`)
      }),
    )
    expect(wrong).toEqual([])
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
    expect(permission('/api/health', 'get')?.says).toBe('Needs no token.')
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
    const [operations, schemas] = PAGES.map(({ render }) => render(document))
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
    const everything = `${operations}\n${schemas}`.replaceAll('\\|', '|')
    for (const { where, target } of placesOf(document)) {
      expect(everything, where).toContain(String(target.description))
    }
  })
})
