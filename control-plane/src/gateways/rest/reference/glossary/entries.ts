// The forms of the glossary: what the API reference says about operations, parameters and properties. Each subject has
// its own file; glossary.ts joins them.
import type { Scope } from '@berth/shared/api'

export interface OperationEntry {
  /** The heading, if the route has no summary of its own. */
  title?: string
  /** What it does, what it answers, what to know before calling it. */
  says: string
  /** A rule that replaces the one of the route's `needs`: "the project's owner …". */
  permission?: { name: string; who: string }
  /** The scope that the token needs, if another one than the permission's. */
  scope?: Scope
  /** A rule besides the permission. */
  also?: string
  /** The whole example of a request's body, in place of one that is made of all properties. */
  body?: unknown
  /** What the example of the answer has differently; a text is the whole answer. */
  answer?: Record<string, unknown> | string
}

/** One sentence and an example. Enums, booleans, times and objects take the example from the schema if there is none. */
export type FieldEntry = readonly [sentence: string, example?: unknown]

/**
 * Keys of `fields`, the longest match wins:
 * - a property: `Schema.outer.name`, `outer.name`, `name`; a body without a name of its own has its operation's id
 * - a parameter in the path: `operationId.name`, `/projects/{id}` (the part of the path before it), `{name}`
 * - a parameter of the query: `operationId.name`, `?name`
 */
export interface Glossary {
  operations: Record<string, OperationEntry>
  fields: Record<string, FieldEntry>
}
