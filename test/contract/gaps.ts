// Finds what the reference of the API does not say yet: operations without a sentence, parameters and properties without
// a sentence or an example, examples that do not fit, and entries of the glossary that describe nothing. Each finding
// names the key to add, correct or remove.
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
import { JsonSchemas, type Schema } from './json-schema.ts'

const GLOSSARY = 'control-plane/src/gateways/rest/reference/glossary/'

const addTo = (keys: readonly string[]): string =>
  `add ${keys.map((key) => `'${key}'`).join(' or ')} to a file in ${GLOSSARY}`

/** A sentence worth reading has some words and an end. */
const isSentence = (text: unknown): boolean =>
  typeof text === 'string' && /^\S.*[.?]$/s.test(text) && text.split(/\s+/).length > 2

const exampleOf = ({ kind, target }: Place): unknown =>
  kind === 'parameter' ? target.example : (target.examples as unknown[] | undefined)?.[0]

const judgeOf = (document: Document): JsonSchemas =>
  new JsonSchemas((document.components.schemas ?? {}) as Record<string, Schema>)

const unique = (findings: readonly string[]): string[] => [...new Set(findings)]

export function findSilentOperations(document: Document): string[] {
  return [...operationsOf(document)]
    .filter(({ operation }) => {
      const permission = operation['x-permission'].says
      return !isSentence((operation.description ?? '').slice(0, -permission.length).trim())
    })
    .map(({ operation: { operationId: id } }) => `operation ${id} has no sentence: ${addTo([id])}`)
}

/** Groups of operations. */
export const findSilentTags = (document: Document): string[] =>
  document.tags
    .filter(({ description }) => description === '')
    .map(({ name }) => `tag ${name} has no sentence: add it to TAGS or TAG_OF in openapi.ts`)

export function findSilentPlaces(document: Document): string[] {
  return unique(
    [...placesOf(document)]
      .filter(({ target }) => !isSentence(target.description))
      .map(({ kind, where, keys }) => `${kind} ${where} has no sentence: ${addTo(keys)}`),
  )
}

export function findWrongExamples(document: Document): string[] {
  const judge = judgeOf(document)
  const wrong = [...placesOf(document)].flatMap((place) => {
    const { kind, where, keys, schema } = place
    const example = exampleOf(place)
    if (example === undefined) return [`${kind} ${where} has no example: ${addTo(keys)}`]
    return judge
      .check(schema, example)
      .map((problem) => `${where}: the example of '${findKey(keys)}' does not fit: ${problem}`)
  })
  return unique(wrong)
}

const contents = (operation: Operation) =>
  Object.entries({ body: operation.requestBody, ...operation.responses }).flatMap(
    ([status, body]) =>
      Object.entries(body?.content ?? {}).map(([type, media]) => ({ status, type, media })),
  )

/** Of whole bodies and answers. */
export function findWrongWholes(document: Document): string[] {
  const judge = judgeOf(document)
  return [...operationsOf(document)].flatMap(({ operation }) =>
    contents(operation).flatMap(({ status, type, media }) => {
      const at = `${operation.operationId} ${status} ${type}`
      const [named = ''] = Object.keys(media.examples ?? {})
      const example = media.example ?? document.components.examples?.[named]?.value
      if (example === undefined) {
        return [`${at} has no example: add 'body' or 'answer' to its operation in ${GLOSSARY}`]
      }
      return judge.check(media.schema, example).map((problem) => `${at}: ${problem}`)
    }),
  )
}

export function findUnusedWords(document: Document): string[] {
  const used = new Set([...placesOf(document)].map(({ keys }) => findKey(keys)))
  const ids = new Set([...operationsOf(document)].map(({ operation }) => operation.operationId))
  const unused = [
    ...[...FIELDS.keys()].filter((key) => !used.has(key)),
    ...[...OPERATIONS.keys()].filter((id) => !ids.has(id)),
  ]
  return unused.map((key) => `nothing is described by '${key}': remove it from ${GLOSSARY}`)
}

export const findGaps = (document: Document): string[] => [
  ...findSilentTags(document),
  ...findSilentOperations(document),
  ...findSilentPlaces(document),
  ...findWrongExamples(document),
  ...findWrongWholes(document),
  ...findUnusedWords(document),
]
