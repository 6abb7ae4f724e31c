// The contract: checks the specification's nine endpoints from a table, their OpenAPI document, and that the checker
// notices undocumented answers.
import { ERRORS, type ErrorCode } from '@berth/shared'
import { jsonSchema } from '@berth/shared/service-file'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ERROR_TEXTS } from '../../control-plane/src/gateways/rest/reference/messages.ts'
import { routesOf } from '../../control-plane/src/gateways/rest/reference/openapi.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { publicKey } from '../fixtures/tenants/servers.ts'
import { Contract } from './contract.ts'
import { JsonSchemas, type Schema } from './json-schema.ts'

interface Endpoint {
  method: string
  path: string
  status: number
  shape: 'array' | 'object'
  body?: (cp: Ids) => unknown
}
interface Ids {
  server: number
  project: number
  environment: number
}

/** "Endpoints" of the specification, verbatim. */
const NINE: Endpoint[] = [
  { method: 'GET', path: '/api/me', status: 200, shape: 'object' },
  { method: 'GET', path: '/api/projects', status: 200, shape: 'array' },
  { method: 'GET', path: '/api/projects/{id}/environments', status: 200, shape: 'array' },
  { method: 'GET', path: '/api/environments/{id}/tasks', status: 200, shape: 'array' },
  { method: 'POST', path: '/api/environments/{id}/tasks', status: 201, shape: 'object' },
  { method: 'GET', path: '/api/environments/{id}/diagnostics', status: 200, shape: 'object' },
  { method: 'GET', path: '/api/environments/{id}/variables', status: 200, shape: 'array' },
  {
    method: 'PATCH',
    path: '/api/environments/{id}/variables',
    status: 200,
    shape: 'object',
    body: () => ({ set: { A: 'b' } }),
  },
  {
    method: 'POST',
    path: '/api/servers/{id}/ssh',
    status: 201,
    shape: 'object',
    body: ({ environment }) => ({
      public_key: publicKey(),
      purpose: 'logs',
      environment_id: environment,
    }),
  },
]

let cp: TestControlPlane
let ids: Ids
beforeAll(async () => {
  cp = await TestControlPlane.start('sqlite')
  await cp.setUp()
  const server = await cp.server()
  const project = await cp.project('shop', server.id)
  const environment = await cp.environment(project.id)
  ids = { server: server.id, project: project.id, environment: environment.id }
  const { db } = cp.running.ctx
  const agent = { id: 'agent-1', serverId: server.id, installId: 'i', joinedAt: 1 }
  await db.insertInto('agents').values(agent).execute()
})
afterAll(() => cp.close())

const withId = (path: string): string => {
  const kind = path.split('/')[2]?.replace(/s$/, '') as keyof Ids
  return path.replace('{id}', String(ids[kind]))
}

describe("the specification's nine endpoints", () => {
  test.each(NINE)('$method $path', async ({ method, path, status, shape, body }) => {
    const operation = cp.contract.document.paths[path]?.[method.toLowerCase()]
    expect(operation?.responses[status]).toBeDefined()
    const answer = await cp.call<unknown>(method, withId(path), body?.(ids))
    expect(answer.status, answer.text).toBe(status)
    expect(Array.isArray(answer.body) ? 'array' : typeof answer.body).toBe(shape)
    const bare = await cp.call(method, withId(path), body?.(ids), { authorization: '' })
    expect([bare.status, bare.body.code]).toEqual([401, 'token_missing'])
  })

  test('a project in the list has exactly six fields, its servers three', async () => {
    const { body } = await cp.call<{ servers: object[] }[]>('GET', '/api/projects')
    const fields = ['domain', 'environment_count', 'id', 'name', 'repo_url', 'servers']
    expect(Object.keys(body[0] ?? {}).toSorted()).toEqual(fields)
    expect(Object.keys(body[0]?.servers[0] ?? {}).toSorted()).toEqual(['hostname', 'id', 'name'])
    const schema = cp.contract.document.components.schemas?.Project as { properties: object }
    expect(Object.keys(schema.properties).toSorted()).toEqual(fields)
  })

  test('GET /api/environments/{id}/logs no longer exists, and says where logs are', async () => {
    const path = `/api/environments/${ids.environment}/logs`
    const { status, body } = await cp.call('GET', path)
    expect([status, body.code]).toEqual([404, 'not_found'])
    expect(body.detail).toBe('Container logs are read with the client: berth logs.')
    expect(cp.contract.find('GET', path)).toBeUndefined()
  })
})

