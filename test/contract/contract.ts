// Checks every answer of a test against the OpenAPI document: status, media type, fields (closed), error code, and the
// headers of all answers. An answer without a documented operation must be one of the common refusals.
import type { Document } from '../../control-plane/src/gateways/rest/reference/openapi.ts'
import type { Operation } from '../../control-plane/src/gateways/rest/reference/operations.ts'
import { JsonSchemas, type Schema } from './json-schema.ts'

export interface SeenAnswer {
  status: number
  headers: Headers
  text: string
}

const PROBLEM = 'application/problem+json'
/** For an unknown address, an unsupported method, or a request that no route sees. */
const WITHOUT_OPERATION: Record<number, string[]> = {
  400: ['invalid_header', 'invalid_parameter', 'malformed_json'],
  404: ['not_found'],
  405: ['method_not_allowed'],
  408: ['request_timeout'],
  414: ['uri_too_long'],
  415: ['unsupported_media_type'],
  413: ['body_too_large'],
  429: ['rate_limited'],
  431: ['headers_too_large'],
}
/** Gateways outside this contract: bodies of the browser's sign-in, of the dashboard, of forges. */
const OUTSIDE = /^\/(api\/auth|trpc)\//

export class Contract {
  readonly document: Document
  readonly #schemas: JsonSchemas
  readonly #paths: { pattern: RegExp; weight: number; item: Record<string, Operation> }[]

  constructor(document: Document) {
    this.document = document
    this.#schemas = new JsonSchemas((document.components.schemas ?? {}) as Record<string, Schema>)
    this.#paths = Object.entries(document.paths)
      .map(([path, item]) => ({
        pattern: new RegExp(
          `^${path.replaceAll(/[.*+?^$()|[\]\\]/g, '\\$&').replaceAll(/\{[^}]+\}/g, '[^/]+')}$`,
        ),
        weight: path.split('{').length,
        item,
      }))
      .toSorted((a, b) => a.weight - b.weight) // a fixed segment before a parameter
  }

  find(method: string, path: string): Operation | undefined {
    const item = this.#paths.find((p) => p.pattern.test(path))?.item
    const name = method.toLowerCase()
    return item?.[name] ?? (name === 'head' ? item?.get : undefined)
  }

  /** What the document does not promise about an answer. */
  problems(method: string, url: string, answer: SeenAnswer): string[] {
    const path = url.split('?')[0] ?? ''
    if (OUTSIDE.test(path)) return []
    const missing = ['x-request-id', 'berth-version'].filter((h) => !answer.headers.has(h))
    const problems = missing.map((h) => `the header ${h} is missing`)
    const operation = this.find(method, path)
    if (!operation) return problems.concat(this.#withoutOperation(answer))
    const response = operation.responses[String(answer.status)]
    if (!response) return problems.concat(`the status ${answer.status} is not documented`)
    if (method === 'HEAD' || answer.status === 304) {
      return problems.concat(answer.text === '' ? [] : 'there is a body')
    }
    return problems.concat(this.#body(response.content, answer))
  }

  /** Throws on the first undocumented answer. */
  hold(method: string, url: string, answer: SeenAnswer): void {
    const problems = this.problems(method, url, answer)
    if (problems.length === 0) return
    const shown = problems.slice(0, 5).join('; ')
    throw new Error(
      `${method} ${url} answered ${answer.status} outside the contract: ${shown}\n${answer.text.slice(0, 500)}`,
    )
  }

  #body(content: Record<string, { schema: Schema }> | undefined, answer: SeenAnswer): string[] {
    const media = (answer.headers.get('content-type') ?? '').split(';')[0] ?? ''
    if (content === undefined) {
      return answer.text === '' ? [] : [`there is a body of ${media}, and none is documented`]
    }
    const declared = content[media]
    if (!declared) return [`the media type "${media}" is not documented`]
    if (media === 'application/x-ndjson') {
      const lines = answer.text.split('\n').filter(Boolean)
      return lines.flatMap((l) => this.#schemas.check(declared.schema, JSON.parse(l) as unknown))
    }
    if (!media.endsWith('json')) return []
    return this.#schemas.check(declared.schema, JSON.parse(answer.text) as unknown)
  }

  #withoutOperation(answer: SeenAnswer): string[] {
    const codes = WITHOUT_OPERATION[answer.status]
    if (!codes) return [`the address is not documented, and the status is ${answer.status}`]
    if (answer.text === '') return [] // HEAD
    const problem = JSON.parse(answer.text) as { code?: string }
    if (answer.headers.get('content-type')?.startsWith(PROBLEM) !== true) return ['no problem']
    return codes.includes(problem.code ?? '') ? [] : [`the code ${problem.code} is not common`]
  }
}