describe('the document', () => {
  const operations = () =>
    Object.entries(cp.contract.document.paths).flatMap(([path, item]) =>
      Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
    )

  test('is given out as JSON, and is OpenAPI 3.1', async () => {
    const { body } = await cp.call('GET', '/api/openapi.json', undefined, { authorization: '' })
    expect(body).toEqual(JSON.parse(JSON.stringify(cp.contract.document)))
    expect(body.openapi).toMatch(/^3\.1\./)
  })

  test('every route is in it, says what it needs, and has a name of its own', () => {
    const seen = new Set<string>()
    for (const { path, method, operation } of operations()) {
      const what = `${method} ${path}`
      expect(operation['x-needs'], what).toBeTypeOf('string')
      expect(operation.summary, what).toMatch(/^[A-Z].* |^[A-Z]\w+s$/)
      expect(seen.has(operation.operationId), operation.operationId).toBe(false)
      seen.add(operation.operationId)
      const bearer = operation['x-needs'] === 'nothing' ? [] : [{ bearer: [] }]
      expect(operation.security, what).toEqual(bearer)
      const successes = Object.keys(operation.responses).filter((s) => s.startsWith('2'))
      expect(successes.length, what).toBeGreaterThan(0)
    }
    expect(seen.size).toBeGreaterThan(20)
    const routes = routesOf(cp.running.http).filter(({ route }) => !route.schema?.hide)
    expect(routes.map((r) => `${r.method.toLowerCase()} ${r.path}`).toSorted()).toEqual(
      operations()
        .map((o) => `${o.method} ${o.path}`)
        .toSorted(),
    )
  })

  test('its references lead somewhere, and every schema is one the judge understands', () => {
    const schemas = (cp.contract.document.components.schemas ?? {}) as Record<string, Schema>
    const judge = new JsonSchemas(schemas)
    const references = JSON.stringify(cp.contract.document).match(/#\/components\/[\w/.-]+/g) ?? []
    for (const reference of new Set(references)) {
      const [, , kind = '', name = ''] = reference.split('/')
      expect(cp.contract.document.components[kind]?.[name], reference).toBeDefined()
    }
    for (const schema of Object.values(schemas)) judge.check(schema, {})
  })

  test('what answers with a token or a secret says so, and is then never kept', () => {
    const schemas = (cp.contract.document.components.schemas ?? {}) as Record<string, Schema>
    const secret = /^(token|secret|webhook_secret|password)$/
    let found = 0
    for (const { path, method, operation } of operations()) {
      const success = Object.entries(operation.responses).filter(([s]) => s.startsWith('2'))
      const names = success.flatMap(([, { content }]) => {
        const schema = (content?.['application/json']?.schema ?? {}) as Schema
        const whole = typeof schema.$ref === 'string' ? schemas[schema.$ref.slice(21)] : schema
        const fields = Object.entries((whole?.properties ?? {}) as Record<string, Schema>)
        return fields.filter(([, s]) => [s.type].flat().includes('string')).map(([name]) => name)
      })
      if (!names.some((name) => secret.test(name))) continue
      found += 1
      expect(operation['x-shows-secret'], `${method} ${path}`).toBe(true)
    }
    expect(found).toBeGreaterThan(3)
  })

  test('marks the endpoints of agents, and what shows a secret', () => {
    const { paths } = cp.contract.document
    expect(paths['/api/agent/enroll']?.post?.tags).toEqual(['agents'])
    expect(paths['/api/servers/{id}/join_token']?.post?.['x-shows-secret']).toBe(true)
  })
})

describe('the holder of the contract', () => {
  const answer = async (path: string) => {
    const { status, headers, text } = await cp.call('GET', path)
    return { status, headers, text }
  }
  const problems = (over: object, real: Awaited<ReturnType<typeof answer>>) =>
    cp.contract.problems('GET', '/api/projects', { ...real, ...over })

  test('notices an undocumented field, status, media type, code and a missing header', async () => {
    const real = await answer('/api/projects')
    expect(problems({}, real)).toEqual([])
    const planted = JSON.stringify([{ ...(JSON.parse(real.text)[0] as object), planted: 1 }])
    expect(problems({ text: planted }, real)).toEqual(['$[0].planted is not documented'])
    const deep = real.text.replace('"hostname"', '"host"')
    expect(problems({ text: deep }, real)).toHaveLength(2)
    expect(problems({ status: 418 }, real)).toEqual(['the status 418 is not documented'])
    const headers = new Headers(real.headers)
    headers.set('content-type', 'text/html')
    expect(problems({ headers }, real)).toEqual(['the media type "text/html" is not documented'])
    const bare = new Headers({ 'content-type': 'application/json' })
    expect(problems({ headers: bare }, real)).toHaveLength(2)
    const missing = await answer('/api/projects/4000000')
    const wrong = { ...missing, text: missing.text.replace('"not_found"', '"setup_done"') }
    expect(cp.contract.problems('GET', '/api/projects/4000000', missing)).toEqual([])
    expect(cp.contract.problems('GET', '/api/projects/4000000', wrong)).toHaveLength(1)
  })

  test('fails the test that saw it', async () => {
    const path = '/api/projects'
    const narrower = structuredClone(cp.contract.document)
    const schema = narrower.components.schemas?.Project as { properties: Record<string, object> }
    delete schema.properties.domain
    const contract = new Contract(narrower)
    const real = await answer(path)
    expect(() => contract.hold('GET', path, real)).toThrow(/domain is not documented/)
  })

  test('refuses to judge by a keyword it does not know', () => {
    expect(() => new JsonSchemas({}).check({ contains: {} }, [])).toThrow(/contains/)
  })
})

describe('pages', () => {
  const codes = Object.keys(ERRORS) as ErrorCode[]

  test.each(codes)('/docs/errors/%s says what it means and what to do', async (code) => {
    const { means, next } = ERROR_TEXTS[code] // a code without a text does not compile
    expect(means.length, means).toBeGreaterThan(20)
    expect(next.length, next).toBeGreaterThan(10)
    const { status, text, headers } = await cp.call('GET', `/docs/errors/${code}`)
    expect(status).toBe(200)
    expect(text).toContain(ERRORS[code][1])
    expect(text).toContain(means.split(/[`'"]/)[0])
    expect(headers.get('content-security-policy')).toContain("default-src 'none'")
  })

  test('an unknown code is 404, also one that every object has', async () => {
    for (const code of ['nope', 'constructor', '__proto__', 'toString']) {
      expect((await cp.call('GET', `/docs/errors/${code}`)).status).toBe(404)
    }
  })

  test('the reference has every operation, no script and no address elsewhere', async () => {
    const { text, headers } = await cp.call('GET', '/api/docs')
    for (const item of Object.values(cp.contract.document.paths))
      for (const { operationId } of Object.values(item))
        expect(text).toContain(`id="${operationId}"`)
    expect(text).not.toMatch(/<script|<[^>]*\s(on\w+=|src=|href="?https?:)/i)
    expect(text).toContain('prefers-color-scheme:dark')
    expect(headers.get('content-security-policy')).not.toContain('unsafe')
  })

  test('the schema of .service.yml', async () => {
    const path = '/schemas/service.v1.json'
    const anonymous = { authorization: '', origin: 'https://editor.example.com' }
    const { body, headers } = await cp.call('GET', path, undefined, anonymous)
    expect(body).toEqual(jsonSchema()) // as `berth config schema` prints it
    expect(body.$schema).toContain('draft-07')
    expect(headers.get('access-control-allow-origin')).toBe('*')
    const etag = headers.get('etag') ?? ''
    const again = await cp.call('GET', path, undefined, { ...anonymous, 'if-none-match': etag })
    expect([again.status, again.text, etag]).toEqual([304, '', again.headers.get('etag')])
    expect(again.headers.get('access-control-allow-origin')).toBe('*')
    const other = await cp.call('GET', path, undefined, { 'if-none-match': '"x", "y"' })
    expect(other.status).toBe(200)
    const elsewhere = await cp.call('GET', '/api/health', undefined, anonymous)
    expect(elsewhere.headers.get('access-control-allow-origin')).toBe(null)
  })
})
